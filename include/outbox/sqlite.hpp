// The SQLite store, the embedded outbox that needs no server, and transactions that `write()` can join.
/// \file
///
///     auto store = outbox::sqlite::open(path);
///     auto box = outbox::single_node({.store = store, .listeners = std::move(listeners)});
///     box.start();
///
///     outbox::sqlite::connection db{path};  // or your own sqlite3*
///     db.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)");
///
///     auto const place = [&](std::string const& id, bool commit) {
///       outbox::sqlite::transaction tx{db};
///       tx.execute("INSERT INTO orders VALUES (?)", id);
///       box.writer().write(tx, order_placed{id, 1999}, {.aggregate = {"order", id}});
///       if (commit) tx.commit();  // the listener runs microseconds later
///     };
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/detail/sqlite_export.hpp>
#include <outbox/log.hpp>
#include <outbox/migration.hpp>
#include <outbox/sql.hpp>
#include <outbox/store.hpp>
#include <outbox/table_layout.hpp>
#include <outbox/transaction.hpp>
#include <span>
#include <string>
#include <string_view>

struct sqlite3;  // the C handle

namespace outbox::inline v0::sqlite {

class session;

/// When a commit of the store's own connections is on the disk.
enum class synchronous : std::uint8_t {
  full,  ///< Before it returns: a power failure takes nothing back.
  /// Later. After a power failure or a crash of the operating system the store's last commits may be gone, and then
  /// events are delivered again. A crash of the process takes nothing back.
  normal,
};

/// How `open` and `migrate` treat the file.
struct options {
  /// The table; the names of its companions begin with it. Letters, digits, underscores; at most 48; not "outbox".
  /// Default "outbox_event".
  std::string table = "outbox_event";

  /// How long the store's own statements wait for the lock of the database before they fail. The node tries them again
  /// later. 0 does not wait. Default 5 s. 0 … 10 min.
  std::chrono::milliseconds busy_timeout{5000};

  /// True: `open()` creates what is missing and upgrades what is older. False: it only checks. Default true.
  bool migrate = true;

  /// True: `open()` with `migrate` adds an index by key, for a `keyed` node. Such a node adds it itself when it marks
  /// the table, unless `migrate` is off. Writers wait while the index is made. With it every write has one more index
  /// to keep. Default false.
  bool keyed = false;

  /// The store's clock, which it shares. Default: the machine's clock.
  std::shared_ptr<outbox::v0::clock const> clock{};

  /// Where the store's warnings go. Called on the thread that meets the problem. Null: no log. Default: standard error.
  log_function log = log_to_stderr;

  /// What becomes of the row of a delivered event. `erase` deletes it: its id can then be written again, so a commit in
  /// doubt that is retried with the same id may deliver twice. Default `keep`: it stays until it is purged.
  outbox::v0::done_rows done_rows = done_rows::keep;

  /// When the store's claims and settlements are on the disk. The connections of the application have settings of their
  /// own. Default `full`.
  sqlite::synchronous synchronous = synchronous::full;

  /// Opens a connection of the store, if it is set. Use it where a path is not enough, as for an encrypted database or
  /// a file system of your own (a VFS). The path of `open()` is then not used and may be empty.
  ///
  /// It returns an open handle, outside a transaction and to the same file every time; the file must be one that the
  /// operating system knows, because the dispatch lock is a file beside it. The store owns the handle, sets the busy
  /// timeout, WAL, `synchronous` and extended result codes on it, and closes it. It is called on the thread that calls
  /// `open()` or `migrate()`, three times at most. Default: none.
  std::function<sqlite3*()> connect{};

  /// Serves a table of another shape, which another program created. The library never changes its schema: `migrate`
  /// and `keyed` are ignored, and `table`, `done_rows` must not be set. See <outbox/table_layout.hpp> for what such a
  /// table costs. Default: none, the table has this library's schema.
  std::optional<table_layout> layout{};

  /// True: the store only reads. SQLite refuses every change, `migrate` counts as false, a file that does not exist is
  /// not created, and the journal mode stays as it is. No node can work with such a store: it is for tools. Default
  /// false.
  bool read_only = false;

