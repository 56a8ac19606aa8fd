// A connection of the store's own, with the session settings that its statements need.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "postgres/connector.hpp"
#include "postgres/driver.hpp"

namespace outbox::inline v0::postgres {

/// True unless the server has ended the session, as far as is known without a round trip.
[[nodiscard]] bool looks_alive(PGconn* c) noexcept;

struct own_connection {
  handle conn;
  driver statements;

  [[nodiscard]] bool alive() noexcept { return looks_alive(conn.get()); }

  /// Rolls back what is left of a transaction. False if the connection cannot be used any more.
  [[nodiscard]] bool clean() noexcept;

  [[nodiscard]] static bool spoiled_by(error const& e) noexcept { return spoils_connection(e); }
};

/// The planner settings that the statements were measured with: plans go through the indexes, whatever the statistics
/// of a young table say.
inline constexpr std::string_view plan_settings[] = {"enable_sort = off", "enable_bitmapscan = off",
                                                     "enable_seqscan = off", "jit = off"};

/// The setting that lets a session be idle without limit; empty for servers before 14, which have no such limit.
[[nodiscard]] std::string_view silence_setting(PGconn const* c) noexcept;

/// False if the server itself answers: a pooler gives out a process id of its own. A pooler may have no server to give
/// for a long time, so the question has a limit like every other one.
[[nodiscard]] bool behind_pooler(PGconn* c, milliseconds timeout);

/// Connects and prepares the session: time-outs, isolation, plans that do not depend on parameters. Behind a pooler
/// nothing is set, because the session is shared with others. Throws `error`.
[[nodiscard]] std::unique_ptr<own_connection> connect_own(connector const& how, milliseconds timeout);

}  // namespace outbox::inline v0::postgres
