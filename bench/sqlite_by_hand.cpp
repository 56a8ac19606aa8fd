#include "sqlite_by_hand.hpp"

#include <chrono>
#include <ctime>
#include <outbox/sqlite.hpp>
#include <stdexcept>

namespace bench {
namespace {

constexpr char const* insert_sql =
    "INSERT INTO outbox_event (event_id, event_type, aggregate_type, payload, available_at, created_at, inserted_at) "
    "VALUES (?1, 'order.placed', '__GLOBAL__', ?2, ?3, ?3, ?3)";

[[noreturn]] void fail(sqlite3* db) { throw std::runtime_error{sqlite3_errmsg(db)}; }

}  // namespace

database::database(std::string const& path, bool full) {
  sqlite3* raw = nullptr;
  int const code =
      sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  db_.reset(raw);
  if (code != SQLITE_OK) fail(raw);
  sqlite3_busy_timeout(raw, 60'000);
  run("PRAGMA journal_mode = WAL");
  run(full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
}

statement database::prepare(std::string const& sql) const {
  sqlite3_stmt* raw = nullptr;
  if (sqlite3_prepare_v3(db_.get(), sql.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &raw, nullptr) != SQLITE_OK) {
    fail(db_.get());
  }
  return statement{raw};
}

void database::run(std::string const& sql) const {
  if (sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail(db_.get());
}

void database::step(statement const& s) const {
  int code = SQLITE_ROW;
  while (code == SQLITE_ROW) code = sqlite3_step(s.get());
  sqlite3_reset(s.get());
  if (code != SQLITE_DONE) fail(db_.get());
}

std::int64_t database::number(std::string const& sql) const {
  auto const s = prepare(sql);
  return sqlite3_step(s.get()) == SQLITE_ROW ? sqlite3_column_int64(s.get(), 0) : 0;
}

void put(statement const& s, int index, std::string_view text) {
  sqlite3_bind_text64(s.get(), index, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
}

void put(statement const& s, int index, std::int64_t number) { sqlite3_bind_int64(s.get(), index, number); }

std::string now_text() {
  using namespace std::chrono;
  auto const now = time_point_cast<microseconds>(system_clock::now());
  auto const us = now.time_since_epoch().count();
  std::time_t const seconds = us / 1'000'000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[40];
  auto const n = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc);
  std::snprintf(text + n, sizeof text - n, ".%06d", static_cast<int>(us % 1'000'000));
  return text;
}

writer_by_hand::writer_by_hand(std::string const& path, bool full)
    : db_{path, full},
      begin_{db_.prepare("BEGIN IMMEDIATE")},
      commit_{db_.prepare("COMMIT")},
      order_{db_.prepare("INSERT INTO orders (id, cents) VALUES (?1, 1999)")},
      event_{db_.prepare(insert_sql)} {}

void writer_by_hand::insert_event(std::string_view id, std::string_view payload) {
  auto const now = now_text();
  put(event_, 1, id);
  put(event_, 2, payload);
  put(event_, 3, now);
  db_.step(event_);
}

void writer_by_hand::write(std::string_view id, std::string_view payload) {
  db_.step(begin_);
  put(order_, 1, id);
  db_.step(order_);
  insert_event(id, payload);
  db_.step(commit_);
}

void writer_by_hand::write_all(std::vector<std::string> const& ids, std::string_view payload) {
  db_.step(begin_);
  for (auto const& id : ids) insert_event(id, payload);
  db_.step(commit_);
}

drainer_by_hand::drainer_by_hand(std::string const& path, bool erase)
    : db_{path},
      erase_{erase},
      begin_{db_.prepare("BEGIN IMMEDIATE")},
      commit_{db_.prepare("COMMIT")},
      due_{
          db_.prepare("SELECT seq, event_id, event_type, aggregate_type, aggregate_id, payload, headers, attempts FROM "
                      "outbox_event WHERE status IN (0, 2) AND blocked IS NOT TRUE AND max(available_at, "
                      "coalesce(lease_until, '')) <= ?1 ORDER BY max(available_at, "
                      "coalesce(lease_until, '')), seq LIMIT ?2")},
      lock_{db_.prepare("UPDATE outbox_event SET locked_by = 'me', locked_at = ?1, lease_until = ?2 WHERE seq = ?3")},
      mark_{db_.prepare(erase ? "DELETE FROM outbox_event WHERE seq = ?2 AND locked_by = 'me'"
                              : "UPDATE outbox_event SET status = 1, done_at = ?1, locked_by = NULL, locked_at = NULL, "
                                "lease_until = NULL WHERE seq = ?2 AND locked_by = 'me'")} {}

std::size_t drainer_by_hand::drain_some(std::size_t limit) {
  struct claimed {
    std::int64_t seq;
    std::string id, type, payload;
  };
  std::vector<claimed> rows;
  auto const text = [&](int column) {
    auto const* const p = reinterpret_cast<char const*>(sqlite3_column_text(due_.get(), column));
    return std::string{p == nullptr ? "" : p, static_cast<std::size_t>(sqlite3_column_bytes(due_.get(), column))};
  };
  auto const now = now_text();
  db_.step(begin_);
  put(due_, 1, now);
  put(due_, 2, static_cast<std::int64_t>(limit));
  while (sqlite3_step(due_.get()) == SQLITE_ROW) {
    rows.push_back({sqlite3_column_int64(due_.get(), 0), text(1), text(2), text(5)});
  }
  sqlite3_reset(due_.get());
  std::string const lease = "2999" + now.substr(4);
  for (auto const& r : rows) {
    put(lock_, 1, now);
    put(lock_, 2, lease);
    put(lock_, 3, r.seq);
    db_.step(lock_);
  }
  db_.step(commit_);
  for (auto const& r : rows) seen_ += r.payload.size();  // the listener
  db_.step(begin_);
  auto const done = now_text();
  for (auto const& r : rows) {
    if (!erase_) put(mark_, 1, done);
    put(mark_, 2, r.seq);
    db_.step(mark_);
  }
  db_.step(commit_);
  return rows.size();
}

void create_tables(std::string const& path) {
  static_cast<void>(outbox::sqlite::open(path));
  database{path}.run("CREATE TABLE orders (id TEXT PRIMARY KEY, cents INT NOT NULL)");
}

}  // namespace bench
