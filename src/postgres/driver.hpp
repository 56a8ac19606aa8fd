// libpq behind the thin SQL interface: handles, errors, round trips.
#pragma once

#include <libpq-fe.h>

#include <chrono>
#include <memory>
#include <optional>
#include <outbox/error.hpp>
#include <outbox/spi/postgres_adapter.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/text_map.hpp"
#include "postgres/parameters.hpp"

namespace outbox::inline v0::postgres {

using std::chrono::milliseconds;

struct close_connection {
  void operator()(PGconn* c) const noexcept { PQfinish(c); }
};
using handle = std::unique_ptr<PGconn, close_connection>;

struct clear_result {
  void operator()(PGresult* r) const noexcept { PQclear(r); }
};
using result_handle = std::unique_ptr<PGresult, clear_result>;

/// The error that a failed result or a broken connection means. It is transient for a broken connection, a server that
/// starts or stops or is no longer the primary, a conflict with other transactions, and a limit that others use up.
[[nodiscard]] error error_of(PGconn* c, PGresult const* r, std::string_view doing);

/// The error of a connection whose last statement has results that were not read.
[[nodiscard]] error connection_is_busy();

/// True if the connection should not be used again although it answers: the server stops, or has become read-only.
[[nodiscard]] bool spoils_connection(error const& e) noexcept;

/// A message of libpq, which may have several lines and tabs, as one line.
[[nodiscard]] std::string one_line(char const* text);

/// Throws `error`: invalid_option (connection) if the string cannot be parsed, without showing any of it; store_failure
/// if the server refuses the connection for a reason that will not pass, such as a wrong password; unavailable
/// otherwise.
[[nodiscard]] handle connect(std::string const& connection_string, milliseconds timeout);

/// Runs statements without parameters. Several are one transaction. Error texts begin with `doing`.
void run(PGconn* c, std::string const& sql, std::string_view doing = "cannot run a statement");

/// Rows of a result in binary form.
class result_rows {
 public:
  explicit result_rows(PGresult* r) noexcept : r_{r} {}
  void show(sql::row_function const& on_row) const;
  [[nodiscard]] int size() const noexcept { return PQntuples(r_); }
  [[nodiscard]] std::int64_t changed() const noexcept;

 private:
  PGresult* r_;
};

/// A statement to be sent.
struct statement {
  std::string sql;
  parameters values;
  std::size_t rows = 0;                     ///< The number of events that it inserts.
  std::size_t write = 0;                    ///< The write of the transaction that they belong to.
  std::shared_ptr<insert_answer> answer{};  ///< Of an INSERT that asks where its rows stand.
};

/// What becomes of the answer to `caller_connection::insert_and_tell`. Until it is told, nothing is known.
class insert_answer {
 public:
  virtual ~insert_answer() = default;
  virtual void tell(result_rows const& rows) noexcept = 0;
  virtual void forget() noexcept = 0;  ///< The rows were inserted anew.
};

/// What becomes of a prepared statement.
enum class prepared {
  once,  ///< It is used once: the connection is the application's or a pooler's.
  kept,  ///< It stays prepared for the next time.
};

/// If fewer rows were inserted than were sent, which of them are there is unknown: the connection's watch is told so.
void doubt_missing_rows(caller_connection const& c, std::int64_t inserted, std::size_t rows);

/// A connection that sends statements, many in one round trip.
class driver final : public caller_connection {
 public:
  /// With `prepared::kept` the connection must belong to the library and not go through a pooler. `timeout` is how long
  /// an answer may take before the connection is given up; zero means no limit.
  driver(PGconn* c, prepared p, milliseconds timeout = {}) noexcept : c_{c}, prepared_{p}, timeout_{timeout} {}

  bool in_transaction() const noexcept override;
  using sql::connection::execute;
  std::int64_t execute(std::string_view sql, std::span<sql::value const> values,
                       sql::row_function const& on_row) override;
  pg_conn* raw() const noexcept override { return c_; }
  void insert(std::string_view sql, std::span<parameter const> values, std::size_t rows) override;
  void insert_and_tell(std::string_view sql, std::string_view returning, std::span<parameter const> values,
                       std::size_t rows, std::shared_ptr<insert_answer> answer) override;

  /// True if the session belongs to the library, with the settings that it made there.
  [[nodiscard]] bool owns_session() const noexcept { return prepared_ == prepared::kept; }

  /// The outcome of a round trip: one result per statement up to the first that failed, and the reason for that.
  struct replies {
    std::vector<result_handle> results;
    std::optional<error> failure;
    bool broken = false;   ///< The connection was lost: statements without a result may or may not have run.
    bool unsent = false;   ///< The connection was lost before: nothing was sent.
    bool refused = false;  ///< The server answered the statement with an error: it had no effect.
  };

  /// Sends all statements and waits for all answers. Throws nothing except std::bad_alloc.
  [[nodiscard]] replies send(std::span<statement const> statements);

  /// The same, but throws the failure.
  [[nodiscard]] std::vector<result_handle> send_or_throw(std::span<statement const> statements);

 private:
  [[nodiscard]] bool send(statement const& s, std::vector<std::string>& prepared_now);
  [[nodiscard]] std::chrono::steady_clock::time_point deadline_from_now() const noexcept;
  [[nodiscard]] result_handle next_result(std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] bool wait_for_socket(bool to_write, std::chrono::steady_clock::time_point deadline);
  void receive(std::span<statement const> statements, std::vector<std::string> const& prepared_now, bool absorbs,
               replies& into);
  void break_off();

  PGconn* c_;
  prepared prepared_;
  milliseconds timeout_;
  bool given_up_ = false;
  core::text_map<std::string> names_;  ///< The names of prepared statements, by text.
  int named_ = 0;
  int server_pid_ = 0;
};

}  // namespace outbox::inline v0::postgres
