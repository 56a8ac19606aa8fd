// Joins the transaction of a QSqlDatabase on MariaDB or MySQL (the driver QMYSQL). Link outbox::mysql and Qt6::Sql.
//
// The driver must be built with MariaDB Connector/C, as that of Debian is. The connections of Oracle's libmysqlclient
// 8 are of another type, and `write()` refuses them.
//
// Not hot: nothing tells how a transaction of Qt ends. Call `node::wake()` after the commit, or the poller finds its
// events at the next poll. For the hot path begin an outbox::mysql::transaction on the driver's handle instead of
// calling QSqlDatabase::transaction():
//
//     outbox::mysql::transaction tx{outbox::adapt::mysql_handle(db)};
//
// Roll that back as soon as a QSqlQuery fails: after a deadlock there is no transaction any more, which Qt hides from
// the client library. On MariaDB `write()` then throws; on MySQL the event is committed alone.
#pragma once

#include <QtSql/QSqlQuery>
#include <outbox/adapt/qt.hpp>
#include <outbox/mysql.hpp>

namespace outbox::inline v0::adapt {

/// Returns the connection below the driver, which Qt closes. Throws `error` (no_transaction) if the database is not
/// open, and (wrong_transaction) if it is not on MariaDB Connector/C.
inline st_mysql* mysql_handle(QSqlDatabase const& db) { return native_handle<st_mysql>(db, "st_mysql*"); }

/// Asks the server, which says with every answer whether there is a transaction. An error does not say so, and Qt,
/// which does not throw, clears its number: after a deadlock the connection seems to be in the transaction that the
/// server has rolled back. An event that was written then would be committed alone.
inline void refresh_status(QSqlDatabase const& db) {
  QSqlQuery{db}.exec(QStringLiteral("DO 0"));  // if it fails, so does the write
}

inline bool const qt_joins_mysql = [] {
  joined_qt_databases.mysql = [](QSqlDatabase const& db) {
    auto* const handle = mysql_handle(db);
    refresh_status(db);
    return transaction_traits<st_mysql*>::join(handle);
  };
  return true;
}();

}  // namespace outbox::inline v0::adapt
