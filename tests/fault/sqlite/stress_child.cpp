// One of several processes on one file: it writes with two threads, delivers whatever comes by, and answers at random.
//
//   outbox_stress_child DATABASE LEDGER PROCESS EVENTS EXPECTED
//
// Each thread writes EVENTS transactions and rolls back every fifth. The process ends when all EXPECTED rows of all
// processes are finished; it then prints its counters. A ledger line is "D id" or "X id" for an event that was done or
// given up.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <random>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;

struct arguments {
  std::string database, ledger, process;
  int events;
  std::uint64_t expected;
};

void append(int fd, std::string const& line) {
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

outbox::result answer(int ledger, outbox::delivery const& d) {
  thread_local std::mt19937 random{std::random_device{}()};
  switch (random() % 12) {
    case 0: return outbox::failed{"at random"};
    case 1: throw std::runtime_error{"at random"};
    case 2: return outbox::defer{std::chrono::milliseconds{random() % 20}, "at random"};
    case 3: return outbox::failed{"at random", std::chrono::milliseconds{random() % 20}};
    case 4: append(ledger, "X " + d.id + "\n"); return outbox::dead{"at random"};
    default: append(ledger, "D " + d.id + "\n"); return outbox::done;
  }
}

outbox::node make_node(arguments const& a, int ledger) {
  outbox::multi_node_options o{.store = outbox::sqlite::open(a.database, {.busy_timeout = 60s})};
  o.poll = {.every = 20ms, .batch = 20};
  o.queue = {.hot = 10, .cold = 50};  // small, so that both paths are used
  o.retry = {.max_attempts = 1000, .backoff = {.base = 1ms, .cap = 10ms}};
  o.log = nullptr;
  o.listeners.on("t", [ledger](outbox::delivery const& d) { return answer(ledger, d); });
  return outbox::multi_node(std::move(o));
}

void write_events(arguments const& a, outbox::writer const& w, int thread) {
  outbox::sqlite::connection db{a.database, 60s};
  for (int i = 0; i < a.events; ++i) {
    outbox::sqlite::transaction tx{db};
    w.write(tx, "t", "1", {.id = a.process + "-" + std::to_string(thread) + "-" + std::to_string(i)});
    if (i % 5 != 4) tx.commit();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  arguments const a{argv[1], argv[2], argv[3], std::atoi(argv[4]), std::strtoull(argv[5], nullptr, 10)};
  int const ledger = ::open(a.ledger.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  auto n = make_node(a, ledger);
  n.start();
  {
    std::jthread const first{[&] { write_events(a, n.writer(), 1); }};
    std::jthread const second{[&] { write_events(a, n.writer(), 2); }};
  }
  auto const store = outbox::sqlite::open(a.database, {.busy_timeout = 60s});
  for (auto c = store->inspect().counts(); c.done + c.dead < a.expected; c = store->inspect().counts()) {
    std::this_thread::sleep_for(2ms);
  }
  bool const drained = n.stop();
  auto const c = n.counters();
  std::cout << c.hot_enqueued << ' ' << c.cold_enqueued << ' ' << c.delivered << ' ' << c.failed << ' ' << c.deferred
            << ' ' << c.dead << ' ' << c.settled << ' ' << c.released << ' ' << c.lost << ' ' << c.unconfirmed << ' '
            << c.held << std::endl;
  return drained ? 0 : 1;
}
