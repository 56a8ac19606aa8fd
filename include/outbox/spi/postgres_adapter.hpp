// What an adapter for a PostgreSQL client needs from this library. Not for applications.
//
// An adapter specialises `transaction_traits` for the client's transaction with the kind "postgres". Its `run` passes a
// `caller_connection` that runs statements through the client, converted to `sql::connection*`. Its `enlist` calls
// `watch_transaction`. An adapter whose client tells how a transaction ends uses `spi::enlisted` instead.
// <outbox/adapt/pqxx.hpp> is an example.
#pragma once

#include <memory>
#include <optional>
#include <outbox/detail/postgres_export.hpp>
#include <outbox/error.hpp>
#include <outbox/log.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <outbox/transaction.hpp>
#include <span>
#include <string>
#include <string_view>
#include <variant>

struct pg_conn;

namespace outbox::inline v0::postgres {

/// One column of many rows as one parameter. An element without a value is NULL.
struct text_array {
  std::span<std::optional<std::string_view> const> items;  ///< One per row.
};
struct blob_array {
  std::span<std::optional<std::string_view> const> items;  ///< One per row.
};
struct integer_array {
  std::span<std::int64_t const> items;  ///< One per row.
};

/// A parameter of the store's statements. Whatever it points to must live until the call returns.
using parameter = std::variant<sql::value, text_array, blob_array, integer_array>;

/// Where a write goes.
struct write_target {
  std::string_view table;                   ///< For messages.
  std::string_view exists;                  ///< Finds rows by id and token; empty: the role may not read the table.
  std::weak_ptr<log_function const> log{};  ///< The store's log.
};

/// Learns where inserted rows stand in their keys.
class insert_answer;

/// A caller's transaction as the store meets it. The `sql::connection` that `transaction_operations::run` passes for
/// the kind "postgres" must be one of these; the store refuses others with `error` (wrong_transaction).
///
/// Use from one thread at a time. It lives as long as the call of `run`.
class OUTBOX_POSTGRES_EXPORT caller_connection : public sql::connection {
 public:
  caller_connection();
  ~caller_connection() override;

  /// The libpq connection; null if the client hides it.
  [[nodiscard]] virtual pg_conn* raw() const noexcept = 0;

  /// Says that the write whose observer was enlisted last goes to this table.
  virtual void writes_to(write_target const& to);

  /// Inserts `rows` events of that write. A trigger or a rule of the table may suppress some of them: then it is
  /// unknown which of the rows are there, and the observer is told `committed_in_part`. By default single values go to
  /// `execute()` as they are, and arrays as `text_of` writes them.
  virtual void insert(std::string_view sql, std::span<parameter const> values, std::size_t rows);

  /// The same for a node that keeps the order of keys: `returning`, put behind `sql`, asks where the rows stand, and
  /// needs the last one of `values`, which `sql` does not. By default it does not ask, and the node reads it after the
  /// commit.
  virtual void insert_and_tell(std::string_view sql, std::string_view returning, std::span<parameter const> values,
                               std::size_t rows, std::shared_ptr<insert_answer> answer);
};

/// Has the observer told how the open transaction of `connection` ends. Returns false if that cannot be seen.
OUTBOX_POSTGRES_EXPORT bool watch_transaction(pg_conn* connection, std::shared_ptr<transaction_observer> observer);

/// Returns true between BEGIN and the end of the transaction, and false for null. Makes no round trip.
[[nodiscard]] OUTBOX_POSTGRES_EXPORT bool in_transaction(pg_conn const* connection) noexcept;

/// Returns the error that a SQLSTATE means. An empty SQLSTATE means that the connection was lost.
[[nodiscard]] OUTBOX_POSTGRES_EXPORT error error_with(std::string const& sqlstate, std::string const& text);

/// Returns a parameter as text that PostgreSQL reads, bytes and arrays included; nothing for NULL. An array must not
/// have an element without a value: whether the server reads it as NULL depends on a setting of the session.
[[nodiscard]] OUTBOX_POSTGRES_EXPORT std::optional<std::string> text_of(sql::value const& v);
[[nodiscard]] OUTBOX_POSTGRES_EXPORT std::optional<std::string> text_of(parameter const& p);

}  // namespace outbox::inline v0::postgres
