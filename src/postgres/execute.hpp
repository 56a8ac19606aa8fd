// Runs the application's SQL on a connection.
#pragma once

#include <libpq-fe.h>

#include <outbox/spi/sql_connection.hpp>
#include <outbox/sql.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::postgres {

/// Arguments as PostgreSQL reads them. Owns the texts; bytes stay where they are. Throws `error` (type_mismatch) if a
/// text has a NUL in it.
class argument_list {
 public:
  explicit argument_list(std::span<sql::argument const> args);
  [[nodiscard]] std::span<sql::value const> values() const noexcept { return values_; }

 private:
  std::vector<std::string> numbers_;
  std::vector<sql::value> values_;
};

/// Runs one statement with its arguments, or several without arguments. Returns the result of the last one. Nothing
/// stays prepared. Throws `error`.
sql::result execute_on(PGconn* c, std::string_view sql, std::span<sql::argument const> args);

}  // namespace outbox::inline v0::postgres
