// One of several keyed nodes on one file: it writes events of a few keys with two threads, delivers whatever comes by,
// and answers at random.
//
//   outbox_keyed_stress_child DATABASE LEDGER PROCESS EVENTS EXPECTED
//
// Each thread writes EVENTS transactions and rolls back every fifth. The process ends when all EXPECTED rows of all
// processes are finished; it then prints how many deliveries came on the hot path and how many on the cold path. A
// ledger line is "S id" at the start of a call, then "D id", "X id" or "F id": delivered, given up, or to be tried
// again.
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

void append(int fd, char what, std::string const& id) {
  auto const line = std::string{what} + ' ' + id + '\n';
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

outbox::result answer(int ledger, outbox::delivery const& d) {
  thread_local std::mt19937 random{std::random_device{}()};
  append(ledger, 'S', d.id);
  auto const says = [&](char what, outbox::result r) {
    append(ledger, what, d.id);
    return r;
  };
  switch (random() % 16) {
    case 0: return says('F', outbox::failed{"at random"});
    case 1: return says('F', outbox::defer{std::chrono::milliseconds{random() % 20}, ""});
    case 2: return says('X', outbox::dead{"at random"});
    default: return says('D', outbox::done);
  }
}

outbox::node make_node(arguments const& a, int ledger) {
  outbox::keyed_options o{.store = outbox::sqlite::open(a.database, {.busy_timeout = 60s})};
  o.poll = {.every = 20ms, .batch = 20};
  o.queue = {.hot = 10, .cold = 50};  // small, so that both paths are used
  o.retry = {.max_attempts = 1000, .backoff = {.base = 1ms, .cap = 10ms}};
  o.on_dead = outbox::on_dead::skip;
  o.log = nullptr;
  o.listeners.on("t", [ledger](outbox::delivery const& d) { return answer(ledger, d); });
  return outbox::keyed(std::move(o));
}

void write_events(arguments const& a, outbox::writer const& w, int thread) {
  outbox::sqlite::connection db{a.database, 60s};
  for (int i = 0; i < a.events; ++i) {
    outbox::sqlite::transaction tx{db};
    w.write(tx, "t", "1",
            {.id = a.process + "-" + std::to_string(thread) + "-" + std::to_string(i),
             .ordering_key = "k" + std::to_string((i * 7 + thread) % 9)});
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
  std::cout << c.hot_enqueued << ' ' << c.cold_enqueued << ' ' << c.lost << ' ' << c.healed << std::endl;
  return drained ? 0 : 1;
}
