// A process that is killed. It writes orders with events and delivers them, and says what it did in a ledger.
//
//   outbox_fault_child load|drain|wait DATABASE LEDGER LIFE SEED MAX_CRASHES
//
// load: two threads write until the process is killed. drain: delivers until nothing is pending, then exits. wait: says
// when it has become the node that dispatches, and goes on. A ledger line is "S life id" for a delivery that succeeded.
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
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
  std::string mode, database, ledger;
  int life;
  unsigned seed;
  int max_crashes;
};

// One write per line: a line is whole or not there, whatever happens to the process.
void append(int fd, std::string const& line) {
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::abort();
}

outbox::node make_node(arguments const& a, int ledger) {
  outbox::single_node_options o{.store = outbox::sqlite::open(a.database, {.busy_timeout = 20s})};
  o.poll.every = 20ms;
  o.lease = {.duration = 60s, .max_crashes = a.max_crashes};
  o.retry.backoff = {.base = 1ms, .cap = 2ms};
  o.log = nullptr;
  o.listeners.on("order.placed", [ledger, a](outbox::delivery const& d) -> outbox::result {
    if (d.id.starts_with("poison")) ::kill(::getpid(), SIGKILL);
    if (d.attempt == 1 && d.id.back() == '7') return outbox::failed{"the first try of every tenth"};
    append(ledger, "S " + std::to_string(a.life) + " " + d.id + "\n");
    return outbox::done;
  });
  return outbox::single_node(std::move(o));
}

void write_orders(arguments const& a, outbox::writer const& w, int thread) {
  outbox::sqlite::connection db{a.database, 20s};
  std::mt19937 random{a.seed * 31U + static_cast<unsigned>(thread)};
  for (int i = 0;; ++i) {
    auto const id = std::to_string(a.life) + "-" + std::to_string(thread) + "-" + std::to_string(i);
    try {
      outbox::sqlite::transaction tx{db};
      tx.execute("INSERT INTO orders (id) VALUES (?)", id);
      w.write(tx, "order.placed", "{\"id\":\"" + id + "\"}", {.id = id});
      if (random() % 5 == 0) {
        db.execute("SAVEPOINT s");
        w.write(tx, "order.placed", "1", {.id = "undone-" + id});
        db.execute("ROLLBACK TO s");
      }
      if (random() % 4 == 0) continue;  // rolled back
      tx.commit();
    } catch (outbox::error const& e) {
      if (!e.transient()) throw;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  arguments const a{argv[1],           argv[2], argv[3], std::atoi(argv[4]), static_cast<unsigned>(std::atoi(argv[5])),
                    std::atoi(argv[6])};
  int const ledger = ::open(a.ledger.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  auto n = make_node(a, ledger);
  if (a.mode == "drain") std::cout << "ready" << std::endl;  // what it drains may kill it at once
  n.start();
  if (a.mode != "drain") std::cout << "ready" << std::endl;
  if (a.mode == "load") {
    std::thread second{[&] { write_orders(a, n.writer(), 2); }};
    write_orders(a, n.writer(), 1);
  }
  if (a.mode == "wait") {
    while (!n.health().active) std::this_thread::sleep_for(1ms);
    std::cout << "active" << std::endl;
    std::this_thread::sleep_for(1h);
  }
  auto const store = outbox::sqlite::open(a.database, {.busy_timeout = 20s});
  while (store->inspect().counts().pending() > 0) std::this_thread::sleep_for(1ms);
  return n.stop(60s) ? 0 : 1;
}
