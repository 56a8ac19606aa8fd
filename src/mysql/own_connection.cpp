#include "mysql/own_connection.hpp"

#include <poll.h>

namespace outbox::inline v0::mysql {

// A server says nothing to a session that asks nothing. What can be read there is the end, or the announcement of it.
bool looks_alive(MYSQL* c) noexcept {
  auto const fd = mysql_get_socket(c);
  if (fd == MARIADB_INVALID_SOCKET) return false;
  ::pollfd socket{static_cast<int>(fd), POLLIN, 0};
  return ::poll(&socket, 1, 0) == 0;
}

// An error has no status of the server in it. So after one it is unknown here whether the transaction goes on.
bool own_connection::clean() noexcept {
  if (mysql_get_socket(conn.get()) == MARIADB_INVALID_SOCKET) return false;
  if (mysql_errno(conn.get()) == 0 && !statements.in_transaction()) return true;
  try {
    statements.execute("ROLLBACK");
    return true;
  } catch (std::exception const&) {
    return false;
  }
}

}  // namespace outbox::inline v0::mysql
