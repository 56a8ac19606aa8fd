// The store in PostgreSQL, which many nodes may share, and transactions that `write()` can join there: through libpq
// itself, or through a client on top of it (see outbox/adapt).
#pragma once

#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <outbox/detail/postgres_export.hpp>
#include <outbox/log.hpp>
#include <outbox/spi/sql_connection.hpp>
#include <outbox/store.hpp>
#include <outbox/transaction.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct pg_conn;  // libpq's PGconn

namespace outbox::inline v0::postgres {

/// What adoption does with a payload column of type jsonb, which keeps values and not the bytes of their text.
enum class jsonb {
  convert,  ///< It becomes json: the table is written anew, under a lock.
  keep,     ///< It stays; payloads come back with other spacing and order than they were written with.
};

struct options {
  /// The table; its companions are named after it. Letters, digits, underscores; at most 48; not "outbox". Default
  /// "outbox_event".
  std::string table = "outbox_event";

  /// The schema that it is in; it must exist. Default: the current one of the store's connections.
  std::string schema{};

  /// Connections of the store's own, at most. Default 4. 1 … 100. A node that holds the dispatch lock, and `notify`,
  /// take one more each.
  std::size_t connections = 4;

  /// How long to wait for a connection of the pool, and for the answer to a statement of the store's own; connecting
  /// takes 2 s at least before it is given up. Default 10 s. 100 ms … 10 min.
  std::chrono::milliseconds timeout{10'000};

  /// True: `open()` creates what is missing and upgrades what is older. Default true. False: it only checks.
  bool migrate = true;

  /// See `jsonb`. Default: convert.
  jsonb adopt_jsonb = jsonb::convert;

  /// True: `open()` with `migrate` adds an index by `seq`, for an `ordered` node. Without it a claim in order reads and
  /// sorts all that is pending, which matters from some thousands of rows on; with it every write and every claim costs
  /// some 70 bytes more of the server's log. Writers wait while it is made. Default false.
  bool ordered = false;

  /// Wakes nodes in other processes by NOTIFY when events were committed that nobody holds yet; without it they are
  /// found at the next poll. The notification is sent after the commit, on a connection of its own, at most a hundred a
  /// second. It needs a connection without a pooler in between: `open()` tries, and throws if nothing arrives. Default
  /// false.
  bool notify = false;

  /// Where warnings of the store go: of `open()`, of the connection for notifications, and of a `transaction` that SQL
  /// committed before its events were sent. Called on the thread that does these things. Default: standard error.
  log_function log = log_to_stderr;
};

/// Opens the store behind a libpq connection string ("host=… dbname=…" or "postgresql://…"). Whatever libpq knows is
/// passed on: TLS, several hosts, target_session_attrs, a service file. What this library says never has a password in
/// it.
///
/// Behind a pooler that gives out connections per transaction it works too, which is found out by itself: then nothing
/// is prepared. A node that needs the dispatch lock (single_node, ordered) never becomes active there, and says why.
///
/// Throws `error`: invalid_option (connection, table, schema, connections, timeout), unavailable (no server, a server
/// that is starting, too many connections), store_failure (a wrong password, no such role or database; a schema that is
/// newer than this library, or older with `migrate` off; whatever else the server refuses).
[[nodiscard]] OUTBOX_POSTGRES_EXPORT std::shared_ptr<store> open(std::string const& connection, options o = {});

/// What `migrate` did, and what should be known about it.
struct migration {
  enum class kind {
    nothing,
    created,
    adopted,
    indexed,  ///< The table was there; the index of `options::ordered` was not.
  } what = kind::nothing;
  std::vector<std::string> warnings{};
};

/// Brings the table to this library's schema: creates it, or adopts one that was made by the plain outbox DDL, rows
/// included, all in one transaction; and adds what `ordered` asks for. Throws like `open`.
OUTBOX_POSTGRES_EXPORT migration migrate(std::string const& connection, options const& o = {});

class session;

/// A connection for programs that have none. Used by one thread at a time. Throws `error`, like everything here.
///
/// Statements that go through our `transaction` stay prepared on it (the first two hundred different ones), so the
/// second time they cost the server less; behind a pooler nothing does.
class OUTBOX_POSTGRES_EXPORT connection {
 public:
  explicit connection(std::string const& connection_string);
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection();

  [[nodiscard]] pg_conn* handle() const noexcept;

  /// Runs statements without parameters or results. For everything else there is the handle.
  void execute(std::string const& sql);

 private:
  friend class transaction;
  std::unique_ptr<session> session_;
};

/// How a transaction sends its statements.
enum class send_mode {
  /// BEGIN is sent at once, and the application's statements run on the handle as usual. Events that were written are
  /// sent together with COMMIT, unless a savepoint has been set.
  immediate,

  /// Nothing is sent before `flush()` or `commit()`: BEGIN, what was put in by `enqueue()`, the events and COMMIT make
  /// one round trip. Only the first event of a store on a connection, and more than 1 MiB, are sent earlier. The handle
  /// is in pipeline mode, so libpq refuses PQexec and its like on it until the end.
  pipelined,
};

/// A transaction that tells the outbox how it ended, so that its events are delivered microseconds after the commit. It
/// rolls back when it is destroyed unfinished, and must be ended by `commit()` or `rollback()`, not by SQL: events may
/// not have been sent before. Used by one thread at a time. A handle stays the application's: it is not closed,
/// nothing stays prepared on it, and only an event procedure of libpq is left on it.
///
/// Errors of the database throw `error`, with its SQLSTATE: transient for a deadlock or a serialization failure, where
/// the whole transaction may be tried again.
class OUTBOX_POSTGRES_EXPORT transaction {
 public:
  /// Throws `error`: no_transaction if the connection is in a transaction already, unavailable if it is broken.
  explicit transaction(pg_conn* connection, send_mode how = send_mode::immediate);
  explicit transaction(connection& c, send_mode how = send_mode::immediate);
  transaction(transaction const&) = delete;
  transaction& operator=(transaction const&) = delete;
  ~transaction();

  [[nodiscard]] bool active() const noexcept;
  [[nodiscard]] pg_conn* handle() const noexcept;

  /// Runs a statement of the application's: pipelined, in its turn when the queue is sent, and whoever sends that
  /// throws its errors; direct, at once. What it answers is dropped. Parameters are sent as text (a `sql::blob` as
  /// bytes), and PostgreSQL gives them the types that the statement asks for. The text is copied.
  void enqueue(std::string_view sql, std::initializer_list<sql::value> parameters = {});
  void enqueue(std::string_view sql, std::span<sql::value const> parameters);

  /// Sends what is in the queue, events included, and waits for the answers.
  void flush();

  /// Throws `error`. in_doubt: the connection was lost, and it may or may not have happened. no_transaction: it has
  /// ended before. Otherwise it is rolled back: a queued statement failed, or COMMIT did (a deferred constraint).
  void commit();
  void rollback() noexcept;

 private:
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

/// A connection that is in a transaction already, begun by whatever the application uses. An event procedure of libpq,
/// which stays on the connection until that is closed, sees how it ends: its events are delivered microseconds after a
/// COMMIT, unless a savepoint was rolled back or a statement failed since they were written; then the poller finds
/// them.
template <>
struct transaction_traits<pg_conn*> {
  OUTBOX_POSTGRES_EXPORT static transaction_ref join(pg_conn* connection) noexcept;
};

}  // namespace outbox::inline v0
