// The schema of a MariaDB or MySQL database: its text, and how a database gets it.
#pragma once

#include <outbox/mysql.hpp>
#include <string>
#include <string_view>

#include "mysql/driver.hpp"
#include "mysql/server.hpp"

namespace outbox::inline v0::mysql {

/// schema/mysql/0002.sql
extern std::string_view const schema_sql;

/// Throws `error` (invalid_option).
void check_options(options const& o);

/// The database that `o` names, or the connection's own. Throws `error` (invalid_option) if there is none.
[[nodiscard]] std::string resolve_database(MYSQL* c, options const& o);

/// Other processes that migrate wait. Throws `error`.
migration migrate_connection(MYSQL* c, options const& o, std::string const& database, server const& s);

/// Returns what was drawn when the table was created. Throws `error` (store_failure), which says what to do, unless the
/// table has this library's schema.
[[nodiscard]] std::string check_schema(MYSQL* c, std::string const& table, std::string const& database);

}  // namespace outbox::inline v0::mysql
