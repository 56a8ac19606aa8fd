// The checks of a SQLite file and the outbox table in it.
#pragma once

#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sql/dialect.hpp"
#include "sqlite/driver.hpp"

namespace outbox::inline v0::sqlite {

/// The table, and the statements of its store that the checks ask about.
struct checked_table {
  std::string const& table;
  std::string const& due;  ///< The look of a claim.
  sql::dialect const& statements;
};

/// Makes every check. Changes nothing. Throws `error` if the file cannot be read.
[[nodiscard]] std::vector<spi::finding> findings_of(driver& d, checked_table const& t,
                                                    spi::finding_limits const& limits);

/// The name of the network file system that `statfs` calls by this number; empty for one that is not known as such.
[[nodiscard]] OUTBOX_SQLITE_EXPORT std::string_view network_file_system(long type) noexcept;

}  // namespace outbox::inline v0::sqlite
