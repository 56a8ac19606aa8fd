// The SQLite store: the embedded outbox that needs no server. And transactions that `write()` can join.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <outbox/clock.hpp>
#include <outbox/detail/sqlite_export.hpp>
#include <outbox/store.hpp>
#include <outbox/transaction.hpp>
#include <string>
#include <string_view>

struct sqlite3;  // the C handle

namespace outbox::inline v0::sqlite {

class session;

struct options {
  /// The table; its companions are named after it. Letters, digits, underscores; at most 48; not "outbox". Default
  /// "outbox_event".
  std::string table = "outbox_event";

  /// How long the store's own statements wait for the database's lock before they fail and are tried again later.
  /// Default 5 s. From 0, which does not wait, to 10 min.
  std::chrono::milliseconds busy_timeout{5000};

  /// True: `open()` creates what is missing and upgrades what is older. Default true. False: it only checks.
  bool migrate = true;

  /// Default: the machine's clock.
  std::shared_ptr<outbox::v0::clock const> clock{};
};

/// Opens the store in the file `path`, which is created if need be, with `synchronous=FULL` on the store's connections:
/// what is committed survives a power failure. Several processes may open the same file. The file is switched to WAL,
/// permanently, for every program that uses it.
///
/// Throws `error`: invalid_option (table, busy_timeout, or a path that is no file, as ":memory:"); unavailable (locked
/// for longer than `busy_timeout`, or the process has no descriptor left); store_failure (a directory that is missing,
/// no right to write, not a database, or a schema that is newer than this library, or older with `migrate` off).
[[nodiscard]] OUTBOX_SQLITE_EXPORT std::shared_ptr<store> open(std::string const& path, options o = {});

/// What `migrate` did.
enum class migration { nothing, created, adopted };

/// Brings the table in `path` to this library's schema: creates it, or adopts one that was made by the plain outbox DDL
/// (`event_id` as primary key), rows included, all in one transaction. Throws like `open`.
OUTBOX_SQLITE_EXPORT migration migrate(std::string const& path, options const& o = {});

/// A connection for programs that have none: WAL, `synchronous=FULL`, waits for locks. Used by one thread at a time.
/// `busy_timeout` has the limits of `options::busy_timeout`. Throws like `open`.
class OUTBOX_SQLITE_EXPORT connection {
 public:
  explicit connection(std::string const& path,
                      std::chrono::milliseconds busy_timeout = std::chrono::milliseconds{5000});
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection();

  [[nodiscard]] sqlite3* handle() const noexcept;

  /// Runs statements without parameters or results; throws `error`. For everything else there is the handle.
  void execute(std::string const& sql);

 private:
  friend class transaction;
  std::unique_ptr<session> session_;
};

/// A transaction that tells the outbox how it ended, so that its events are delivered microseconds after the commit. It
/// begins (IMMEDIATE) when it is made and rolls back when it is destroyed unfinished. Used by one thread at a time.
///
/// On a handle of the application's own nothing is left behind: no hook, no prepared statement, no changed setting; and
/// the handle is not closed. Statements of the application, savepoints included, run on the handle as ever.
class OUTBOX_SQLITE_EXPORT transaction {
 public:
  /// Throws `error`: unavailable if the database is locked, no_transaction if the handle is null or in a transaction
  /// already.
  explicit transaction(sqlite3* db);
  explicit transaction(connection& db);
  transaction(transaction const&) = delete;
  transaction& operator=(transaction const&) = delete;
  ~transaction();

  [[nodiscard]] bool active() const noexcept;
  [[nodiscard]] sqlite3* handle() const noexcept;

  /// Throws `error`. Transient: the transaction is still open and `commit()` may be tried again. in_doubt: it may or
  /// may not have happened. no_transaction: the application has ended it by SQL, and how is not known. Otherwise it is
  /// rolled back.
  void commit();
  void rollback() noexcept;

 private:
  friend struct transaction_access;
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace outbox::inline v0::sqlite

namespace outbox::inline v0 {

template <>
struct transaction_traits<sqlite::transaction> {
  OUTBOX_SQLITE_EXPORT static transaction_ref join(sqlite::transaction& tx) noexcept;
};

/// A raw handle that is in a transaction already, begun by whatever the application uses. It cannot tell how it ends,
/// so its rows are born without an owner; the poller finds them within milliseconds of the commit. A null handle is in
/// no transaction: `write()` throws `error` (no_transaction).
template <>
struct transaction_traits<sqlite3*> {
  OUTBOX_SQLITE_EXPORT static transaction_ref join(sqlite3* db) noexcept;
};

}  // namespace outbox::inline v0
