// One process of a cluster on one table: it writes events, each beside a business row of the same transaction, and, as
// a node, delivers whatever comes by.
//
//   CONNECTION SCHEMA LEDGER NAME node|writer EVENTS LEASE
//
// It says its incarnation, writes, and runs until SIGTERM; then it stops and prints its counters. Lines of the ledger:
//   C id        the writer knows that it was committed        U id        it does not know
//   D id NAME   a listener of this process was called
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <outbox/outbox.hpp>
#include <string>
#include <thread>

namespace outbox::cluster {

using namespace std::chrono_literals;

struct arguments {
  std::string connection, schema, ledger, name, role;
  int events;
  std::chrono::seconds lease;
};

inline void append(int fd, std::string const& line) {
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

/// What a database adds:
///
///     struct database {
///       using connection = …;                                             // made from arguments::connection
///       static std::shared_ptr<outbox::store> open(arguments const&);
///       /// Inserts `id` into the table "orders", writes the event, and commits if it should.
///       static void write(connection&, arguments const&, writer const&, int number, std::string const& id, bool
///       commit);
///     };
template <class Database>
class child {
 public:
  explicit child(arguments a)
      : a_{std::move(a)}, ledger_{::open(a_.ledger.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666)} {}

  int run() {
    ::sigset_t end;
    ::sigemptyset(&end);
    ::sigaddset(&end, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &end, nullptr);
    auto n = make_node();
    n.start();
    std::cout << n.incarnation() << std::endl;
    std::atomic<bool> stop = false;
    std::jthread writing{[&] { write_events(n.writer(), stop); }};
    int received = 0;
    if (a_.role == "node") ::sigwait(&end, &received);
    if (a_.role == "node") stop = true;
    writing.join();
    bool const drained = n.stop(60s);
    auto const c = n.counters();
    std::cout << c.hot_enqueued << ' ' << c.cold_enqueued << ' ' << c.settled << ' ' << c.released << ' ' << c.lost
              << ' ' << c.unconfirmed << ' ' << c.held << std::endl;
    return drained ? 0 : 1;
  }

 private:
  node make_node() const {
    if (a_.role == "writer") return writer_only({.store = Database::open(a_), .log = nullptr});
    multi_node_options o{.store = Database::open(a_), .log = nullptr};
    o.poll = {.every = 50ms, .batch = 50};
    o.queue = {.hot = 100, .cold = 200};
    o.lease.duration = a_.lease;
    o.lease.max_crashes = 20;
    o.listeners.on("t", [ledger = ledger_, name = a_.name](delivery const& d) {
      append(ledger, "D " + d.id + " " + name + "\n");
      std::this_thread::sleep_for(200us);  // as long as a listener may take
    });
    return multi_node(std::move(o));
  }

  // Goes on through every outage; an event whose transaction failed is not tried again.
  void write_events(writer const& w, std::atomic<bool> const& stop) const {
    std::unique_ptr<typename Database::connection> c;
    for (int i = 0; i < a_.events && !stop; ++i) {
      auto const id = a_.name + "-" + std::to_string(i);
      bool const commit = i % 10 != 9;
      try {
        if (!c) c = std::make_unique<typename Database::connection>(a_.connection);
        Database::write(*c, a_, w, i, id, commit);
        if (commit) append(ledger_, "C " + id + "\n");
      } catch (error const& e) {
        c.reset();
        if (e.in_doubt()) append(ledger_, "U " + id + "\n");
        if (!e.transient() && !e.in_doubt()) {
          std::cerr << a_.name << ": " << e.what() << std::endl;
          std::abort();
        }
        std::this_thread::sleep_for(20ms);  // as an application does that lost its database
      }
    }
  }

  arguments a_;
  int ledger_;
};

template <class Database>
int run_child(int argc, char** argv) {
  if (argc != 8) return 2;
  return child<Database>{arguments{argv[1], argv[2], argv[3], argv[4], argv[5], std::atoi(argv[6]),
                                   std::chrono::seconds{std::atoi(argv[7])}}}
      .run();
}

}  // namespace outbox::cluster
