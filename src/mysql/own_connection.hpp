// A connection of the store's own.
#pragma once

#include <memory>

#include "mysql/connector.hpp"
#include "mysql/driver.hpp"

namespace outbox::inline v0::mysql {

/// True unless the server has ended the session, as far as is known without a round trip.
[[nodiscard]] bool looks_alive(MYSQL* c) noexcept;

struct own_connection {
  explicit own_connection(handle c) noexcept : conn{std::move(c)}, statements{conn.get()} {}

  handle conn;
  driver statements;

  [[nodiscard]] bool alive() noexcept { return looks_alive(conn.get()); }

  /// Rolls back what is left of a transaction. False if the connection cannot be used any more.
  [[nodiscard]] bool clean() noexcept;

  [[nodiscard]] static bool spoiled_by(error const& e) noexcept { return spoils_connection(e); }
};

}  // namespace outbox::inline v0::mysql
