#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <stdexcept>
#include <thread>

#include "shop.hpp"

namespace demo {
namespace {

using namespace std::chrono_literals;

// A file of lines, each complete or absent, whatever happens to the process. Any thread may append. Instants are those
// of the machine's steady clock, which is the same for all processes.
class ledger {
 public:
  explicit ledger(std::string const& path) : fd_{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644)} {}
  ~ledger() { ::close(fd_); }
  ledger(ledger const&) = delete;
  ledger& operator=(ledger const&) = delete;

  bool append(std::string const& what, int order, std::string const& rest = "") const {
    auto const now = std::chrono::steady_clock::now().time_since_epoch().count();
    auto const line = what + " " + std::to_string(order) + " " + std::to_string(now) + rest + "\n";
    return ::write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  }

 private:
  int fd_;
};

outbox::listeners carrier(ledger const& book, bool repaired) {
  outbox::listeners listeners;
  listeners.on<order_placed>(
      [&book, repaired](order_placed const& e, outbox::delivery const& d) -> outbox::result {
        if (has_a_wrong_address(e.order) && !repaired) {
          book.append("dead", e.order);
          return outbox::dead{"no such address"};
        }
        if (meets_a_closed_carrier(e.order) && d.attempt == 1) {
          book.append("failed", e.order);
          return outbox::failed{"the carrier is closed", 50ms};
        }
        auto const how = std::string{d.path == outbox::path::hot ? " hot " : " cold "} + std::to_string(d.attempt);
        if (!book.append("delivered", e.order, how)) return outbox::failed{"the ledger is full"};
        return outbox::done;
      },
      {.name = "carrier", .timeout = 5s});
  return listeners;
}

void place(outbox::writer const& writer, outbox::sqlite::connection& db, ledger const& book, int order) {
  auto const id = std::to_string(order);
  outbox::event_options options{.id = "event-" + id, .aggregate = {"order", id}};
  if (is_delayed(order)) options.deliver_after = 300ms;
  book.append("written", order);
  outbox::sqlite::transaction tx{db};
  tx.execute("INSERT INTO orders (id) VALUES (?)", order);
  writer.write(tx, order_placed{order, 1999}, std::move(options));
  if (rolls_back(order)) return;
  tx.commit();
  book.append("committed", order);
}

}  // namespace

int serve(files const& f, int first, int last, bool repaired) {
  ledger const book{f.ledger};
  auto const store = outbox::sqlite::open(f.database);
  auto box = outbox::single_node({.store = store, .listeners = carrier(book, repaired), .log = nullptr});
  box.start();
  if (repaired) {
    for (auto const& e : box.dead_events().query({}, 1000)) book.append("replayed", std::stoi(e.event.aggregate_id()));
    box.dead_events().replay_all();
  }
  outbox::sqlite::connection db{f.database};
  for (int order = first; order <= last; ++order) {
    place(box.writer(), db, book, order);
    std::printf("%d\n", order);  // the parent counts these lines
    std::fflush(stdout);
  }
  while (store->inspect().counts().pending() > 0) std::this_thread::sleep_for(1ms);
  return box.stop() ? 0 : 1;
}

}  // namespace demo
