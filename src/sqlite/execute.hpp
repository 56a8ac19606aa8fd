// Runs the application's SQL on a handle.
#pragma once

#include <sqlite3.h>

#include <outbox/sql.hpp>
#include <span>
#include <string_view>

namespace outbox::inline v0::sqlite {

/// Runs one statement with its arguments, or several without arguments. Returns the result of the last one. Nothing
/// stays prepared. Throws `error`.
sql::result execute_on(sqlite3* db, std::string_view sql, std::span<sql::argument const> args);

}  // namespace outbox::inline v0::sqlite
