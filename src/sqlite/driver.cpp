#include "sqlite/driver.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "sql/instant_text.hpp"

namespace outbox::inline v0::sqlite {
namespace {

errc code_of(int result) noexcept {
  switch (result & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_INTERRUPT:
    case SQLITE_NOMEM:
    case SQLITE_PROTOCOL: return errc::unavailable;
    case SQLITE_CONSTRAINT:
      if (result == SQLITE_CONSTRAINT_UNIQUE || result == SQLITE_CONSTRAINT_PRIMARYKEY) return errc::duplicate_event;
      return errc::store_failure;
    default: return errc::store_failure;
  }
}

// Most reasons why a file cannot be opened do not pass: a missing directory, a file that is not a database, a missing
// right. Missing resources do.
errc code_of_opening(sqlite3* db, int result) noexcept {
  if ((result & 0xFF) != SQLITE_CANTOPEN) return code_of(result);
  switch (db == nullptr ? 0 : sqlite3_system_errno(db)) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case EAGAIN:
    case EINTR:
    case EIO: return errc::unavailable;
    default: return errc::store_failure;
  }
}

std::string text_of(sqlite3* db, int code, std::string_view doing) {
  std::string text{doing};
  text += ": ";
  text += db == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(db);
  text += " (SQLite code " + std::to_string(code) + ")";
  return text;
}

// At random, so that two waiters do not meet again and again.
std::chrono::microseconds short_wait(core::random_source& random) noexcept {
  return std::chrono::microseconds{100 + static_cast<std::int64_t>(random.below(300))};
}

// Waiters that come again soon take turns with the writer that has the lock, which costs all of them more than it
// gives. So the steps grow, but only when the lock is held for longer than a settlement takes.
std::chrono::microseconds long_wait(int count) noexcept {
  constexpr std::array<int, 15> steps{1, 1, 1, 1, 1, 1, 1, 1, 2, 5, 10, 15, 20, 25, 50};
  return std::chrono::milliseconds{steps[std::min(static_cast<std::size_t>(count), steps.size() - 1)]};
}

// Differs between connections and processes.
std::uint64_t different_seed(sqlite3 const* db) noexcept {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
         reinterpret_cast<std::uintptr_t>(db);
}

// SQLite does not wait for the lock that this needs: of several processes that open a new file at once, all except one
// would fail.
int switch_to_wal(sqlite3* db, std::chrono::milliseconds busy_timeout) noexcept {
  auto const deadline = std::chrono::steady_clock::now() + busy_timeout;
  core::random_source random{different_seed(db)};
  while (true) {
    int const code = sqlite3_exec(db, "PRAGMA journal_mode = WAL", nullptr, nullptr, nullptr);
    if ((code & 0xFF) != SQLITE_BUSY || std::chrono::steady_clock::now() >= deadline) return code;
    outside_sqlite const meanwhile;
    std::this_thread::sleep_for(short_wait(random));
  }
}

void check_opened(sqlite3* db, int code, std::string const& doing) {
  if (code != SQLITE_OK) throw error{code_of_opening(db, code), text_of(db, code, doing)};
}

// What the store needs of every connection of its own.
void set_up(sqlite3* db, std::chrono::milliseconds busy_timeout, synchronous s, std::string const& doing) {
  sqlite3_busy_timeout(db, static_cast<int>(busy_timeout.count()));
  check_opened(db, switch_to_wal(db, busy_timeout), doing);
  char const* const when = s == synchronous::full ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
  check_opened(db, sqlite3_exec(db, when, nullptr, nullptr, nullptr), doing);
}

void set_up_reader(sqlite3* db, std::chrono::milliseconds busy_timeout) {
  sqlite3_busy_timeout(db, static_cast<int>(busy_timeout.count()));
  check_opened(db, sqlite3_exec(db, "PRAGMA query_only = ON", nullptr, nullptr, nullptr), "cannot read the database");
}

class shown_row final : public sql::row {
 public:
  explicit shown_row(sqlite3_stmt* s) noexcept : s_{s} {}
  bool null(int c) const override { return sqlite3_column_type(s_, c) == SQLITE_NULL; }
  std::int64_t integer(int c) const override { return sqlite3_column_int64(s_, c); }
  std::string_view text(int c) const override {
    int const type = sqlite3_column_type(s_, c);
    if (type == SQLITE_NULL) return {};
    // As text, because a database may store UTF-16.
    auto const* const bytes = type == SQLITE_BLOB ? static_cast<char const*>(sqlite3_column_blob(s_, c))
                                                  : reinterpret_cast<char const*>(sqlite3_column_text(s_, c));
    return {bytes == nullptr ? "" : bytes, static_cast<std::size_t>(sqlite3_column_bytes(s_, c))};
  }
  std::optional<instant> time(int c) const override { return sql::parse_instant(text(c)); }

