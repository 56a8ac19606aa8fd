// What an operator should know about the table and its server.
#pragma once

#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

#include "mysql/server.hpp"

namespace outbox::inline v0::mysql {

[[nodiscard]] std::vector<spi::finding> findings_of(sql::connection& c, std::string const& table,
                                                    std::string const& database, server const& s);

}  // namespace outbox::inline v0::mysql
