// Whether a caller's connection leads to the table of the store.
#pragma once

#include <cstddef>
#include <string>

#include "mysql/caller_connection.hpp"

namespace outbox::inline v0::mysql {

/// Which table a store writes to.
struct table_identity {
  std::string table, database;
  std::string id;  ///< Drawn when the table was created, with the names of database and table.

  /// True: another program created the table, and `id` is what `server_identity` said.
  bool described = false;
};

/// Asks a server which one it is.
inline constexpr char const* server_identity = "SELECT concat(@@hostname, ':', @@port, ':', @@datadir)";

/// Checks at the first write of a store on a connection that it leads to the store's table, and remembers it with the
/// connection. Returns the greatest size of a packet that the server takes on it. Throws `error` (wrong_transaction) if
/// it leads elsewhere; nothing has been written then, and the transaction goes on.
std::size_t check_reaches(caller_connection& c, table_identity const& to);

}  // namespace outbox::inline v0::mysql
