// The store on MariaDB and MySQL, which many nodes may share, and transactions that `write()` can join: through
// MariaDB Connector/C itself, or through a client on top of it (see outbox/adapt).
/// \file
///
///     auto store = outbox::mysql::open(argv[1]);  // "mysql://user@host/shop"
///     auto box = outbox::multi_node({.store = store, .listeners = std::move(listeners)});
///     box.start();
///
///     auto const place = [&](std::string const& id, bool commit) {
///       outbox::mysql::transaction tx{db};
///       tx.execute("INSERT INTO orders VALUES (?)", id);
///       box.writer().write(tx, order_placed{id, 1999}, {.aggregate = {"order", id}});
///       if (commit) tx.commit();  // the listener runs microseconds later
///     };
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <outbox/detail/mysql_export.hpp>
#include <outbox/log.hpp>
#include <outbox/migration.hpp>
#include <outbox/sql.hpp>
#include <outbox/store.hpp>
#include <outbox/table_layout.hpp>
#include <outbox/transaction.hpp>
#include <span>
#include <string>
#include <string_view>

struct st_mysql;  // MYSQL of MariaDB Connector/C. The type of Oracle's libmysqlclient is another one.

namespace outbox::inline v0::mysql {

/// What adoption does with a payload or headers column of type JSON.
enum class json_columns {
  convert,  ///< They become LONGTEXT. The server copies the table anyway.
  keep,     ///< They stay JSON. MySQL then returns payloads with other spacing and order than they were written with.
};

/// Which statements the store sends. MySQL lacks some of MariaDB's.
enum class flavour {
  detect,   ///< Those of the server that answers.
  mariadb,  ///< Those of MariaDB. MySQL refuses them.
  mysql,    ///< Those of MySQL, which MariaDB understands too. For tests.
};

/// How `open` and `migrate` treat the database.
struct options {
  /// The table; the names of its companions begin with it. Letters, digits, underscores; at most 48; not "outbox".
  /// Default "outbox_event".
  std::string table = "outbox_event";

  /// The database of the table; it must exist. Default: the one that the connection names.
  std::string database{};

  /// The greatest number of connections in the store's pool. A node that holds the dispatch lock uses one more.
  /// Default 4. 1 … 100.
  std::size_t connections = 4;

  /// How long the store waits for a connection of its pool, for a server to connect to, and for the answer to one of
  /// its statements; for the last two in whole seconds, rounded up. Default 10 s. 100 ms … 10 min.
  std::chrono::milliseconds timeout{10'000};

  /// True: `open()` creates what is missing and adopts a table of the plain outbox DDL. False: it only checks. Default
  /// true.
  bool migrate = true;

  /// True: `open()` with `migrate` adds the column and the index that `keyed` nodes need, by key and `seq`; it does not
  /// mark the table. Writers go on while the index is made. A keyed node that starts adds them too. With the index
  /// every write and every settlement changes one more index. Default false.
  bool keyed = false;

  /// What adoption does with columns of type JSON. Default: convert.
  json_columns adopt_json = json_columns::convert;

  /// Where the store's warnings go. Called on the thread that meets the problem. Default: standard error.
  log_function log = log_to_stderr;

  /// What becomes of the row of a delivered event. `erase` deletes it: its id can then be written again, so a commit in
  /// doubt that is retried with the same id may deliver twice. Default `keep`: it stays until it is purged.
  outbox::v0::done_rows done_rows = done_rows::keep;

  /// Which statements to send. Default: detect.
  mysql::flavour flavour = flavour::detect;

  /// Opens a connection of the store, if it is set: for `open()` itself, the pool and the dispatch lock. Use it where a
  /// URL is not enough, as with passwords that are valid for minutes: it is called for every new connection. The URL of
  /// `open()` is then not used and may be empty.
  ///
  /// It returns a connection that mysql_real_connect() has opened with CLIENT_MULTI_STATEMENTS and CLIENT_FOUND_ROWS,
  /// outside a transaction and to the same database every time. The store owns it, sets what it needs on it, and closes
  /// it. It may be called on several threads at once, and should give up as soon as `timeout` does: set
  /// MYSQL_OPT_CONNECT_TIMEOUT, MYSQL_OPT_READ_TIMEOUT and MYSQL_OPT_WRITE_TIMEOUT. If it throws or returns null, the
  /// attempt has failed and is repeated later, except in `open()`, which throws. Default: none.
  std::function<st_mysql*()> connect{};

  /// Serves a table of another shape, which another program created. The library never changes its schema: `migrate` is
  /// ignored, and `table` and `done_rows` must not be set. See <outbox/table_layout.hpp> for what such a table costs.
  /// Default: none, the table has this library's schema.
  std::optional<table_layout> layout{};

  /// True: the store only reads. Its connections refuse every change, `migrate` counts as false, and no node can work
  /// with it: for tools. The server refuses changes. Default false.
  bool read_only = false;
};

/// Opens the store behind a URL:
///
///     mysql://user:password@host:3306/database?ssl=verify&ssl_ca=/etc/ssl/ca.pem
///     mariadb://user@localhost/database?socket=/run/mysqld/mysqld.sock
///
/// "mysql" and "mariadb" mean the same. Special characters are written %40. The parameters are `socket`, the path of a
/// unix socket; `ssl`: `off`, `try` (encrypts if the server can), `on` (refuses a server that cannot) or `verify` (also
/// checks its certificate), by default `try`; `ssl_ca`, `ssl_cert` and `ssl_key`, paths of PEM files. Errors and log
/// lines never show a password.
///
/// The store is thread-safe. Nodes share it; it closes its connections when the last owner releases it.
///
/// Throws `error` (invalid_option) naming the url, table, database, connections or timeout. Throws `error`
/// (unavailable) if there is no server, if it is starting, if it has too many connections, or if `options::connect`
/// fails. Throws `error` (store_failure) for a wrong password, a database that does not exist, a server that is older
/// than MariaDB 10.6 or MySQL 8.0.14, settings that the store cannot work with, a schema that needs a newer library,
/// and everything else that the server refuses.
[[nodiscard]] OUTBOX_MYSQL_EXPORT std::shared_ptr<store> open(std::string const& url, options o = {});

/// Brings the table to this library's schema: creates it, or adopts one that was made by the plain outbox DDL with its
/// rows. Adoption copies the table, and programs that write to it wait until it is done. The server commits each step
/// by itself; if the process ends between them, the next call completes the change. Adds what `options::keyed` asks
/// for. Throws `error` like `open`.
OUTBOX_MYSQL_EXPORT migration migrate(std::string const& url, options const& o = {});

/// The schema of the table. Changes nothing. Throws `error` like `open`.
[[nodiscard]] OUTBOX_MYSQL_EXPORT schema_state schema_of(std::string const& url, options const& o = {});

class session;

/// A connection for programs that have none. `execute` and `query` are those of `sql::executor`; parameters are written
/// `?`. Its character set is utf8mb4.
///
/// Use from one thread at a time. It owns its handle and must outlive its transactions. Throws `error`.
class OUTBOX_MYSQL_EXPORT connection : public sql::executor {
 public:
  /// Connects; gives up after 10 s. The URL is that of `open`. Throws `error` like `open`.
  explicit connection(std::string const& url);
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection() override;

