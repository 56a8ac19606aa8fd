// What a `migrate()` function did to a table.
#pragma once

#include <string>
#include <vector>

namespace outbox::inline v0 {

/// The result of `sqlite::migrate()` and `postgres::migrate()`.
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

}  // namespace outbox::inline v0
