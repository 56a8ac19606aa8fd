#include "sqlite_lean.hpp"

#include <chrono>
#include <vector>

namespace bench {
namespace {

std::int64_t now_ns() { return std::chrono::system_clock::now().time_since_epoch().count(); }

}  // namespace

void lean_queue::create(std::string const& path, int count, std::string const& payload) {
  database const db{path};
  db.run(
      "CREATE TABLE queue (message_id TEXT NOT NULL PRIMARY KEY, data TEXT NOT NULL, status INTEGER NOT NULL, in_time "
      "INTEGER NOT NULL, lock_time INTEGER, done_time INTEGER)");
  db.run("CREATE INDEX queue_status ON queue (status, message_id)");
  db.run("BEGIN IMMEDIATE");
  auto const insert = db.prepare("INSERT INTO queue (message_id, data, status, in_time) VALUES (?1, ?2, 0, ?3)");
  for (int i = 0; i < count; ++i) {
    auto const id = "0000000000000000-" + std::to_string(i);
    put(insert, 1, id);
    put(insert, 2, payload);
    put(insert, 3, now_ns());
    db.step(insert);
  }
  db.run("COMMIT");
}

lean_queue::lean_queue(std::string const& path)
    : db_{path},
      begin_{db_.prepare("BEGIN IMMEDIATE")},
      commit_{db_.prepare("COMMIT")},
      take_{db_.prepare("UPDATE queue SET status = 1, lock_time = ?1 WHERE message_id IN (SELECT message_id FROM queue "
                        "WHERE status = 0 ORDER BY message_id LIMIT ?2) RETURNING message_id, data")},
      done_{db_.prepare("UPDATE queue SET status = 2, done_time = ?1 WHERE message_id = ?2")} {}

std::size_t lean_queue::drain_some(std::size_t limit) {
  struct message {
    std::string id, data;
  };
  std::vector<message> taken;
  auto const text = [&](int column) {
    return std::string{reinterpret_cast<char const*>(sqlite3_column_text(take_.get(), column)),
                       static_cast<std::size_t>(sqlite3_column_bytes(take_.get(), column))};
  };
  put(take_, 1, now_ns());
  put(take_, 2, static_cast<std::int64_t>(limit));
  while (sqlite3_step(take_.get()) == SQLITE_ROW) taken.push_back({text(0), text(1)});
  sqlite3_reset(take_.get());
  for (auto const& m : taken) seen_ += m.data.size();  // the listener
  db_.step(begin_);
  for (auto const& m : taken) {
    put(done_, 1, now_ns());
    put(done_, 2, m.id);
    db_.step(done_);
  }
  db_.step(commit_);
  return taken.size();
}

}  // namespace bench
