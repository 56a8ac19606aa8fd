// Gives a table that the plain outbox DDL made this library's columns and keys.
#pragma once

#include <map>
#include <outbox/mysql.hpp>
#include <string>

#include "mysql/driver.hpp"
#include "mysql/server.hpp"

namespace outbox::inline v0::mysql {

/// A column of a table that is there.
struct column_facts {
  std::string type;        ///< "varchar"
  std::string full_type;   ///< "varchar(36)"
  std::size_t length = 0;  ///< In characters.
  bool needed = false;     ///< A row cannot be inserted without it.
  bool automatic = false;  ///< AUTO_INCREMENT
  bool generated = false;  ///< The server computes it.
  bool filled = false;     ///< It has a default that is not NULL.
};
using table_columns = std::map<std::string, column_facts, std::less<>>;

[[nodiscard]] table_columns columns_of(sql::connection& c, std::string const& table, std::string const& database);

/// Throws `error` (store_failure) unless the table can be adopted.
void check_adoptable(sql::connection& c, std::string const& table, std::string const& database,
                     table_columns const& have);

/// Rows keep their order as seq. Rows that another program has locked may be in its hands: they stay locked, for as
/// long as a lease. Writers wait meanwhile. What an interrupted call has left undone is done.
void adopt(driver& d, options const& o, std::string const& database, server const& s, table_columns const& columns,
           migration& report);

}  // namespace outbox::inline v0::mysql
