// What an adapter for a PostgreSQL client needs of this library. Not for applications.
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

struct pg_conn;

namespace outbox::inline v0::postgres {

/// Where a write goes.
struct write_target {
  std::string_view table;                   ///< For messages.
  std::string_view exists;                  ///< Asks which rows are there; empty: the connection's role may not ask.
  std::weak_ptr<log_function const> log{};  ///< The store's.
};

/// A caller's transaction as the store meets it. What `transaction_operations::run` gives for the kind "postgres" must
/// be one of these.
class OUTBOX_POSTGRES_EXPORT caller_connection : public sql::connection {
 public:
  caller_connection();
  ~caller_connection() override;

  /// Null if the client does not let it be reached.
  [[nodiscard]] virtual pg_conn* raw() const noexcept = 0;

  /// The write whose observer was enlisted last goes to this table.
  virtual void writes_to(write_target const& to);

  /// Inserts events of that write: `rows` of them, unless a trigger or a rule of the table's owner suppresses some.
  /// Then it is not known which of the rows are there, and the observer is told so when the transaction commits.
  virtual void insert(std::string_view sql, std::span<sql::value const> values, std::size_t rows);
};

/// Has the observer told how the open transaction of `connection` ends; false if that cannot be seen.
OUTBOX_POSTGRES_EXPORT bool watch_transaction(pg_conn* connection, std::shared_ptr<transaction_observer> observer);

/// True between BEGIN and its end; false for null. No round trip.
[[nodiscard]] OUTBOX_POSTGRES_EXPORT bool in_transaction(pg_conn const* connection) noexcept;

/// What a SQLSTATE means; an empty one means that the connection was lost.
[[nodiscard]] OUTBOX_POSTGRES_EXPORT error error_with(std::string const& sqlstate, std::string const& text);

/// A parameter as PostgreSQL reads it, bytes and arrays included; nothing for NULL. An array must not have an element
/// without a value: whether the server reads one as NULL depends on a setting of the session.
[[nodiscard]] OUTBOX_POSTGRES_EXPORT std::optional<std::string> text_of(sql::value const& v);

}  // namespace outbox::inline v0::postgres