 private:
  sqlite3_stmt* s_;
};

// Resets a kept statement, whatever happened to it.
struct reset_statement {
  void operator()(sqlite3_stmt* s) const noexcept {
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
  }
};

}  // namespace

error error_of(sqlite3* db, int code, std::string_view doing) { return error{code_of(code), text_of(db, code, doing)}; }

void check_busy_timeout(std::chrono::milliseconds busy_timeout) {
  if (busy_timeout >= std::chrono::milliseconds{0} && busy_timeout <= longest_busy_timeout) return;
  throw error::about(errc::invalid_option, "busy_timeout",
                     "is " + std::to_string(busy_timeout.count()) + " ms, it must be 0 to 10 min");
}

handle open_file(std::string const& path, std::chrono::milliseconds busy_timeout, synchronous s) {
  check_busy_timeout(busy_timeout);
  inside_sqlite const here;
  sqlite3* raw = nullptr;
  // Each connection is used by one thread at a time, so SQLite needs no lock of its own. The cache is private even if
  // the application shares caches: connections that share one do not wait for each other's locks, but fail.
  int const code = sqlite3_open_v2(path.c_str(), &raw,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                       SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE,
                                   nullptr);
  handle db{raw};
  auto const doing = "cannot open the SQLite database '" + path + "'";
  check_opened(raw, code, doing);
  set_up(raw, busy_timeout, s, doing);
  return db;
}

handle open_for_reading(std::string const& path, std::chrono::milliseconds busy_timeout) {
  check_busy_timeout(busy_timeout);
  inside_sqlite const here;
  handle db;
  auto const open_with = [&](int access) {
    sqlite3* raw = nullptr;
    int const code = sqlite3_open_v2(
        path.c_str(), &raw, access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE, nullptr);
    db.reset(raw);
    return code;
  };
  // A reader of a WAL file writes to the index of the log, so the right to write helps where it is there.
  int code = open_with(SQLITE_OPEN_READWRITE);
  if (code != SQLITE_OK) code = open_with(SQLITE_OPEN_READONLY);
  check_opened(db.get(), code, "cannot open the SQLite database '" + path + "'");
  set_up_reader(db.get(), busy_timeout);
  return db;
}

handle open_handle(std::string const& path, std::function<sqlite3*()> const& connect,
                   std::chrono::milliseconds busy_timeout, synchronous s, bool read_only) {
  if (!connect) return read_only ? open_for_reading(path, busy_timeout) : open_file(path, busy_timeout, s);
  check_busy_timeout(busy_timeout);
  handle db;
  try {
    db.reset(connect());
  } catch (error const&) {
    throw;
  } catch (std::exception const& e) {
    throw error::about(errc::unavailable, "connect", std::string{"threw: "} + e.what());
  } catch (...) {
    throw error::about(errc::unavailable, "connect", "threw something that is not an exception");
  }
  if (!db) throw error::about(errc::unavailable, "connect", "returned no handle");
  inside_sqlite const here;
  // A handle whose opening failed answers every call with SQLITE_MISUSE.
  if (int const code = sqlite3_extended_result_codes(db.get(), 1); code != SQLITE_OK) {
    throw error{errc::store_failure, text_of(db.get(), code, "connect returned a handle that is not open")};
  }
  if (sqlite3_get_autocommit(db.get()) == 0) {
    throw error::about(errc::store_failure, "connect", "returned a handle that is in a transaction");
  }
  if (read_only) {
    set_up_reader(db.get(), busy_timeout);
  } else {
    set_up(db.get(), busy_timeout, s, "cannot use the handle that connect returned");
  }
  return db;
}

std::string file_name(sqlite3* db) {
  char const* const name = sqlite3_db_filename(db, "main");
  return name == nullptr ? "" : name;
}

