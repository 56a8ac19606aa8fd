// The schema of a SQLite file: its text, and how a file gets it.
#pragma once

#include <sqlite3.h>

#include <outbox/error.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::sqlite {

/// schema/sqlite/0001.sql
extern std::string_view const schema_sql;

/// schema/sqlite/0002.sql
extern std::string_view const schema_2_sql;

/// schema/sqlite/keyed.sql
extern std::string_view const keyed_sql;

/// Runs `f` and adds the file's name to the error that it throws.
template <class F>
auto naming_file(std::string const& path, F&& f) {
  try {
    return f();
  } catch (error const& e) {
    throw error{e.code(), "cannot open the outbox in '" + path + "': " + e.what()};
  }
}

/// Migrates in one transaction, with the index of `keyed` nodes if `keyed` says so. Throws `error`.
migration migrate_handle(sqlite3* db, std::string const& table, bool keyed);

/// Whether the table has the index of `keyed` nodes.
[[nodiscard]] bool has_key_index(sql::connection& c, std::string const& table);

/// The statement that makes it, without a semicolon.
[[nodiscard]] std::string key_index(std::string const& table);

/// Throws `error` (store_failure), which says what to do, unless the table has this library's schema.
void check_schema(sqlite3* db, std::string const& table);

}  // namespace outbox::inline v0::sqlite
