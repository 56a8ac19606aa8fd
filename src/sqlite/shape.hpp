// The shape of the tables in a SQLite file, beside that of tables which this library has just created.
#pragma once

#include <string>
#include <vector>

#include "sql/findings.hpp"
#include "sqlite/driver.hpp"

namespace outbox::inline v0::sqlite {

/// An index and the statement that makes it.
struct index_shape {
  std::string name;
  std::string sql;  ///< Empty: the file has no such index.
};

/// Tables and indexes as they are, and as this library creates them.
struct shape {
  std::vector<sql::table_shape> tables;
  std::vector<index_shape> found;     ///< In the order of `expected`.
  std::vector<index_shape> expected;  ///< What the library creates.
};

/// Reads the file's own description, and creates the same tables in memory to compare. Throws `error`.
[[nodiscard]] shape shape_of(driver& d, std::string const& table);

/// How a column of a SQLite table is changed.
[[nodiscard]] sql::column_changes column_changes() noexcept;

}  // namespace outbox::inline v0::sqlite
