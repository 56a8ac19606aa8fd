// How a store gets its connections: from a URL, or from a function of the application.
#pragma once

#include <functional>
#include <string>

#include "mysql/driver.hpp"

namespace outbox::inline v0::mysql {

/// Connects with utf8mb4, several statements in one text, and matched instead of changed rows. Throws `error`:
/// invalid_option (url) if it cannot be read, without showing any of it; store_failure if the server refuses the
/// connection for a reason that will not pass, such as a wrong password; unavailable otherwise.
///
/// `connecting` and `answering` are how long the server may take; for an answer, zero means no limit.
[[nodiscard]] handle connect(std::string const& url, milliseconds connecting, milliseconds answering);

/// Thread-safe after `expect()`.
class connector {
 public:
  /// With a `provider` the URL is not used.
  connector(std::string url, std::function<st_mysql*()> provider)
      : url_{std::move(url)}, provider_{std::move(provider)} {}

  /// From here on a connection must lead to the table with this identity, whose companion is `meta`: a provider may
  /// change its mind, and a name may lead to another server.
  void expect(std::string meta, std::string table_id) {
    meta_ = std::move(meta);
    table_id_ = std::move(table_id);
  }

  /// From here on the sessions of the store refuse changes.
  void only_read() noexcept { read_only_ = true; }

  /// Opens a connection and sets what the store's statements need. Throws `error`, which shows no password. With a URL:
  /// as `connect()` does. With a provider: unavailable if it throws an exception of another type, or returns null or a
  /// connection that is not open; store_failure if its connection is in a transaction, lacks a flag that the store
  /// needs, or leads to another table.
  [[nodiscard]] handle open(milliseconds timeout) const;

  /// The same for changes of the schema, whose statements take as long as they need.
  [[nodiscard]] handle open_for_changes(milliseconds timeout) const;

 private:
  void check_table(MYSQL* c) const;

  std::string url_;
  std::function<st_mysql*()> provider_;
  std::string meta_, table_id_;
  bool read_only_ = false;
};

/// The statement that asks for the identity of the table whose companion is `meta`.
[[nodiscard]] std::string table_id_sql(std::string const& meta);

}  // namespace outbox::inline v0::mysql
