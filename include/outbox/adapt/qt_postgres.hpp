// Joins the transaction of a QSqlDatabase on PostgreSQL (the driver QPSQL). Link outbox::postgres and Qt6::Sql.
//
// Hot: an event procedure on the libpq connection below the driver sees how the transaction ends.
#pragma once

#include <outbox/adapt/qt.hpp>
#include <outbox/postgres.hpp>

namespace outbox::inline v0::adapt {

/// Returns the libpq connection below the driver, which Qt closes. Throws `error` (no_transaction) if the database is
/// not open, and (wrong_transaction) if it is not on PostgreSQL.
inline pg_conn* postgres_handle(QSqlDatabase const& db) { return native_handle<pg_conn>(db, "pg_conn*"); }

inline bool const qt_joins_postgres = [] {
  joined_qt_databases.postgres = [](QSqlDatabase const& db) {
    return transaction_traits<pg_conn*>::join(postgres_handle(db));
  };
  return true;
}();

}  // namespace outbox::inline v0::adapt
