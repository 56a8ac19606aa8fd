// What the server is, and which of its settings matter.
#pragma once

#include <outbox/mysql.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

#include "mysql/driver.hpp"

namespace outbox::inline v0::mysql {

struct server {
  bool mariadb = false;
  bool clustered = false;      ///< Galera, or a group with several primaries: other servers take writes too.
  std::string cluster;         ///< What it is then, for messages.
  std::size_t max_packet = 0;  ///< max_allowed_packet
  std::string collation;       ///< Compares bytes, and does not ignore spaces at the end.
};

/// Throws `error` (store_failure) if the server is too old, or has settings that the store cannot work with.
[[nodiscard]] server look_at_server(MYSQL* c);

/// What an operator should know about the server's settings: those that weaken a promise, and clusters. `keyed`: the
/// table keeps an order of keys.
[[nodiscard]] std::vector<spi::finding> look_at_settings(sql::connection& c, server const& s, bool keyed);

}  // namespace outbox::inline v0::mysql
