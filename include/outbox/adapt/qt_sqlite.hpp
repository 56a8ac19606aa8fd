// Joins the transaction of a QSqlDatabase on SQLite (the driver QSQLITE). Link outbox::sqlite, SQLite and Qt6::Sql.
//
// The driver must use the SQLite library of this program, as that of Debian does. Unless Qt is built with
// -system-sqlite, its driver has a copy of SQLite inside, and `write()` refuses its databases: when one of two copies
// closes a file, the locks of the other on that file are gone, and the database may be damaged
// (https://www.sqlite.org/howtocorrupt.html, section 2.2).
//
// Not hot: nothing tells how a transaction of Qt ends, so the poller finds its events within milliseconds of the
// commit. For the hot path begin an outbox::sqlite::transaction on the driver's handle instead of calling
// QSqlDatabase::transaction():
/// \file
///
///     outbox::sqlite::transaction tx{outbox::adapt::sqlite_handle(db)};
#pragma once

#include <sqlite3.h>

#include <QtCore/QMetaObject>
#include <QtSql/QSqlQuery>
#include <atomic>
#include <outbox/adapt/qt.hpp>
#include <outbox/sqlite.hpp>

namespace outbox::inline v0::adapt {

/// Returns true if the driver uses the SQLite library of this program and not another copy of it.
[[nodiscard]] inline bool has_our_sqlite(QSqlDatabase const& db, sqlite3* handle) {
  static std::atomic<QMetaObject const*> known = nullptr;  // the class of drivers that was checked
  auto const* const drivers = db.driver()->metaObject();
  if (known == drivers) return true;
  // Another version lays out the handle differently, so this question goes through the driver.
  QSqlQuery query{db};
  if (!query.exec(QStringLiteral("SELECT sqlite_source_id()")) || !query.next()) return false;
  if (query.value(0).toString() != QLatin1String{sqlite3_sourceid()}) return false;
  // Each copy has its own list of file systems. The one that the handle uses is in the list of its copy.
  sqlite3_vfs* used = nullptr;
  sqlite3_file_control(handle, "main", SQLITE_FCNTL_VFS_POINTER, static_cast<void*>(&used));
  if (used == nullptr || sqlite3_vfs_find(used->zName) != used) return false;
  known = drivers;
  return true;
}

/// Returns the handle below the driver, which Qt closes. Throws `error` (no_transaction) if the database is not open,
/// and (wrong_transaction) if it is not on SQLite or not on the SQLite library of this program.
inline sqlite3* sqlite_handle(QSqlDatabase const& db) {
  auto* const handle = native_handle<sqlite3>(db, "sqlite3*");
  if (has_our_sqlite(db, handle)) return handle;
  throw error{errc::wrong_transaction, "the Qt driver " + db.driverName().toStdString() +
                                           " uses another copy of SQLite than the outbox, which would damage the "
                                           "database: use a driver that is built with the system's SQLite"};
}

inline bool const qt_joins_sqlite = [] {
  joined_qt_databases.sqlite = [](QSqlDatabase const& db) {
    return transaction_traits<sqlite3*>::join(sqlite_handle(db));
  };
  return true;
}();

}  // namespace outbox::inline v0::adapt
