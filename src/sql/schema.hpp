// What the schemas of all SQL databases have in common: versions, and tables that can be adopted.
#pragma once

#include <outbox/detail/sql_export.hpp>
#include <outbox/migration.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sql/layout.hpp"

namespace outbox::inline v0::sql {

/// The schema that this library creates.
using spi::schema_version;

/// The columns that a table made by the plain outbox DDL has.
inline constexpr std::string_view adoptable_columns[] = {
    "event_id", "event_type",   "aggregate_type", "aggregate_id", "tenant_id",  "payload",   "headers",  "status",
    "attempts", "available_at", "created_at",     "done_at",      "last_error", "locked_by", "locked_at"};

[[nodiscard]] OUTBOX_SQL_EXPORT bool is_adoptable(std::string_view column) noexcept;

/// "a, b, c"
[[nodiscard]] OUTBOX_SQL_EXPORT std::string listed(std::vector<std::string> const& names);

/// Throws `error` (store_failure) with this text.
[[noreturn]] OUTBOX_SQL_EXPORT void refuse(std::string const& text);

/// The version that the table's companion says. The companion must exist. 0 if it says none.
[[nodiscard]] OUTBOX_SQL_EXPORT int read_schema_version(connection& c, layout const& table);

/// Throws `error` (store_failure) if this library may not work on a table of this version: it is newer, and its
/// `oldest_library` does not allow this one.
OUTBOX_SQL_EXPORT void refuse_newer_schema(connection& c, layout const& table, int version);

/// Throws `error` (store_failure) if the version is older than this library's. `table` names the table, and `migrate`
/// the function that upgrades it.
OUTBOX_SQL_EXPORT void refuse_older_schema(int version, std::string_view table, std::string_view migrate);

/// What a version means to this library. `table_exists`: there is a table of that name.
[[nodiscard]] OUTBOX_SQL_EXPORT schema_state state_of(int version, bool table_exists) noexcept;

}  // namespace outbox::inline v0::sql
