#include <outbox/sql/connection.hpp>

namespace outbox::inline v0::sql {

row::~row() = default;
connection::~connection() = default;

}  // namespace outbox::inline v0::sql
