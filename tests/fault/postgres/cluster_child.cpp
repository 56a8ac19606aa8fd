// One process of a cluster on one PostgreSQL table: it writes events, each beside a business row of the same
// transaction, and, as a node, delivers whatever comes by.
//
//   outbox_cluster_child CONNECTION SCHEMA LEDGER NAME node|writer EVENTS LEASE
//
// It says its incarnation, writes, and runs until SIGTERM; then it stops and prints its counters. Lines of the ledger:
//   C id        the writer knows that it was committed        U id        it does not know
//   D id NAME   a listener of this process was called
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;

struct arguments {
  std::string connection, schema, ledger, name, role;
  int events;
  std::chrono::seconds lease;
};

void append(int fd, std::string const& line) {
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

std::shared_ptr<outbox::store> open_store(arguments const& a) {
  outbox::postgres::options o;
  o.schema = a.schema;
  o.migrate = false;
  o.timeout = 5s;
  o.log = nullptr;
  return outbox::postgres::open(a.connection, o);
}

outbox::node make_node(arguments const& a, int ledger) {
  if (a.role == "writer") return outbox::writer_only({.store = open_store(a), .log = nullptr});
  outbox::multi_node_options o{.store = open_store(a), .log = nullptr};
  o.poll = {.every = 50ms, .batch = 50};
  o.queue = {.hot = 100, .cold = 200};
  o.lease.duration = a.lease;
  o.lease.max_crashes = 20;
  o.listeners.on("t", [ledger, name = a.name](outbox::delivery const& d) {
    append(ledger, "D " + d.id + " " + name + "\n");
    std::this_thread::sleep_for(200us);  // as long as a listener may take
  });
  return outbox::multi_node(std::move(o));
}

// Goes on through every outage; an event whose transaction failed is not tried again.
void write_events(arguments const& a, outbox::writer const& w, int ledger, std::atomic<bool> const& stop) {
  std::unique_ptr<outbox::postgres::connection> c;
  for (int i = 0; i < a.events && !stop; ++i) {
    auto const id = a.name + "-" + std::to_string(i);
    try {
      if (!c) c = std::make_unique<outbox::postgres::connection>(a.connection);
      outbox::postgres::transaction tx{
          *c, i % 2 == 0 ? outbox::postgres::send_mode::immediate : outbox::postgres::send_mode::pipelined};
      tx.enqueue("INSERT INTO " + a.schema + ".orders VALUES ($1)", id);
      w.write(tx, "t", "1", {.id = id});
      if (i % 10 == 9) continue;  // rolled back
      tx.commit();
      append(ledger, "C " + id + "\n");
    } catch (outbox::error const& e) {
      c.reset();
      if (e.in_doubt()) append(ledger, "U " + id + "\n");
      if (!e.transient() && !e.in_doubt()) std::abort();
      std::this_thread::sleep_for(20ms);  // as an application does that lost its database
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) return 2;
  arguments const a{
      argv[1], argv[2], argv[3], argv[4], argv[5], std::atoi(argv[6]), std::chrono::seconds{std::atoi(argv[7])}};
  ::sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &end, nullptr);
  int const ledger = ::open(a.ledger.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  auto n = make_node(a, ledger);
  n.start();
  std::cout << n.incarnation() << std::endl;
  std::atomic<bool> stop = false;
  std::jthread writing{[&] { write_events(a, n.writer(), ledger, stop); }};
  int received = 0;
  if (a.role == "node") ::sigwait(&end, &received);
  if (a.role == "node") stop = true;
  writing.join();
  bool const drained = n.stop(60s);
  auto const c = n.counters();
  std::cout << c.hot_enqueued << ' ' << c.cold_enqueued << ' ' << c.settled << ' ' << c.released << ' ' << c.lost << ' '
            << c.unconfirmed << ' ' << c.held << std::endl;
  return drained ? 0 : 1;
}
