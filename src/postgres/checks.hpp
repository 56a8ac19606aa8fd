// The checks of a PostgreSQL server and the outbox table on it, by subject.
#pragma once

#include <outbox/spi/check.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

#include "postgres/driver.hpp"
#include "postgres/statements.hpp"
#include "sql/dialect.hpp"

namespace outbox::inline v0::postgres {

/// What is checked, and where the findings go. Each check adds at least one.
struct checked {
  driver& d;
  std::string const& table;
  std::string const& schema;
  sql::dialect const& statements;
  array_statements const& arrays;
  spi::finding_limits const& limits;
  std::vector<spi::finding>& found;

  /// A name of schema/postgres as it is for this table, with its schema and quoted.
  [[nodiscard]] std::string named(std::string_view name) const;
};

/// schema_version, schema_columns.
void check_tables(checked const& on);

/// missing_index, invalid_index, unused_index, claim_plan.
void check_indexes(checked const& on);

/// fsync, full_page_writes, synchronous_commit, isolation, read_only_server, tls.
void check_settings(checked const& on);

/// autovacuum, dead_versions, old_transaction, prepared_transaction, replication_slot.
void check_vacuum(checked const& on);

/// privileges, superuser.
void check_rights(checked const& on);

}  // namespace outbox::inline v0::postgres
