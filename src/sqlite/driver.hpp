// The C API of SQLite behind the thin SQL interface: handles, statements, errors.
#pragma once

#include <sqlite3.h>

#include <chrono>
#include <functional>
#include <memory>
#include <outbox/error.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <outbox/sqlite.hpp>
#include <string>
#include <string_view>

#include "core/base/random.hpp"
#include "core/base/text_map.hpp"
#include "sqlite/fork_gate.hpp"

namespace outbox::inline v0::sqlite {

/// The error of a failed call on `db`. Busy, locked, full, I/O: transient.
[[nodiscard]] error error_of(sqlite3* db, int code, std::string_view doing);

struct close_handle {
  void operator()(sqlite3* db) const noexcept {
    inside_sqlite const here;
    sqlite3_close_v2(db);
  }
};
using handle = std::unique_ptr<sqlite3, close_handle>;

struct finalize_statement {
  void operator()(sqlite3_stmt* s) const noexcept {
    inside_sqlite const here;
    sqlite3_finalize(s);
  }
};
using statement = std::unique_ptr<sqlite3_stmt, finalize_statement>;

inline constexpr std::chrono::minutes longest_busy_timeout{10};

/// Throws `error` (invalid_option) unless it is 0 to 10 minutes.
void check_busy_timeout(std::chrono::milliseconds busy_timeout);

/// Opens `path` for reading and writing, in WAL mode. Throws `error`, which names the file:
/// unavailable if the reason may pass by itself, else store_failure.
[[nodiscard]] handle open_file(std::string const& path, std::chrono::milliseconds busy_timeout,
                               synchronous s = synchronous::full);

/// Opens a file that exists, for reading. It is switched to no other mode, and SQLite refuses changes. Throws `error`
/// like `open_file()`.
[[nodiscard]] handle open_for_reading(std::string const& path, std::chrono::milliseconds busy_timeout);

/// The same for a handle that `connect` opens, if it is not empty; then `path` is not used. Throws `error`.
[[nodiscard]] handle open_handle(std::string const& path, std::function<sqlite3*()> const& connect,
                                 std::chrono::milliseconds busy_timeout, synchronous s = synchronous::full,
                                 bool read_only = false);

/// The name of the file of a handle; empty if it has none.
[[nodiscard]] std::string file_name(sqlite3* db);

/// Runs statements without parameters or results.
void run(sqlite3* db, std::string const& sql);

/// How a connection waits for a lock.
enum class waiting {
  in_short_steps,  ///< For the store: the steps of SQLite's own handler grow so far that it starves behind writers.
  in_long_steps,   ///< For writers: in steps that grow, like SQLite's own, but only after eight of 1 ms.
};

/// Waits for locks up to a time limit.
class patience {
 public:
  patience(std::chrono::milliseconds limit, waiting how) noexcept : limit_{limit}, how_{how} {}
  void attach(sqlite3* db) noexcept;

 private:
  static int wait(void* self, int count) noexcept;
  std::chrono::milliseconds limit_;
  waiting how_;
  std::chrono::steady_clock::time_point since_{};
  core::random_source random_{0};
};

/// What becomes of a prepared statement.
enum class prepared {
  once,  ///< It is finalised after its first use.
  kept,  ///< It stays prepared until `forget()` or the end of the driver.
};

/// A handle behind the thin SQL interface. It does not own the handle.
class driver final : public sql::connection {
 public:
  driver(sqlite3* db, clock const& c, prepared p) noexcept : db_{db}, clock_{&c}, prepared_{p} {}

  /// Sets the clock of `from_now`: several stores may use one caller's connection.
  void use_clock(clock const& c) noexcept { clock_ = &c; }

  [[nodiscard]] bool in_transaction() const noexcept override { return sqlite3_get_autocommit(db_) == 0; }
  using sql::connection::execute;
  std::int64_t execute(std::string_view sql, std::span<sql::value const> parameters,
                       sql::row_function const& on_row) override;
  [[nodiscard]] sqlite3* raw() const noexcept { return db_; }

  /// Finalises the statements that are kept.
  void forget() noexcept { kept_.clear(); }

 private:
  [[nodiscard]] sqlite3_stmt* prepare(std::string_view sql, statement& once);
  void bind(sqlite3_stmt* s, int index, sql::value const& v);

  sqlite3* db_;
  clock const* clock_;
  prepared prepared_;
  core::text_map<statement> kept_;
};

}  // namespace outbox::inline v0::sqlite
