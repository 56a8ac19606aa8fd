// A caller's transaction as the SQLite store meets it. The kind "sqlite" passes one of these to the store, as the
// `sql::connection` of `transaction_operations::run`.
#pragma once

#include <optional>
#include <outbox/spi/sql_connection.hpp>
#include <string_view>

#include "sqlite/session.hpp"

namespace outbox::inline v0::sqlite {

/// Runs the store's statements through a driver, which must outlive it. This class serves a bare handle: nothing is
/// known about the transaction except that it is open. A `transaction` overrides what it knows better.
class caller_connection : public sql::connection {
 public:
  explicit caller_connection(driver& through) noexcept : through_{&through} {}

  [[nodiscard]] bool in_transaction() const noexcept override { return through_->in_transaction(); }
  using sql::connection::execute;
  std::int64_t execute(std::string_view sql, std::span<sql::value const> parameters,
                       sql::row_function const& on_row) override {
    return through_->execute(sql, parameters, on_row);
  }

  /// The file that the connection is open on; nothing for a database without a file.
  [[nodiscard]] virtual std::optional<file_identity> file() { return identity_of(through_->raw()); }

  /// The write whose observer was enlisted last goes to a table where the statement `exists` finds a row by its id and
  /// its token.
  virtual void writes_to(std::string_view /*exists*/) {}

  /// The clock of the store that writes: several stores may use one connection.
  void use_clock(clock const& c) noexcept { through_->use_clock(c); }

 private:
  driver* through_;
};

}  // namespace outbox::inline v0::sqlite
