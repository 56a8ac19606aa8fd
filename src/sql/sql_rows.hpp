// Reads a row of the table, written by this library or by another program.
#pragma once

#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <string>

#include "sql/layout.hpp"

namespace outbox::inline v0::sql {

/// Reads the columns `{row}` of a layout. If a column cannot be read, `malformed` says why and the rest is read.
[[nodiscard]] OUTBOX_SQL_EXPORT row_view read_row(row const& r, std::string& malformed);

}  // namespace outbox::inline v0::sql
