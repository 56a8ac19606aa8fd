#include <outbox/spi/sql_connection.hpp>

namespace outbox::inline v0::sql {

row::~row() = default;
connection::~connection() = default;

}  // namespace outbox::inline v0::sql
