// The dispatch lock of a PostgreSQL store: an advisory lock of a session of its own, which the server gives back when
// the session ends, however it ends.
#pragma once

#include <memory>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>

#include "postgres/connector.hpp"

namespace outbox::inline v0::postgres {

/// Why there is no dispatch lock behind a pooler.
inline constexpr std::string_view pooler_reason =
    "the lock lasts as long as its session, and a pooler between this process and the server gives its sessions to "
    "other "
    "clients; connect to the server itself, or use multi_node";

/// What came of an attempt.
struct lock_attempt {
  std::unique_ptr<spi::dispatch_lock> lock;  ///< Null if another node has it.
  bool beside_older = false;  ///< That is a node of an earlier version, on this table or on a copy of its schema.
};

/// `expire_sql` is `dialect.expire_others`.
[[nodiscard]] lock_attempt try_advisory_lock(connector const& how, milliseconds timeout, std::string_view table_id,
                                             std::string_view incarnation, std::string expire_sql);

}  // namespace outbox::inline v0::postgres
