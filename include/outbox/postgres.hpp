// The PostgreSQL store, which many nodes may share, and transactions that `write()` can join: through libpq itself, or
// through a client on top of it (see outbox/adapt).
/// \file
///
///     auto store = outbox::postgres::open(argv[1], {.schema = "outbox_quick_start"});
///     auto box = outbox::multi_node({.store = store, .listeners = std::move(listeners)});
///     box.start();
///
///     auto const place = [&](std::string const& id, bool commit) {
///       outbox::postgres::transaction tx{db};
///       tx.execute("INSERT INTO orders VALUES ($1)", id);
///       box.writer().write(tx, order_placed{id, 1999}, {.aggregate = {"order", id}});
///       if (commit) tx.commit();  // the event is sent with COMMIT, and the listener runs microseconds later
///     };
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <outbox/detail/postgres_export.hpp>
#include <outbox/log.hpp>
#include <outbox/migration.hpp>
#include <outbox/sql.hpp>
#include <outbox/store.hpp>
#include <outbox/table_layout.hpp>
#include <outbox/transaction.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct pg_conn;  // libpq's PGconn

namespace outbox::inline v0::postgres {

/// What adoption does with a payload column of type jsonb. That type keeps values and not the bytes of their text.
enum class jsonb {
  convert,  ///< The column becomes json. PostgreSQL rewrites the table under a lock.
  keep,     ///< The column stays jsonb. Payloads come back with other spacing and order than they were written with.
};

/// How `open` and `migrate` treat the database.
struct options {
  /// The table; the names of its companions begin with it. Letters, digits, underscores; at most 48; not "outbox".
  /// Default "outbox_event".
  std::string table = "outbox_event";

  /// The schema of the table; it must exist. Default: the current schema of the store's connections.
  std::string schema{};

  /// The greatest number of connections in the store's pool. A node that holds the dispatch lock, and `notify`, use one
  /// more each. Default 4. 1 … 100.
  std::size_t connections = 4;

