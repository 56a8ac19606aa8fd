// An order service: an HTTP interface, one database, and an outbox between them.
//
//   order_service [--db URL] [--listen ADDRESS:PORT] [--config FILE]
//
// The README beside this file shows it at work.
#include <pthread.h>
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <outbox/config.hpp>
#include <outbox/open_store.hpp>
#include <outbox/outbox.hpp>
#include <outbox/prometheus.hpp>

#include "http_api.hpp"
#include "orders.hpp"

namespace order_service {
namespace {

struct settings {
  std::string db = "sqlite:orders.db";
  std::string listen = "127.0.0.1:8080";
  std::string config;
};

/// SIGTERM and SIGINT, which only `wait()` receives. Make it before any thread.
class end_signals {
 public:
  end_signals() {
    sigemptyset(&set_);
    for (int const s : {SIGTERM, SIGINT}) sigaddset(&set_, s);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }

  /// Returns when one came. A second one ends the process at once.
  void wait() const {
    int which = 0;
    sigwait(&set_, &which);
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }

 private:
  sigset_t set_{};
};

// The application's listener. Several threads call it at once.
outbox::result ship(order_book& book, outbox::delivery const& d) {
  auto const e = outbox::decode<order_placed>(d.event);
  book.ship(e.order_id, d.id);
  return outbox::done;
}

// The file says where events go: to the listener "shipping", to Kafka, to a file. It need not say where they are.
outbox::node node_from_file(settings const& s, order_book& book, std::shared_ptr<outbox::metrics> figures) {
  // store.url: orders and events are in the same database. No other thread runs yet.
  ::setenv("OUTBOX_STORE__URL", s.db.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  outbox::config_extras extras;
  extras.listeners["shipping"] = [&book](outbox::delivery const& d, outbox::completion answer) {
    answer(ship(book, d));
  };
  extras.metrics = std::move(figures);
  return outbox::node_from_config(s.config, std::move(extras));
}

// One process works on a SQLite file; any number of instances share a database on a server.
outbox::node node_in_process(settings const& s, order_book& book, std::shared_ptr<outbox::metrics> figures) {
  outbox::listeners listeners;
  listeners.on(order_placed::event_type, [&book](outbox::delivery const& d) { return ship(book, d); },
               {.name = "shipping"});
  outbox::node_options options{.store = outbox::open_store(s.db), .listeners = std::move(listeners)};
  options.metrics = std::move(figures);
  bool const alone = s.db.starts_with("sqlite:");
  return alone ? outbox::single_node(std::move(options)) : outbox::multi_node(std::move(options));
}

int serve(settings const& s) {
  end_signals const signals;
  auto const book = open_order_book(s.db);  // outlives the node, whose listener uses it
  auto const figures = std::make_shared<outbox::prometheus::registry>();
  auto exporter = figures->exporter({.table = "orders"});
  auto node =
      s.config.empty() ? node_in_process(s, *book, std::move(exporter)) : node_from_file(s, *book, std::move(exporter));
  node.start();
  {
    http_api const api{s.listen, *book, node.writer(), [&node] { return node.health(); }, figures};
    std::printf("order_service listens on port %d\n", api.port());
    std::fflush(stdout);
    signals.wait();
    std::printf("stopping: requests and deliveries that were begun are finished first\n");
    std::fflush(stdout);
  }
  // No request runs any more. What is not delivered in time stays in the table, for the next start or another instance.
  std::printf("stopped: %s\n", node.stop() ? "everything was delivered" : "some events are left for the next start");
  return 0;
}

}  // namespace
}  // namespace order_service

int main(int argc, char** argv) {
  order_service::settings s;
  CLI::App app{"order_service: orders by HTTP, each with an event in its transaction"};
  app.add_option("--db", s.db, "sqlite:FILE, postgresql://…, mysql://… or mariadb://…")
      ->envname("OUTBOX_DB")
      ->capture_default_str();
  app.add_option("--listen", s.listen, "address:port; port 0: any that is free")->capture_default_str();
  app.add_option("--config", s.config, "a TOML file that says how events are delivered; default: in this process");
  CLI11_PARSE(app, argc, argv)
  try {
    return order_service::serve(s);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "order_service: %s\n", e.what());
    return 1;
  }
}
