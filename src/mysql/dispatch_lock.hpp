// The dispatch lock: a lock by name (GET_LOCK) on a session of its own.
#pragma once

#include <memory>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>

#include "mysql/connector.hpp"

namespace outbox::inline v0::mysql {

/// Null if another session has the lock. `expire_sql` runs in the session that holds it. Throws `error`.
[[nodiscard]] std::unique_ptr<spi::dispatch_lock> try_named_lock(connector const& how, milliseconds timeout,
                                                                 std::string const& name, std::string_view incarnation,
                                                                 std::string expire_sql);

/// What the lock of the table with this identity is called: at most 64 characters, which is the longest that MySQL
/// takes. Names of locks are the server's, not the database's.
[[nodiscard]] std::string lock_name(sql::connection& c, std::string_view purpose, std::string_view identity);

}  // namespace outbox::inline v0::mysql