  /// How long the store waits for a connection of its pool, and for the answer to one of its statements. It waits at
  /// least 2 s for a new connection. Default 10 s. 100 ms … 10 min.
  std::chrono::milliseconds timeout{10'000};

  /// True: `open()` creates what is missing and upgrades what is older. False: it only checks. Default true.
  bool migrate = true;

  /// What adoption does with a payload column of type jsonb. Default: convert.
  jsonb adopt_jsonb = jsonb::convert;

  /// True: `open()` with `migrate` adds an index by `seq`, for an `ordered` node. Without it a claim in order reads and
  /// sorts all pending rows, which is slow from some thousands of rows on. With it every write and every claim adds
  /// about 70 bytes to the server's log. Writers wait while the index is made. Default false.
  bool ordered = false;

  /// True: `open()` with `migrate` adds the indexes that `keyed` nodes need, by key and `seq`; it does not mark the
  /// table. Writers go on while they are made. A keyed node that starts adds them too. With them every write and every
  /// settlement changes one more index; the second one has only rows that wait for another row. Default false.
  bool keyed = false;

  /// True: NOTIFY wakes nodes in other processes when events without an owner were committed. False: the nodes find
  /// them at the next poll. The store sends the notification after the commit, on a connection of its own, at most 100
  /// per second. It needs a connection without a pooler in between: `open()` tries, and throws if nothing arrives.
  /// Default false.
  bool notify = false;

  /// Where the store's warnings go: those of `open()`, of the connection for notifications, and of a `transaction` that
  /// SQL committed before its events were sent. Called on the thread that meets the problem. Default: standard error.
  log_function log = log_to_stderr;

  /// What becomes of the row of a delivered event. `erase` deletes it: its id can then be written again, so a commit in
  /// doubt that is retried with the same id may deliver twice. Default `keep`: it stays until it is purged.
  outbox::v0::done_rows done_rows = done_rows::keep;

  /// Opens a connection of the store, if it is set: for `open()` itself, the pool, the dispatch lock and `notify`. Use
  /// it where a connection string is not enough, as with passwords that are valid for minutes: it is called for every
  /// new connection. The connection string of `open()` is then not used and may be empty.
  ///
  /// It returns a connection that has succeeded, such as PQconnectdb gives, outside a transaction and to the same
  /// database every time. The store owns it, sets what it needs on it, and closes it. It may be called on several
  /// threads at once, and should give up as soon as `timeout` does. If it throws or returns null, the attempt has
  /// failed and is repeated later, except in `open()`, which throws. Default: none.
  std::function<pg_conn*()> connect{};

  /// Serves a table of another shape, which another program created. The library never changes its schema: `migrate` is
  /// ignored, and `table`, `ordered`, `notify` and `done_rows` must not be set. See <outbox/table_layout.hpp> for what
  /// such a table costs. Default: none, the table has this library's schema.
  std::optional<table_layout> layout{};

  /// True: the store only reads. Its connections refuse every change, `migrate` counts as false, and no node can work
  /// with it: for tools. The server refuses changes, unless a pooler stands before it; then only the statements
  /// themselves keep to reading. Default false.
  bool read_only = false;
};

/// Opens the store behind a libpq connection string ("host=… dbname=…" or "postgresql://…"). libpq reads all of it:
/// TLS, several hosts, target_session_attrs, a service file. Errors and log lines never show a password.
///
/// Transaction-mode poolers are supported and detected automatically; statements are then not prepared. There is no
/// dispatch lock behind one: `start()` of a `single_node` or `ordered` node throws `error` (unsupported).
///
/// The store is thread-safe. Nodes share it; it closes its connections when the last owner releases it.
///
/// Throws `error` (invalid_option) naming the connection, table, schema, connections or timeout. Throws `error`
/// (unavailable) if there is no server, if it is starting, if it has too many connections, or if `options::connect`
/// fails. Throws `error` (store_failure) for a wrong password, a role or database that does not exist, a schema that
/// needs a newer library, or is older with `migrate` off, and everything else that the server refuses.
[[nodiscard]] OUTBOX_POSTGRES_EXPORT std::shared_ptr<store> open(std::string const& connection, options o = {});

/// Brings the table to this library's schema: creates it, or adopts one that was made by the plain outbox DDL with its
/// rows, in one transaction. Upgrades an older version in steps, so that writers wait for a second at most; an upgrade
/// that was interrupted is completed by the next call. Adds the indexes of `options::ordered` and `options::keyed`.
/// Throws `error` like `open`.
OUTBOX_POSTGRES_EXPORT migration migrate(std::string const& connection, options const& o = {});

/// The schema of the table. Changes nothing. Throws `error` like `open`.
[[nodiscard]] OUTBOX_POSTGRES_EXPORT schema_state schema_of(std::string const& connection, options const& o = {});

class session;

/// A connection for programs that have none. `execute` and `query` are those of `sql::executor`; parameters are written
/// `$1`. The statements of `transaction::enqueue` stay prepared on it (the first two hundred different ones), so they
/// are cheaper the second time; behind a pooler they do not.
///
/// Use from one thread at a time. It owns its handle and must outlive its transactions. Throws `error`.
class OUTBOX_POSTGRES_EXPORT connection : public sql::executor {
 public:
  /// Connects; gives up after 10 s. Throws `error` like `open`.
  explicit connection(std::string const& connection_string);
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection() override;

  /// The handle, which stays open as long as the connection lives. Do not close it.
  [[nodiscard]] pg_conn* handle() const noexcept;

 private:
  sql::result run_statement(std::string_view sql, std::span<sql::argument const> args) override;

  friend class transaction;
  std::unique_ptr<session> session_;
};

/// How a transaction sends its statements.
enum class send_mode {
  /// BEGIN is sent at once, and the application's statements run on the handle as usual. Events are sent together with
  /// COMMIT, unless a savepoint has been set.
  immediate,