void run(sqlite3* db, std::string const& sql) {
  if (int const code = sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr); code != SQLITE_OK) {
    // This is the application's statement, so a unique violation is not a duplicate event.
    auto e = error_of(db, sqlite3_extended_errcode(db), "cannot run '" + sql.substr(0, 80) + "'");
    if (e.code() == errc::duplicate_event) throw error{errc::store_failure, e.what()};
    throw e;
  }
}

void patience::attach(sqlite3* db) noexcept {
  random_ = core::random_source{different_seed(db)};
  sqlite3_busy_handler(db, &patience::wait, this);
}

int patience::wait(void* self, int count) noexcept {
  auto& me = *static_cast<patience*>(self);
  auto const now = std::chrono::steady_clock::now();
  if (count == 0) me.since_ = now;
  std::chrono::nanoseconds const left = me.limit_ - (now - me.since_);
  if (left.count() <= 0) return 0;
  std::chrono::nanoseconds const step = me.how_ == waiting::in_short_steps ? short_wait(me.random_) : long_wait(count);
  outside_sqlite const meanwhile;
  std::this_thread::sleep_for(std::min(step, left));
  return 1;
}

sqlite3_stmt* driver::prepare(std::string_view sql, statement& once) {
  bool const keep = prepared_ == prepared::kept;
  if (keep) {
    if (auto const it = kept_.find(sql); it != kept_.end()) return it->second.get();
  }
  sqlite3_stmt* raw = nullptr;
  auto const flags = keep ? SQLITE_PREPARE_PERSISTENT : 0U;
  int const code = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()), flags, &raw, nullptr);
  statement s{raw};
  if (code != SQLITE_OK) throw error_of(db_, code, "cannot prepare a statement");
  if (!keep) {
    once = std::move(s);
    return raw;
  }
  kept_.emplace(std::string{sql}, std::move(s));
  return raw;
}

void driver::bind(sqlite3_stmt* s, int index, sql::value const& v) {
  // The views live until the call returns, so SQLite need not copy them. A formatted instant is a local, so it must.
  auto const bind_time = [&](instant t) {
    sql::instant_text const text{t};
    return sqlite3_bind_text(s, index, text.view().data(), static_cast<int>(text.view().size()), SQLITE_TRANSIENT);
  };
  int code = SQLITE_OK;
  if (auto const* const i = std::get_if<std::int64_t>(&v)) {
    code = sqlite3_bind_int64(s, index, *i);
  } else if (auto const* const t = std::get_if<std::string_view>(&v)) {
    code = sqlite3_bind_text64(s, index, t->empty() ? "" : t->data(), t->size(), SQLITE_STATIC, SQLITE_UTF8);
  } else if (auto const* const b = std::get_if<sql::blob>(&v)) {
    code = sqlite3_bind_blob64(s, index, b->bytes.empty() ? "" : b->bytes.data(), b->bytes.size(), SQLITE_STATIC);
  } else if (auto const* const at = std::get_if<instant>(&v)) {
    code = bind_time(*at);
  } else if (auto const* const later = std::get_if<sql::from_now>(&v)) {
    code = bind_time(clock_->now() + later->by);
  } else {
    code = sqlite3_bind_null(s, index);
  }
  if (code != SQLITE_OK) throw error_of(db_, code, "cannot bind parameter " + std::to_string(index));
}

std::int64_t driver::execute(std::string_view sql, std::span<sql::value const> parameters,
                             sql::row_function const& on_row) {
  statement once;
  sqlite3_stmt* const s = prepare(sql, once);
  std::unique_ptr<sqlite3_stmt, reset_statement> const put_back{once ? nullptr : s};
  for (std::size_t i = 0; i < parameters.size(); ++i) bind(s, static_cast<int>(i) + 1, parameters[i]);
  shown_row const row{s};
  while (true) {
    int const code = sqlite3_step(s);
    if (code == SQLITE_DONE) break;
    if (code != SQLITE_ROW) throw error_of(db_, sqlite3_extended_errcode(db_), "cannot run a statement");
    if (on_row && !on_row(row)) return 0;
  }
  return sqlite3_stmt_readonly(s) != 0 ? 0 : sqlite3_changes64(db_);
}

}  // namespace outbox::inline v0::sqlite
