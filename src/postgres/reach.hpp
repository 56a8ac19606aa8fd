// Checks that a caller's connection leads to the table of a store.
#pragma once

#include <outbox/spi/postgres_adapter.hpp>
#include <string>

namespace outbox::inline v0::postgres {

/// Which table a store has.
struct table_identity {
  std::string table;
  std::string schema;
  std::string id;  ///< What `check_schema()` returned.

  /// Set if another program created the table: asks for the identity, which is `id` if the connection leads there.
  /// `table` is then the name as SQL takes it.
  std::string identity_sql{};
};

/// Asks the server the first time that a connection is used for this table, and remembers the answer with the
/// connection. Returns true if the connection's role may look for rows that it has written. Throws `error`:
/// wrong_transaction if the connection leads elsewhere or is not UTF-8, store_failure if its role may not read the
/// companion table or the transaction has failed already.
[[nodiscard]] bool check_reaches(caller_connection& c, table_identity const& to);

/// Whether the connection's role may read all rows and columns of the table, as `check_reaches` has found out. False if
/// it has not.
[[nodiscard]] bool may_read(caller_connection& c, table_identity const& to);

}  // namespace outbox::inline v0::postgres