  /// BEGIN, the statements of `enqueue()`, the events and COMMIT make one round trip. Nothing is sent before `flush()`,
  /// `execute()`, `query()` or `commit()`. Two exceptions: the first event of a store on a connection sends the queue,
  /// and so does a queue of more than 1 MiB. The handle is in pipeline mode, so libpq refuses PQexec and similar calls
  /// on
  /// it until the end.
  pipelined,
};

/// A transaction that tells the outbox how it ended, so that its events are delivered microseconds after the commit. It
/// begins when it is made and rolls back when it is destroyed unfinished. End it by `commit()` or `rollback()`, not by
/// SQL: events may not have been sent before. `execute` and `query` are those of `sql::executor`; they wait for the
/// answer, also in a pipelined transaction, and throw `error` (no_transaction) after the end.
///
/// Use from one thread at a time. The handle or connection must outlive it. It does not close a handle of the
/// application, and leaves nothing on it except an event procedure of libpq.
///
/// Throws `error` with the SQLSTATE of the server. A deadlock or a serialization failure is `transient()`: the
/// application may run the whole transaction again.
class OUTBOX_POSTGRES_EXPORT transaction : public sql::executor {
 public:
  /// Throws `error` (no_transaction) if the connection is in a transaction already, (connection_busy) if it has results
  /// that were not read, (unavailable) if it is broken.
  explicit transaction(pg_conn* connection, send_mode how = send_mode::immediate);
  explicit transaction(connection& c, send_mode how = send_mode::immediate);
  transaction(transaction const&) = delete;
  transaction& operator=(transaction const&) = delete;
  ~transaction() override;

  /// True until the transaction ends or a queued statement fails.
  [[nodiscard]] bool active() const noexcept;

  /// The handle that it runs on.
  [[nodiscard]] pg_conn* handle() const noexcept;

  /// Runs a statement whose answer is not needed. Immediate: it runs at once. Pipelined: it waits in the queue, and the
  /// call that sends the queue throws its error. The arguments are those of `sql::executor`. Texts and bytes are
  /// copied.
  template <class... Args>
  void enqueue(std::string_view sql, Args const&... args) {
    if constexpr (sizeof...(Args) == 0) {
      enqueue_statement(sql, {});
    } else {
      sql::argument const list[] = {sql::argument{args}...};
      enqueue_statement(sql, list);
    }
  }

  /// Sends the queue, events included, and waits for the answers.
  void flush();

  /// Throws `error`. If the error is `in_doubt()`, the connection was lost and it is unknown whether the transaction
  /// was committed. no_transaction: it has ended before. connection_busy: read the results of the last statement and
  /// call again. After every other error it is rolled back: a queued statement failed, or COMMIT did (a deferred
  /// constraint).
  void commit();

  /// Does nothing after the end.
  void rollback() noexcept;

 private:
  void enqueue_statement(std::string_view sql, std::span<sql::argument const> args);
  sql::result run_statement(std::string_view sql, std::span<sql::argument const> args) override;

  friend struct transaction_access;
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace outbox::inline v0::postgres

namespace outbox::inline v0 {

template <>
struct transaction_traits<postgres::transaction> {
  OUTBOX_POSTGRES_EXPORT static transaction_ref join(postgres::transaction& tx) noexcept;
};

/// A connection that is in a transaction already, begun by the application in any way. An event procedure of libpq,
/// which stays on the connection until it is closed, sees how the transaction ends. Its events are delivered
/// microseconds after COMMIT, unless a savepoint was rolled back or a statement failed since they were written; then
/// the poller finds them.
template <>
struct transaction_traits<pg_conn*> {
  OUTBOX_POSTGRES_EXPORT static transaction_ref join(pg_conn* connection) noexcept;
};

}  // namespace outbox::inline v0
