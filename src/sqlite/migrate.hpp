// The schema: what it is, and how a file gets it.
#pragma once

#include <sqlite3.h>

#include <outbox/error.hpp>
#include <outbox/sqlite.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::sqlite {

inline constexpr int schema_version = 1;

/// schema/sqlite/0001.sql
extern std::string_view const schema_sql;

/// Runs `f`, and puts the file's name into what it throws.
template <class F>
auto naming_file(std::string const& path, F&& f) {
  try {
    return f();
  } catch (error const& e) {
    throw error{e.code(), "cannot open the outbox in '" + path + "': " + e.what()};
  }
}

/// In one transaction. Throws `error`.
migration migrate_handle(sqlite3* db, std::string const& table);

/// Throws `error` (store_failure) with what to do, unless the schema is the one that this library knows.
void check_schema(sqlite3* db, std::string const& table);

}  // namespace outbox::inline v0::sqlite
