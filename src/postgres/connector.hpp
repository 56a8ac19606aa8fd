// How a store gets its connections: from a connection string, or from a function of the application.
#pragma once

#include <functional>
#include <string>

#include "postgres/driver.hpp"

namespace outbox::inline v0::postgres {

/// Thread-safe after `expect()`.
class connector {
 public:
  /// With a `provider` the connection string is not used.
  connector(std::string connection_string, std::function<pg_conn*()> provider)
      : connection_string_{std::move(connection_string)}, provider_{std::move(provider)} {}

  /// From here on a connection of the provider must lead to the table with this identity, whose companion is `meta`:
  /// the provider may change its mind.
  void expect(std::string meta, std::string table_id) {
    meta_ = std::move(meta);
    table_id_ = std::move(table_id);
  }

  /// From here on the sessions of the store refuse changes.
  void only_read() noexcept { read_only_ = true; }
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }

  /// Throws `error`, which shows no password. With a connection string: as `connect()` does. With a provider:
  /// unavailable if it throws an exception of another type, or returns null or a connection that failed; store_failure
  /// if its connection is in a transaction, or leads to another table.
  [[nodiscard]] handle open(milliseconds timeout) const;

 private:
  void check(PGconn* c, milliseconds timeout) const;

  std::string connection_string_;
  std::function<pg_conn*()> provider_;
  std::string meta_, table_id_;
  bool read_only_ = false;
};

}  // namespace outbox::inline v0::postgres
