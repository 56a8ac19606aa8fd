// A caller's transaction as the store meets it. The kind "mysql" passes one of these to the store, as the
// `sql::connection` of `transaction_operations::run`.
#pragma once

#include <outbox/spi/sql_connection.hpp>
#include <string>
#include <string_view>

#include "mysql/driver.hpp"

namespace outbox::inline v0::mysql {

/// A table of events and the two of its columns that tell a row: names as SQL takes them.
struct event_table {
  std::string name, event_id, locked_by;
  bool operator==(event_table const&) const = default;
};

/// Runs the store's statements through a driver, which must outlive it. This class serves a bare handle: nothing is
/// known about the transaction except that it is open. A `transaction` overrides what it knows better.
class caller_connection : public sql::connection {
 public:
  explicit caller_connection(driver& through) noexcept : through_{&through} {}

  [[nodiscard]] driver& line() const noexcept { return *through_; }
  [[nodiscard]] bool in_transaction() const noexcept override { return through_->in_transaction(); }
  using sql::connection::execute;
  std::int64_t execute(std::string_view sql, std::span<sql::value const> values,
                       sql::row_function const& on_row) override {
    return through_->execute(sql, values, on_row);
  }

  /// The greatest size of a packet that the server takes on this connection; 0 if it is not known.
  [[nodiscard]] std::size_t packet() const noexcept { return packet_; }
  void limit_packets(std::size_t bytes) noexcept { packet_ = bytes; }

  /// True if it is not known here that the transaction is still open, so that the INSERT must find out itself.
  [[nodiscard]] bool needs_guard() const noexcept { return !through_->knows_status(); }

  /// Runs the store's INSERT. Throws `error`.
  virtual void insert(sql_text const& statement);

  /// The write whose observer was enlisted last goes to this table. `may_send_blocks`: statements that only MariaDB
  /// knows are allowed.
  virtual void writes_to(event_table const& /*table*/, bool /*may_send_blocks*/) {}

 private:
  driver* through_;
  std::size_t packet_ = 0;
};

}  // namespace outbox::inline v0::mysql
