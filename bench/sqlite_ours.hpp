// The same business row and event through the library, as a service writes them.
#pragma once

#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <string>
#include <thread>
#include <utility>

#include "sqlite_by_hand.hpp"
#include "suites.hpp"

namespace bench {

class writer_of_ours {
 public:
  writer_of_ours(std::string const& path, outbox::writer writer, bool full = true)
      : writer_{std::move(writer)}, db_{path, std::chrono::seconds{60}} {
    if (!full) db_.execute("PRAGMA synchronous = NORMAL");
    sqlite3_stmt* raw = nullptr;
    sqlite3_prepare_v3(db_.handle(), "INSERT INTO orders (id, cents) VALUES (?1, 1999)", -1, SQLITE_PREPARE_PERSISTENT,
                       &raw, nullptr);
    order_.reset(raw);
  }

  void write(std::string id) {
    outbox::sqlite::transaction tx{db_};
    put(order_, 1, id);
    sqlite3_step(order_.get());
    sqlite3_reset(order_.get());
    writer_.write(tx, "order.placed", payload, {.id = std::move(id)});
    tx.commit();
  }

  [[nodiscard]] outbox::sqlite::connection& db() noexcept { return db_; }

 private:
  outbox::writer writer_;
  outbox::sqlite::connection db_;
  statement order_;  // goes before its connection
};

/// Until `count` rows are DONE and none is pending.
inline void wait_until_done(std::string const& path, std::int64_t count) {
  database const db{path};
  auto const pending = db.prepare("SELECT 1 FROM outbox_event WHERE status IN (0, 2) AND blocked IS NOT TRUE LIMIT 1");
  while (true) {
    bool const some = sqlite3_step(pending.get()) == SQLITE_ROW;
    sqlite3_reset(pending.get());
    if (!some && db.number("SELECT count(*) FROM outbox_event WHERE status = 1") == count) return;
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
}

}  // namespace bench
