// Joins the transaction of a SOCI session on SQLite. Link outbox::sqlite and SOCI's backend for SQLite.
//
// Not hot: nothing tells how a transaction of SOCI ends, so the poller finds its events within milliseconds of the
// commit. For the hot path begin an outbox::sqlite::transaction on the session's handle instead of a soci::transaction:
/// \file
///
///     outbox::sqlite::transaction tx{outbox::adapt::sqlite_handle(sql)};
//
// SOCI's header declares the functions of SQLite in a namespace of its own. A source file that includes it cannot
// include <sqlite3.h> as well.
#pragma once

#include <soci/sqlite3/soci-sqlite3.h>

#include <outbox/adapt/soci.hpp>
#include <outbox/sqlite.hpp>

namespace outbox::inline v0::adapt {

/// Returns the handle below the session, which SOCI closes. Throws `error` (no_transaction) if the session is not
/// connected, and (wrong_transaction) if it is not on SQLite.
inline sqlite3* sqlite_handle(soci::session& session) {
  require_backend(session, "sqlite3");
  auto* const backend = static_cast<soci::sqlite3_session_backend*>(session.get_backend());
  return reinterpret_cast<sqlite3*>(backend->conn_);  // one type, which SOCI declares in a namespace of its own
}

inline bool const soci_joins_sqlite = [] {
  joined_soci_databases.sqlite = [](soci::session& s) { return transaction_traits<sqlite3*>::join(sqlite_handle(s)); };
  return true;
}();

}  // namespace outbox::inline v0::adapt
