// Joins the transaction of a SOCI session: `writer.write(sql, …)` accepts a soci::session that is in one.
//
// SOCI reaches several databases, and a program that uses one of them must not need the libraries of the others. So
// there is one more header for each database. Include it in one source file of the program, such as the one that opens
// the sessions, and link the component:
//
//     <outbox/adapt/soci_sqlite.hpp>      outbox::sqlite
//     <outbox/adapt/soci_postgres.hpp>    outbox::postgres
//     <outbox/adapt/soci_mysql.hpp>       outbox::mysql
//
// Code that only writes events needs no more than this header. If a program consists of shared libraries with hidden
// symbols, each of them that writes includes the header of the database. No macro chooses the databases: source files
// that set it differently would have different definitions of one function.
//
// On PostgreSQL an event of such a transaction takes the hot path. On SQLite and MySQL nothing tells how it ends, and
// the poller finds the event: see the headers of those databases. The tests use SOCI 4.0.3 (Debian 12), whose headers
// need those of Boost.
#pragma once

#include <soci/soci.h>

#include <outbox/error.hpp>
#include <outbox/transaction.hpp>
#include <string>

namespace outbox::inline v0::adapt {

/// The databases whose sessions this program can join. The header of a database sets its function before main() begins;
/// without that header it is null.
struct soci_databases {
  using join_function = transaction_ref (*)(soci::session& session);

  join_function sqlite = nullptr;    ///< For the backend "sqlite3".
  join_function postgres = nullptr;  ///< For the backend "postgresql".
  join_function mysql = nullptr;     ///< For the backend "mysql".
};

inline constinit soci_databases joined_soci_databases{};

/// Throws `error` (no_transaction) if the session is not connected, and (wrong_transaction) if it has another backend.
inline void require_backend(soci::session& session, std::string const& backend) {
  if (session.get_backend() == nullptr) throw error{errc::no_transaction, "the SOCI session is not connected"};
  auto const name = session.get_backend_name();
  if (name != backend) {
    throw error{errc::wrong_transaction, "the SOCI session has the backend '" + name + "', not '" + backend + "'"};
  }
}

}  // namespace outbox::inline v0::adapt

namespace outbox::inline v0 {

/// A session that is in a transaction, begun by a soci::transaction, by session.begin() or by SQL. Pass the session: a
/// soci::transaction does not show which session it belongs to. Sessions from a soci::connection_pool are joined too.
///
/// `write()` throws `error` (no_transaction) if the session is not connected or not in a transaction, and
/// (wrong_transaction) if it is connected to a database that this program cannot join.
template <>
struct transaction_traits<soci::session> {
  static transaction_ref join(soci::session& session) {
    if (session.get_backend() == nullptr) throw error{errc::no_transaction, "the SOCI session is not connected"};
    auto const& known = adapt::joined_soci_databases;
    auto const backend = session.get_backend_name();
    if (backend == "sqlite3") return joined(session, known.sqlite, "sqlite");
    if (backend == "postgresql") return joined(session, known.postgres, "postgres");
    if (backend == "mysql") return joined(session, known.mysql, "mysql");
    throw error{errc::wrong_transaction, "a SOCI session with the backend '" + backend + "' cannot be joined"};
  }

 private:
  static transaction_ref joined(soci::session& session, adapt::soci_databases::join_function join, char const* name) {
    if (join != nullptr) return join(session);
    throw error{errc::wrong_transaction,
                "this program cannot join a SOCI session on this database: it does not include "
                "<outbox/adapt/soci_" +
                    std::string{name} + ".hpp>"};
  }
};

}  // namespace outbox::inline v0
