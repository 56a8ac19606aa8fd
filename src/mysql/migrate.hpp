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

/// schema/mysql/keyed.sql
extern std::string_view const keyed_sql;

/// What is behind the name of the table in the name of that index.
inline constexpr std::string_view key_index = "_keyed";

/// Throws `error` (invalid_option).
void check_options(options const& o);

/// The database that `o` names, or the connection's own. Throws `error` (invalid_option) if there is none.
[[nodiscard]] std::string resolve_database(MYSQL* c, options const& o);

/// Other processes that migrate wait. Throws `error`.
migration migrate_connection(MYSQL* c, options const& o, std::string const& database, server const& s);

/// True if the table has the column and the index of schema/mysql/keyed.sql.
[[nodiscard]] bool has_key_index(driver& d, std::string const& table, std::string const& database);

/// The statements that add what is missing of them, for a person who runs them.
[[nodiscard]] std::string key_schema(driver& d, std::string const& table, std::string const& database, server const& s);

/// Adds what is missing of them. Returns false if nothing is. Programs may write meanwhile. Throws `error`.
bool add_key_index(MYSQL* c, options const& o, std::string const& database, server const& s);

/// Returns what was drawn when the table was created. Throws `error` (store_failure), which says what to do, unless the
/// table has this library's schema.
[[nodiscard]] std::string check_schema(MYSQL* c, std::string const& table, std::string const& database);

}  // namespace outbox::inline v0::mysql
