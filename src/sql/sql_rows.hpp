// A row of the table as a value, whoever wrote it.
#pragma once

#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <string>

namespace outbox::inline v0::sql {

/// The column after those of `row_columns`.
inline constexpr int columns_of_a_row = 22;
inline constexpr int available_at_column = 11;

/// Reads the columns of `dialect.due`, `find` and `dead`. What cannot be read is told in `malformed`; the rest is as
/// good as it gets.
[[nodiscard]] OUTBOX_SQL_EXPORT row_view read_row(row const& r, std::string& malformed);

/// The parameters of `dialect.insert`. The text that they point to lives in `event` and `headers`.
[[nodiscard]] OUTBOX_SQL_EXPORT std::vector<value> insert_parameters(spi::insertion const& i,
                                                                     std::string const& headers);

}  // namespace outbox::inline v0::sql
