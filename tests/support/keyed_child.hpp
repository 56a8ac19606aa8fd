// One process of a cluster whose table keeps the order of keys: it writes events, each numbered within its key under
// the lock of that key, and as a node delivers whatever comes by, with listeners that fail and defer now and then.
//
//   CONNECTION SCHEMA LEDGER NAME EVENTS LEASE KEYS
//
// It says its incarnation, writes, and runs until SIGTERM; then it stops and prints its counters. Lines of the ledger,
// where KEY:N is an event's id:
//   C KEY:N           it was committed
//   B KEY:N NAME      a listener of this process was called
//   S KEY:N NAME      and was done         F KEY:N NAME   and failed         D KEY:N NAME   and deferred it
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <outbox/outbox.hpp>
#include <set>
#include <string>
#include <thread>

namespace outbox::cluster {

using namespace std::chrono_literals;

struct keyed_arguments {
  std::string connection, schema, ledger, name;
  int events;
  std::chrono::seconds lease;
  int keys;
};

/// What a database adds:
///
///     struct database {
///       using connection = …;                                             // made from keyed_arguments::connection
///       static std::shared_ptr<outbox::store> open(keyed_arguments const&);
///       /// In one transaction: adds 1 to the number of `key` in the table "numbers", which locks its row, and writes
///       /// what `event_of` makes of the new number. Commits if it should. Returns the number.
///       static int write(connection&, keyed_arguments const&, writer const&, std::string const& key,
///                        std::function<event(int)> const& event_of, bool commit);
///     };
template <class Database>
class keyed_child {
 public:
  explicit keyed_child(keyed_arguments a)
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
    ::sigwait(&end, &received);
    stop = true;
    writing.join();
    bool const drained = n.stop(60s);
    auto const c = n.counters();
    std::cout << c.hot_enqueued << ' ' << c.cold_enqueued << ' ' << c.settled << ' ' << c.released << ' ' << c.lost
              << ' ' << c.unconfirmed << ' ' << c.held << ' ' << c.noted << ' ' << c.unblocked << ' ' << c.healed
              << std::endl;
    return drained ? 0 : 1;
  }

 private:
  void say(char what, std::string const& id) const { say(std::string{what} + " " + id + " " + a_.name + "\n"); }
  void say(std::string const& line) const {
    if (::write(ledger_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
  }

  node make_node() {
    keyed_options o{.store = Database::open(a_), .log = nullptr};
    o.poll = {.every = 50ms, .batch = 50};
    o.queue = {.hot = 100, .cold = 200};
    o.lease.duration = a_.lease;
    o.lease.max_crashes = 20;
    o.retry.backoff = {.base = 20ms, .cap = 100ms};
    o.listeners.on("t", [this](delivery const& d) { return answer(d); });
    return keyed(std::move(o));
  }

  // An event fails at its first attempt or is deferred once by each process, or neither.
  result answer(delivery const& d) {
    say('B', d.id);
    std::this_thread::sleep_for(200us);  // as long as a listener may take
    auto const draw = std::hash<std::string>{}(d.id) % 100;
    if (draw < 5 && d.attempt == 1) {
      say('F', d.id);
      return failed{"for once"};
    }
    if (draw >= 5 && draw < 8 && is_first(d.id)) {
      say('D', d.id);
      return defer{10ms, "not yet"};
    }
    say('S', d.id);
    return done;
  }

  bool is_first(std::string const& id) {
    std::lock_guard const lock{mutex_};
    return deferred_.insert(id).second;
  }

  void write_events(writer const& w, std::atomic<bool> const& stop) const {
    std::unique_ptr<typename Database::connection> c;
    for (int i = 0; i < a_.events && !stop; ++i) {
      auto const key = "k" + std::to_string(std::hash<std::string>{}(a_.name + std::to_string(i)) %
                                            static_cast<std::size_t>(a_.keys));
      auto const event_of = [&](int n) {
        return event::json("t", "1", {.id = key + ":" + std::to_string(n), .ordering_key = key});
      };
      bool const commit = i % 10 != 9;
      try {
        if (!c) c = std::make_unique<typename Database::connection>(a_.connection);
        auto const n = Database::write(*c, a_, w, key, event_of, commit);
        if (commit) say("C " + key + ":" + std::to_string(n) + "\n");
      } catch (error const& e) {  // a test ends sessions of a process that stood still
        c.reset();
        if (!e.transient() && !e.in_doubt()) {
          std::cerr << a_.name << ": " << e.what() << std::endl;
          std::abort();
        }
      }
    }
  }

  keyed_arguments a_;
  int ledger_;
  std::mutex mutex_;
  std::set<std::string> deferred_;
};

template <class Database>
int run_keyed_child(int argc, char** argv) {
  if (argc != 8) return 2;
  return keyed_child<Database>{keyed_arguments{argv[1], argv[2], argv[3], argv[4], std::atoi(argv[5]),
                                               std::chrono::seconds{std::atoi(argv[6])}, std::atoi(argv[7])}}
      .run();
}

}  // namespace outbox::cluster
