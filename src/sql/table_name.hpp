// The names of our tables: letters, digits and underscores only, so that they can stand in a statement.
#pragma once

#include <outbox/detail/sql_export.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::sql {

/// Throws `error` (invalid_option) unless it is [A-Za-z_][A-Za-z0-9_]* of at most 48 characters; room for suffixes.
/// `field` is the option that is named.
OUTBOX_SQL_EXPORT void check_table_name(std::string_view name, std::string_view field = "table");

/// Every name "outbox_event" in `sql` becomes `table`, "outbox_meta" and "outbox_node" get its prefix: a table of
/// another name brings its own two along, and its indexes. Names are quoted, so that reserved words and capital letters
/// are names like any other; tables stand in `schema` unless that is empty.
[[nodiscard]] OUTBOX_SQL_EXPORT std::string with_table(std::string_view sql, std::string_view table,
                                                       std::string_view schema = {});

}  // namespace outbox::inline v0::sql
