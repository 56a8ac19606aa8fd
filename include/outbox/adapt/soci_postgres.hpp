// Joins the transaction of a SOCI session on PostgreSQL. Link outbox::postgres and SOCI's backend for PostgreSQL.
//
// Hot: an event procedure on the libpq connection below the session sees how the transaction ends.
#pragma once

#include <soci/postgresql/soci-postgresql.h>

#include <outbox/adapt/soci.hpp>
#include <outbox/postgres.hpp>

namespace outbox::inline v0::adapt {

/// Returns the libpq connection below the session, which SOCI closes. Throws `error` (no_transaction) if the session is
/// not connected, and (wrong_transaction) if it is not on PostgreSQL.
inline pg_conn* postgres_handle(soci::session& session) {
  require_backend(session, "postgresql");
  return static_cast<soci::postgresql_session_backend*>(session.get_backend())->conn_;
}

inline bool const soci_joins_postgres = [] {
  joined_soci_databases.postgres = [](soci::session& s) {
    return transaction_traits<pg_conn*>::join(postgres_handle(s));
  };
  return true;
}();

}  // namespace outbox::inline v0::adapt
