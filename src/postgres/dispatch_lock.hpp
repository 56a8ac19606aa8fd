// The dispatch lock of a PostgreSQL store: an advisory lock of a session of its own, which the server gives back when
// the session ends, however it ends.
#pragma once

#include <memory>
#include <outbox/store.hpp>
#include <string>
#include <string_view>

#include "postgres/driver.hpp"

namespace outbox::inline v0::postgres {

/// Null if somebody else has it. `expire_sql` is `dialect.expire_others`.
[[nodiscard]] std::unique_ptr<dispatch_lock> try_advisory_lock(std::string const& connection_string,
                                                               milliseconds timeout, std::string_view table_id,
                                                               std::string_view incarnation, std::string expire_sql);

}  // namespace outbox::inline v0::postgres