  /// How long a read of a store with `read_only` may take. Then it fails with `error` (unavailable). 0: no limit.
  /// Default 0.
  std::chrono::milliseconds read_timeout{0};
};

/// Opens the store in the file `path` and creates the file if there is none. The store's connections use
/// `options::synchronous`. Several processes may open the same file. The file
/// is switched to WAL, permanently, for every program that uses it.
///
/// The store is thread-safe. Nodes share it; it closes its connections when the last owner releases it.
///
/// Throws `error` (invalid_option) if the table or the timeout is not allowed, or if the path is not a file, such as
/// ":memory:". Throws `error` (unavailable) if the file is locked for longer than `busy_timeout`, if the process has no
/// descriptor left, or if `options::connect` fails. Throws `error` (store_failure) if a directory is missing, if the
/// process may not write, if the file is not a database, or if its schema needs a newer library, or is older
/// with `migrate` off.
[[nodiscard]] OUTBOX_SQLITE_EXPORT std::shared_ptr<store> open(std::string const& path, options o = {});

/// Brings the table in `path` to this library's schema: creates it, upgrades an older version, or adopts one that was
/// made by the plain outbox DDL (`event_id` as primary key) with its rows, all in one transaction. Throws `error` like
/// `open`.
OUTBOX_SQLITE_EXPORT migration migrate(std::string const& path, options const& o = {});

/// The schema of the table in `path`. Changes nothing and creates no file. Throws `error` like `open`.
[[nodiscard]] OUTBOX_SQLITE_EXPORT schema_state schema_of(std::string const& path, options const& o = {});

/// A connection for programs that have none: WAL, `synchronous=FULL`, waits for locks. `execute` and `query` are those
/// of `sql::executor`; parameters are written `?` or `?1`.
///
/// Use from one thread at a time. It owns its handle and must outlive its transactions. Throws `error`.
class OUTBOX_SQLITE_EXPORT connection : public sql::executor {
 public:
  /// `busy_timeout` has the limits of `options::busy_timeout`. Throws `error` like `open`.
  explicit connection(std::string const& path,
                      std::chrono::milliseconds busy_timeout = std::chrono::milliseconds{5000});
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection() override;

  /// The handle, which stays open as long as the connection lives. Do not close it.
  [[nodiscard]] sqlite3* handle() const noexcept;

 private:
  sql::result run_statement(std::string_view sql, std::span<sql::argument const> args) override;

  friend class transaction;
  std::unique_ptr<session> session_;
};

/// A transaction that tells the outbox how it ended, so that its events are delivered microseconds after the commit. It
/// begins (IMMEDIATE) when it is made and rolls back when it is destroyed unfinished. `execute` and `query` are those
/// of `sql::executor` and throw `error` (no_transaction) after the end.
///
/// Use from one thread at a time. The handle or connection must outlive it. It does not close a handle of the
/// application and leaves nothing on it: no hook, no prepared statement, no changed setting. The application's
/// statements and savepoints may run on the handle as usual.
class OUTBOX_SQLITE_EXPORT transaction : public sql::executor {
 public:
  /// Throws `error` (unavailable) if the database is locked, and (no_transaction) if the handle is null or in a
  /// transaction already.
  explicit transaction(sqlite3* db);
  explicit transaction(connection& db);
  transaction(transaction const&) = delete;
  transaction& operator=(transaction const&) = delete;
  ~transaction() override;

  /// True until the transaction ends.
  [[nodiscard]] bool active() const noexcept;

  /// The handle that it runs on.
  [[nodiscard]] sqlite3* handle() const noexcept;

  /// Throws `error`. If the error is `transient()`, the transaction is still open and `commit()` may be called again.
  /// If it is `in_doubt()`, it is unknown whether the transaction was committed. no_transaction: the application has
  /// ended it by SQL, and this object does not know how. After every other error it is rolled back.
  void commit();

  /// Does nothing after the end.
  void rollback() noexcept;

 private:
  sql::result run_statement(std::string_view sql, std::span<sql::argument const> args) override;

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

/// A raw handle that is in a transaction already, begun by the application in any way. It cannot tell how the
/// transaction ends, so its rows are written without an owner; the poller finds them within milliseconds of the commit.
/// A null handle is in no transaction: `write()` throws `error` (no_transaction).
template <>
struct transaction_traits<sqlite3*> {
  OUTBOX_SQLITE_EXPORT static transaction_ref join(sqlite3* db) noexcept;
};

}  // namespace outbox::inline v0
