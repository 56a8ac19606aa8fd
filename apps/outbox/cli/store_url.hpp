// The parts of a store's URL, for verbs that work beside the store.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace outbox_tool {

enum class database_kind { sqlite, postgres, mysql, redis };

/// A URL as `outbox::open_store` takes it.
struct store_url {
  database_kind kind = database_kind::sqlite;
  std::string connection{};                                ///< For clients: a path, or a URL without our parameters.
  std::map<std::string, std::string, std::less<>> ours{};  ///< Our parameters, as in {"table", "outbox_event"}.

  /// Throws `tool_error` (exit_usage) if there is no scheme, or none of a database that `purpose` works on. `purpose`
  /// is a verb for the message, as in "bench".
  [[nodiscard]] static store_url parse(std::string_view url, std::string const& purpose);

  /// The value of one of our parameters, or `otherwise`.
  [[nodiscard]] std::string parameter(std::string_view name, std::string const& otherwise = {}) const;

  /// The URL again.
  [[nodiscard]] std::string text() const;

  /// The database that the path of a MariaDB, MySQL or Redis URL names; empty if it names none.
  [[nodiscard]] std::string database_in_path() const;

  /// The name of an outbox on Redis, decoded.
  [[nodiscard]] std::string outbox_name() const;
};

}  // namespace outbox_tool
