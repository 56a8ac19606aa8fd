// Runs the application's SQL on a connection.
#pragma once

#include <outbox/sql.hpp>
#include <span>
#include <string_view>

#include "mysql/driver.hpp"

namespace outbox::inline v0::mysql {

/// Runs one statement with its arguments, or several without arguments if the connection may send several. Returns the
/// result of the last one. Nothing stays prepared: the arguments are put in where a `?` stands outside quotes and
/// comments. Throws `error`.
sql::result execute_on(MYSQL* c, std::string_view sql, std::span<sql::argument const> args);

}  // namespace outbox::inline v0::mysql
