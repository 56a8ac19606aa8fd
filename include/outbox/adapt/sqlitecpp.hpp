// Joins the transaction of a SQLiteCpp database: `writer.write(db, …)` accepts a SQLite::Database that is in one. Link
// outbox::sqlite and SQLiteCpp.
//
// Not hot: nothing tells how a SQLite::Transaction ends, so the poller finds its events within milliseconds of the
// commit. For the hot path begin an outbox::sqlite::transaction on the handle instead of a SQLite::Transaction:
/// \file
///
///     outbox::sqlite::transaction tx{db.getHandle()};
//
// The tests use SQLiteCpp 3.2.1 (Debian 12).
#pragma once

#include <SQLiteCpp/Database.h>

#include <outbox/sqlite.hpp>
#include <outbox/transaction.hpp>

namespace outbox::inline v0 {

/// A database that is in a transaction, begun by a SQLite::Transaction, a SQLite::Savepoint or by SQL. Pass the
/// database: a SQLite::Transaction does not show which database it belongs to.
///
/// `write()` throws `error` (no_transaction) if the database is not in a transaction.
template <>
struct transaction_traits<SQLite::Database> {
  static transaction_ref join(SQLite::Database const& db) noexcept {
    return transaction_traits<sqlite3*>::join(db.getHandle());
  }
};

}  // namespace outbox::inline v0
