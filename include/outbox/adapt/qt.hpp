// Joins the transaction of a Qt database: `writer.write(db, …)` accepts a QSqlDatabase that is in one.
//
// Qt reaches several databases, and a program that uses one of them must not need the libraries of the others. So there
// is one more header for each database. Include it in one source file of the program, such as the one that opens the
// databases, and link the component:
//
//     <outbox/adapt/qt_sqlite.hpp>      outbox::sqlite      QSQLITE
//     <outbox/adapt/qt_postgres.hpp>    outbox::postgres    QPSQL
//     <outbox/adapt/qt_mysql.hpp>       outbox::mysql       QMYSQL, if it is built with MariaDB Connector/C
//
// Code that only writes events needs no more than this header. If a program consists of shared libraries with hidden
// symbols, each of them that writes includes the header of the database. No macro chooses the databases: source files
// that set it differently would have different definitions of one function.
//
// On PostgreSQL an event of such a transaction takes the hot path. On SQLite and MySQL nothing tells how it ends, and
// the poller finds the event: see the headers of those databases. The tests use Qt 6.4 (Debian 12).
#pragma once

#include <QtCore/QString>
#include <QtCore/QVariant>
#include <QtSql/QSqlDatabase>
#include <QtSql/QSqlDriver>
#include <outbox/error.hpp>
#include <outbox/transaction.hpp>
#include <string>

namespace outbox::inline v0::adapt {

/// The databases that this program can join. The header of a database sets its function before main() begins; without
/// that header it is null.
struct qt_databases {
  using join_function = transaction_ref (*)(QSqlDatabase const& db);

  join_function sqlite = nullptr;    ///< For drivers whose handle is a sqlite3*.
  join_function postgres = nullptr;  ///< For drivers whose handle is a PGconn*.
  join_function mysql = nullptr;     ///< For drivers whose handle is a MYSQL* of MariaDB Connector/C.
};

inline constinit qt_databases joined_qt_databases{};

/// Returns the type of the driver's handle, as in "sqlite3*"; empty if the driver has none. Throws `error`
/// (no_transaction) if the database is not open.
[[nodiscard]] inline std::string handle_type(QSqlDatabase const& db) {
  if (!db.isOpen()) throw error{errc::no_transaction, "the QSqlDatabase is not open"};
  auto const handle = db.driver()->handle();
  return handle.typeName() == nullptr ? "" : handle.typeName();
}

/// Returns the error for a driver that has another handle than `expected`.
[[nodiscard]] inline error wrong_handle(QSqlDatabase const& db, std::string const& expected) {
  auto const type = handle_type(db);
  return {errc::wrong_transaction, "the Qt driver " + db.driverName().toStdString() + " has " +
                                       (type.empty() ? "no handle" : "a handle of the type " + type) + ", not " +
                                       expected};
}

/// Returns the driver's handle. `type` is the name that Qt has for T*. Throws `error` (no_transaction) if the database
/// is not open, and (wrong_transaction) if the handle has another type.
template <class T>
[[nodiscard]] T* native_handle(QSqlDatabase const& db, std::string const& type) {
  if (handle_type(db) != type) throw wrong_handle(db, "one of the type " + type);
  return *static_cast<T* const*>(db.driver()->handle().constData());
}

}  // namespace outbox::inline v0::adapt

namespace outbox::inline v0 {

/// A database that is in a transaction, begun by QSqlDatabase::transaction() or by SQL. Use it on the thread that
/// opened it, as Qt requires.
///
/// `write()` throws `error` (no_transaction) if the database is not open or not in a transaction, and
/// (wrong_transaction) if this program cannot join it.
template <>
struct transaction_traits<QSqlDatabase> {
  static transaction_ref join(QSqlDatabase const& db) {
    auto const& known = adapt::joined_qt_databases;
    auto const type = adapt::handle_type(db);
    if (type == "sqlite3*") return joined(db, known.sqlite, "sqlite");
    if (type == "pg_conn*") return joined(db, known.postgres, "postgres");
    if (type == "st_mysql*") return joined(db, known.mysql, "mysql");
    throw adapt::wrong_handle(db, "one of SQLite, libpq or MariaDB Connector/C");
  }

 private:
  static transaction_ref joined(QSqlDatabase const& db, adapt::qt_databases::join_function join, char const* name) {
    if (join != nullptr) return join(db);
    throw error{errc::wrong_transaction,
                "this program cannot join a QSqlDatabase on this database: it does not include <outbox/adapt/qt_" +
                    std::string{name} + ".hpp>"};
  }
};

}  // namespace outbox::inline v0
