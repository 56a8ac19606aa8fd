// The names of the outbox tables: letters, digits and underscores only, so that they can stand in a statement.
#pragma once

#include <outbox/detail/sql_export.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::sql {

/// Throws `error` (invalid_option) unless `name` is [A-Za-z_][A-Za-z0-9_]* of at most 48 characters, which leaves room
/// for suffixes. The error names the option `field`.
OUTBOX_SQL_EXPORT void check_table_name(std::string_view name, std::string_view field = "table");

/// Replaces every name "outbox_event" in `sql` by `table`, and gives "outbox_meta", "outbox_node", "outbox_audit" and
/// the names of indexes its prefix: each event table has its own companions. Names are quoted, so that reserved words
/// and capital letters work. Tables are qualified with `schema` unless that is empty. The default names without a
/// schema stay as they are.
[[nodiscard]] OUTBOX_SQL_EXPORT std::string with_table(std::string_view sql, std::string_view table,
                                                       std::string_view schema = {}, char quote = '"');

}  // namespace outbox::inline v0::sql
