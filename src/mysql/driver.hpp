// Statements on a connection of MariaDB Connector/C: text out, rows and errors back.
#pragma once

#include <mysql.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <outbox/error.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mysql/sql_text.hpp"

namespace outbox::inline v0::mysql {

using std::chrono::milliseconds;

struct close_connection {
  void operator()(MYSQL* c) const noexcept { mysql_close(c); }
};
using handle = std::unique_ptr<MYSQL, close_connection>;

struct free_result {
  void operator()(MYSQL_RES* r) const noexcept { mysql_free_result(r); }
};
using result_handle = std::unique_ptr<MYSQL_RES, free_result>;

/// Numbers of errors that need something other than to be thrown.
namespace code {
inline constexpr unsigned access_denied_to_table = 1142, access_denied_to_column = 1143, no_such_table = 1146,
                          unknown_database = 1049, access_denied_to_database = 1044, lock_wait_timeout = 1205,
                          deadlock = 1213, out_of_range = 1690;
inline constexpr unsigned commands_out_of_sync = 2014;
}  // namespace code

/// The error that the last call on the connection failed with. It is transient for a broken connection, a server that
/// starts or stops or only reads, a conflict with other transactions, and a limit that others use up.
[[nodiscard]] error error_of(MYSQL* c, std::string_view doing);

/// The error that a number and SQLSTATE of the server mean.
[[nodiscard]] error error_with(unsigned number, std::string_view sqlstate, std::string const& text);

/// The error of a connection whose last statement has results that were not read.
[[nodiscard]] error connection_is_busy();

/// True if the connection should not be used again although it answers: the server stops, or has become read-only.
[[nodiscard]] bool spoils_connection(error const& e) noexcept;

/// True if an error of this number says that the connection is gone.
[[nodiscard]] bool loses_connection(unsigned number) noexcept;

/// True between the begin of a transaction and its end, as the server's last answer says; false for null. With
/// autocommit off there is always a transaction. No round trip.
[[nodiscard]] bool in_transaction(MYSQL const* c) noexcept;

/// The same, except that with autocommit off a transaction begins with the first statement that touches a table.
[[nodiscard]] bool has_begun(MYSQL const* c) noexcept;

/// True if the connection may send several statements in one text.
[[nodiscard]] bool may_send_several(MYSQL* c) noexcept;

/// Shows the rows of a result.
void show(MYSQL_RES* rows, sql::row_function const& on_row);

/// Use from one thread at a time. Does not own the connection.
class driver final : public sql::connection {
 public:
  explicit driver(MYSQL* c) noexcept : c_{c} {}

  [[nodiscard]] MYSQL* raw() const noexcept { return c_; }
  [[nodiscard]] bool in_transaction() const noexcept override { return mysql::in_transaction(c_); }

  /// An empty text in the session's quoting. Every value says that it is utf8mb4: a session may convert what it is sent
  /// to another character set. Throws `error` (wrong_transaction) if the session's character set could make a part of a
  /// value look like its end.
  [[nodiscard]] sql_text text() const;

  /// The same for a statement of the application. Only if the session's character set is another one, a value says that
  /// it is utf8mb4: there are places where SQL takes a text, but none that says so.
  [[nodiscard]] sql_text text_of_application() const;

  /// Asks for the server's status if the last answer was an error, which has none in it. The error may have rolled back
  /// the transaction. Throws `error`.
  void learn_status();

  /// True if the last answer had the server's status in it. After an error, and after a call that the server does not
  /// answer, the transaction may be over without this side knowing. No round trip.
  [[nodiscard]] bool knows_status() const noexcept;

  /// True unless the session's sql_mode has NO_BACKSLASH_ESCAPES.
  [[nodiscard]] bool reads_backslashes() const noexcept;

  /// The answer to one statement.
  struct answer {
    result_handle rows;        ///< Null for a statement without rows.
    std::int64_t changed = 0;  ///< The number of rows that it matched or inserted.
  };

  /// Runs one statement, or several that are separated by semicolons, in one round trip. The server stops at the first
  /// that fails, and its error is thrown; those before it have had their effect.
  std::vector<answer> send(sql_text const& statements);

  using sql::connection::execute;
  std::int64_t execute(std::string_view sql, std::span<sql::value const> values,
                       sql::row_function const& on_row) override;

 private:
  MYSQL* c_;
};

}  // namespace outbox::inline v0::mysql
