// What an operator should know about the server and the table of a PostgreSQL store.
#pragma once

#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

namespace outbox::inline v0::postgres {

[[nodiscard]] std::vector<spi::finding> findings_of(sql::connection& c, std::string const& table,
                                                    std::string const& schema);

}  // namespace outbox::inline v0::postgres
