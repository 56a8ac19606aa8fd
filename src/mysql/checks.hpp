// The checks of a MariaDB or MySQL server and the outbox table on it, by subject.
#pragma once

#include <outbox/spi/check.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "mysql/driver.hpp"
#include "mysql/server.hpp"
#include "mysql/statements.hpp"
#include "sql/dialect.hpp"

namespace outbox::inline v0::mysql {

/// What is checked, and where the findings go. Each check adds at least one.
struct checked {
  driver& d;
  std::string const& table;
  std::string const& database;
  mysql::server const& server;
  sql::dialect const& statements;
  set_statements const& sets;
  spi::finding_limits const& limits;
  std::vector<spi::finding>& found;

  /// A name of schema/mysql as it is for this table, with its database and quoted.
  [[nodiscard]] std::string named(std::string_view name) const;

  /// The same as the server's catalog has it.
  [[nodiscard]] std::string plain(std::string_view name) const;

  /// The table is marked as one that keeps the order of keys.
  [[nodiscard]] bool keyed() const;
};

/// schema_version, schema_columns, table_engine.
void check_tables(checked const& on);

/// missing_index, index_definition, claim_plan.
void check_indexes(checked const& on);

/// read_only_server, isolation, history_length, old_transaction, prepared_transaction, tls, privileges, superuser.
void check_server(checked const& on);

}  // namespace outbox::inline v0::mysql
