// The checks of a table that are the same in every SQL database.
#pragma once

#include <chrono>
#include <cstdint>
#include <outbox/detail/sql_export.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sql/layout.hpp"

namespace outbox::inline v0::sql {

using spi::finding;

/// A column as a database describes it, in words that the same database always uses.
struct column_shape {
  std::string name;
  std::string type;
  bool required = false;   ///< NOT NULL.
  std::string standard{};  ///< The default; empty if there is none.
  bool supplied = false;   ///< The database makes the value: a generated column or a number.
};

/// The columns of a table: as it is, and as this library creates it.
struct table_shape {
  std::string name;                    ///< As statements name it.
  std::vector<column_shape> found;     ///< Empty: there is no such table.
  std::vector<column_shape> expected;  ///< What the library creates.
};

/// How a database changes a column, for the commands that mend a table.
struct column_changes {
  /// Each returns a command, for the table of this name.
  std::string (*add)(std::string const& table, column_shape const& wanted);
  std::string (*retype)(std::string const& table, column_shape const& wanted);
  std::string (*set_default)(std::string const& table, column_shape const& wanted);
  std::string (*drop_required)(std::string const& table, column_shape const& found);

  /// True if a column of type `found` holds all that one of type `wanted` does.
  bool (*holds)(std::string const& found, std::string const& wanted);
};

/// "schema_version": the version that the table has.
OUTBOX_SQL_EXPORT void check_version(connection& c, layout const& table, std::vector<finding>& found);

/// "schema_columns": columns that are missing or differ, and columns of other programs that keep this library from
/// inserting.
OUTBOX_SQL_EXPORT void check_columns(std::vector<table_shape> const& tables, column_changes const& change,
                                     std::vector<finding>& found);

/// What `check_owners` sends.
struct owner_statements {
  std::string const& owners;  ///< Of the dialect.
  std::string const& nodes;   ///< Of the dialect.
  std::string table;          ///< The name of the table in a command.
};

/// "expired_leases" and "foreign_owner": pending rows whose owner is gone, and those that another program has locked.
OUTBOX_SQL_EXPORT void check_owners(connection& c, owner_statements const& statements,
                                    spi::finding_limits const& limits, std::vector<finding>& found);

/// The parts of a statement about pending rows that differ between databases. Each is a template of a layout.
struct pending_forms {
  std::string limit;      ///< The parameter for the number of rows.
  std::string instant;    ///< The parameter for an instant.
  std::string claimable;  ///< The instant from which a pending row can be claimed.
  std::string pending;    ///< Table and condition of pending rows, through the index by their claimable instant.
  std::string dead;       ///< Table and condition of DEAD rows, through their index.
};

/// The statement `owners` of a dialect. It selects: the number of rows that it looked at; rows whose lease ended before
/// the instant, the first such end, an owner of them; rows that have an owner and no lease, an owner of them, when such
/// an owner last locked one.
[[nodiscard]] OUTBOX_SQL_EXPORT std::string owners_text(pending_forms const& f);

/// The statement `waiting_types` of a dialect.
[[nodiscard]] OUTBOX_SQL_EXPORT std::string waiting_types_text(pending_forms const& f);

/// "1 row", "2 rows"
[[nodiscard]] OUTBOX_SQL_EXPORT std::string counted(std::uint64_t n, std::string_view one);

/// "37 s", "12 min", "5 h", "3 days": rounded down.
[[nodiscard]] OUTBOX_SQL_EXPORT std::string duration_text(std::chrono::milliseconds d);

/// "12 kB", "3.4 MB"
[[nodiscard]] OUTBOX_SQL_EXPORT std::string size_text(std::uint64_t bytes);

}  // namespace outbox::inline v0::sql
