// The schema of a table: what it is, and what a `migrate()` function did to it.
#pragma once

#include <string>
#include <vector>

namespace outbox::inline v0 {

/// The result of `sqlite::migrate()`, `postgres::migrate()`, `mysql::migrate()` and `redis::migrate()`.
struct migration {
  enum class kind {
    nothing,   ///< The table had this library's schema.
    created,   ///< There was no table.
    adopted,   ///< The table was made by the plain outbox DDL. Its rows were kept.
    upgraded,  ///< The table had an older schema of this library. Its rows were kept.
    indexed,   ///< Only an index was added that the options ask for.
  };

  kind change = kind::nothing;          ///< What was changed.
  std::vector<std::string> warnings{};  ///< What an operator should know about the change.
};

/// The schema that a table has, beside the one that this library wants.
struct schema_state {
  enum class kind {
    none,       ///< There is no table.
    adoptable,  ///< There is a table that another program made. `migrate()` says whether it can adopt it.
    older,      ///< An older schema of this library.
    current,    ///< This library's schema.
    newer,      ///< The schema of a newer library.
  };

  kind found = kind::none;  ///< What is there.
  int version = 0;          ///< The version of the table's schema; 0 if it has none of this library.
  int wanted = 0;           ///< The version of this library's schema.

  /// The SQL that `migrate()` runs to create or upgrade the table, for a person who runs it. Empty if there is nothing
  /// to do, and for a table to be adopted, where it depends on the columns.
  std::string sql{};
};

}  // namespace outbox::inline v0