  /// The handle, which stays open as long as the connection lives. Do not close it.
  [[nodiscard]] st_mysql* handle() const noexcept;

 private:
  sql::result run_statement(std::string_view sql, std::span<sql::argument const> args) override;

  friend class transaction;
  std::unique_ptr<session> session_;
};

/// A transaction that tells the outbox how it ended, so that its events are delivered microseconds after the commit. It
/// begins when it is made and rolls back when it is destroyed unfinished. `execute` and `query` are those of
/// `sql::executor`; parameters are written `?`. They throw `error` (no_transaction) after the end.
///
/// Its isolation level is the session's. SQL that ends the transaction implicitly, such as CREATE TABLE, ends it here
/// too: `commit()` then throws `error` (no_transaction).
///
/// Use from one thread at a time. The handle or connection must outlive it. It does not close a handle of the
/// application, prepares nothing on it and changes no setting of it.
///
/// Throws `error` with the SQLSTATE of the server. A deadlock (40001) has rolled back the whole transaction: it has
/// ended, and the application may run all of it again.
class OUTBOX_MYSQL_EXPORT transaction : public sql::executor {
 public:
  /// Throws `error` (no_transaction) if the connection is in a transaction already, (connection_busy) if it has results
  /// that were not read, (unavailable) if it is broken.
  explicit transaction(st_mysql* connection);
  explicit transaction(connection& c);
  transaction(transaction const&) = delete;
  transaction& operator=(transaction const&) = delete;
  ~transaction() override;

  /// True until the transaction ends.
  [[nodiscard]] bool active() const noexcept;

  /// The handle that it runs on.
  [[nodiscard]] st_mysql* handle() const noexcept;

  /// Sets a savepoint: a mark that `rollback_to` goes back to. One of the same name is replaced. Letters, digits and
  /// underscores; at most 48; not "outbox_write". Throws `error` (invalid_option).
  void savepoint(std::string_view name);

  /// Undoes everything since the savepoint, events included. Throws `error` (store_failure) if there is none.
  void rollback_to(std::string_view name);

  /// Forgets the savepoint and keeps what was done since. Throws `error` (store_failure) if there is none.
  void release_savepoint(std::string_view name);

  /// Commits. Asks in the same round trip which of its events are there, if it is on MariaDB or on a connection that
  /// may send several statements at once; otherwise in a round trip before.
  ///
  /// Throws `error`. If the error is `in_doubt()`, the connection was lost and it is unknown whether the transaction
  /// was committed. no_transaction: it has ended before. connection_busy: read the results of the last statement and
  /// call again. After every other error it is rolled back.
  void commit();

  /// Does nothing after the end.
  void rollback() noexcept;

 private:
  sql::result run_statement(std::string_view sql, std::span<sql::argument const> args) override;

  friend struct transaction_access;
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace outbox::inline v0::mysql

namespace outbox::inline v0 {

template <>
struct transaction_traits<mysql::transaction> {
  OUTBOX_MYSQL_EXPORT static transaction_ref join(mysql::transaction& tx) noexcept;
};

/// A connection that is in a transaction already, begun by the application in any way. Nothing tells how that ends, so
/// its events have no owner and no hot path: call `node::wake()` after the commit, or a poller finds them after
/// `poll.every` at most.
template <>
struct transaction_traits<st_mysql*> {
  OUTBOX_MYSQL_EXPORT static transaction_ref join(st_mysql* connection) noexcept;
};

}  // namespace outbox::inline v0
