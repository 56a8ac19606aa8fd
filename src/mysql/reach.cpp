#include "mysql/reach.hpp"

#include <cstdint>

#include "mysql/connector.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::mysql {
namespace {

constexpr char packet_key[] = "outbox.max_allowed_packet";

// A number that the client library keeps with a connection for as long as that is open; 0 if there is none. The number
// belongs to a session: the library may have made the connection again.
std::uintptr_t recall(MYSQL* c, char const* name) noexcept {
  void* value = nullptr;
  mysql_get_optionv(c, MARIADB_OPT_USERDATA, const_cast<char*>(name), &value);
  return reinterpret_cast<std::uintptr_t>(value);
}
void remember(MYSQL* c, char const* name, std::uintptr_t number) noexcept {
  mysql_optionsv(c, MARIADB_OPT_USERDATA, const_cast<char*>(name),
                 reinterpret_cast<void*>(number));  // NOLINT(performance-no-int-to-ptr): the library keeps pointers
}

// LOCK IN SHARE MODE reads without making the snapshot of a REPEATABLE READ transaction, which would be older than the
// caller expects. Nothing ever changes this row, so no session waits for the lock.
std::size_t ask(caller_connection& c, table_identity const& to) {
  auto const meta = sql::with_table("outbox_meta", to.table, to.database, '`');
  bool same = false;
  std::size_t packet = 0;
  try {
    c.execute("SELECT value = ?1, @@max_allowed_packet FROM " + meta + " WHERE name = 'table_id' LOCK IN SHARE MODE",
              {std::string_view{to.id}}, [&](sql::row const& r) {
                same = r.integer(0) != 0;
                packet = static_cast<std::size_t>(r.integer(1));
                return false;
              });
  } catch (error const& e) {
    auto const number = mysql_errno(c.line().raw());
    if (number == code::access_denied_to_table || number == code::access_denied_to_database) {
      throw error{errc::store_failure, "the connection's user may not read " + meta + ": GRANT SELECT on it",
                  std::string{e.sqlstate()}};
    }
    if (number != code::no_such_table && number != code::unknown_database) throw;
  }
  if (!same) throw error{errc::wrong_transaction, "the transaction is on another database than the node's store"};
  return packet;
}

// The table has no companion that could tell: server, database and table must be the same. Reads only tables
// of the server itself, so it makes no snapshot.
std::size_t ask_server(caller_connection& c, table_identity const& to) {
  bool const there = c.any("SELECT 1 FROM information_schema.tables WHERE table_schema = ?1 AND table_name = ?2",
                           {std::string_view{to.database}, std::string_view{to.table}});
  if (!there || c.ask<std::string>(server_identity) != to.id) {
    throw error{errc::wrong_transaction, "the transaction is on another database than the node's store"};
  }
  return static_cast<std::size_t>(c.ask<std::int64_t>("SELECT @@max_allowed_packet").value_or(0));
}

}  // namespace

std::size_t check_reaches(caller_connection& c, table_identity const& to) {
  auto* const raw = c.line().raw();
  auto const key = "outbox." + to.id + "." + to.database + "." + to.table;
  auto const session = static_cast<std::uintptr_t>(mysql_thread_id(raw));
  if (recall(raw, key.c_str()) == session) return recall(raw, packet_key);
  auto const packet = to.described ? ask_server(c, to) : ask(c, to);
  remember(raw, packet_key, packet);
  remember(raw, key.c_str(), session);
  return packet;
}

}  // namespace outbox::inline v0::mysql
