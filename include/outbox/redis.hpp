// The store on Redis, which many nodes may share and which needs no transaction; and a transaction, MULTI and EXEC,
// that makes changes of other keys and events one step.
/// \file
///
///     auto store = outbox::redis::open(argv[1]);  // "redis://localhost"
///     auto box = outbox::multi_node({.store = store, .listeners = std::move(listeners)});
///     box.start();
///
///     // On its own: the event is in Redis when write() returns, and the listener runs microseconds later.
///     box.writer().write(outbox::no_transaction, order_placed{"42", 1999}, {.aggregate = {"order", "42"}});
///
///     // Together with other keys: all of it or nothing.
///     auto const place = [&](std::string const& id, bool commit) {
///       outbox::redis::transaction tx{db};
///       tx.command("HSET", "order:" + id, "cents", 1999);
///       box.writer().write(tx, order_placed{id, 1999}, {.aggregate = {"order", id}});
///       if (commit) tx.commit();
///     };
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <outbox/clock.hpp>
#include <outbox/detail/redis_export.hpp>
#include <outbox/log.hpp>
#include <outbox/migration.hpp>
#include <outbox/store.hpp>
#include <outbox/transaction.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

struct redisContext;  // hiredis' connection

namespace outbox::inline v0::redis {

/// How `open` and `migrate` treat the server.
struct options {
  /// The name of the outbox. All its keys begin with it in braces and a colon, "{outbox}:", so that they are in one
  /// slot of a cluster. A name that has braces of its own, as "{shop}:outbox", stands as it is: then the keys of the
  /// application that begin with "{shop}" are in the same slot, and a transaction may change both. At most 100
  /// characters, no control characters. Default "outbox".
  std::string name = "outbox";

  /// The greatest number of connections in the store's pool. `notify` uses one more. Default 4. 1 … 100.
  std::size_t connections = 4;

  /// How long the store waits for a connection of its pool, for a server to connect to, and for an answer. Default 10
  /// s. 100 ms … 10 min.
  std::chrono::milliseconds timeout{10'000};

  /// True: `open()` creates the outbox if it is not there. False: it throws then. Default true.
  bool migrate = true;

  /// What becomes of the row of a delivered event. `erase` deletes it: its id can then be written again, so a write in
  /// doubt that is repeated with the same id may be delivered twice. `keep`: it stays in memory until it is purged.
  /// Default erase, unlike other stores: Redis keeps everything in memory.
  outbox::v0::done_rows done_rows = done_rows::erase;

  /// True: publish/subscribe wakes nodes in other processes when events without an owner were written. False: they find
  /// them at the next poll. Default true.
  bool notify = true;

  /// How many replicas must have confirmed a write before `write()` and `transaction::commit()` return. If fewer do
  /// within `timeout`, they throw `error` (commit_in_doubt): the event is written, and may be lost in a failover.
  /// Default 0: none, and events that were acknowledged may be lost in every failover. 0 … 16.
  std::size_t replicas = 0;

  /// Where the store's warnings go. Called on the thread that meets the problem. Default: standard error.
  log_function log = log_to_stderr;

  /// True: the store only reads, and no node can work with it: for tools. Default false.
  bool read_only = false;

  /// The process's clock, by which the store knows that its lease of the dispatch lock is over. Every instant in Redis
  /// comes from Redis. For tests. Default: the machine's clock.
  std::shared_ptr<outbox::v0::clock const> clock{};
};

/// Opens the outbox on the server behind a URL:
///
///     redis://user:password@host:6379/0?ssl=off
///     rediss://host:6380?ssl_ca=/etc/ssl/ca.pem&ssl_cert=client.pem&ssl_key=client.key
///     redis://localhost?socket=/run/redis/redis.sock
///
/// "rediss" encrypts, and checks the server's certificate. Special characters are written %40. The parameters are
/// `socket`, the path of a unix socket; `ssl`: `off`, `on` (does not check the certificate) or `verify`; `ssl_ca`,
/// `ssl_cert` and `ssl_key`, paths of PEM files. Errors and log lines never show a password. In a cluster any of its
/// servers will do: the store follows MOVED. Sentinel is not supported.
///
/// The store is thread-safe. Nodes share it; it closes its connections when the last owner releases it.
///
/// Throws `error` (invalid_option) naming the url, name, connections, timeout or replicas. Throws `error` (unavailable)
/// if there is no server, it is loading its data, or is out of memory. Throws `error` (store_failure) for a wrong
/// password, missing rights, a server that is older than Redis 6.2, one that evicts keys when its memory is full, an
/// outbox that needs a newer library, and everything else that the server refuses.
[[nodiscard]] OUTBOX_REDIS_EXPORT std::shared_ptr<store> open(std::string const& url, options o = {});

/// Creates the outbox if it is not there. Throws `error` like `open`.
OUTBOX_REDIS_EXPORT migration migrate(std::string const& url, options const& o = {});

/// The version of the outbox. Changes nothing. Throws `error` like `open`.
[[nodiscard]] OUTBOX_REDIS_EXPORT schema_state schema_of(std::string const& url, options const& o = {});

/// A Lua text that writes events from scripts of the application: it goes before the application's own text, in one
/// EVAL. Its beginning says how it is used. Such events have no owner; a node finds them as soon as it hears of them.
[[nodiscard]] OUTBOX_REDIS_EXPORT std::string_view write_script() noexcept;

/// What the server answered to a command.
struct value {
  enum class kind : std::uint8_t { nil, text, number, list, failure };

  kind what = kind::nil;          ///< Which of the fields below counts.
  std::string text{};             ///< Of a text, a status or a failure.
  std::int64_t number = 0;        ///< Of a number.
  std::vector<value> elements{};  ///< Of a list.

  [[nodiscard]] bool nil() const noexcept { return what == kind::nil; }
};

/// One word of a command: text, bytes or an integer.
class word {
 public:
  word(std::string_view text) : text_{text} {}    // NOLINT(google-explicit-constructor): reads as text
  word(std::string const& text) : text_{text} {}  // NOLINT(google-explicit-constructor): reads as text
  word(char const* text) : text_{text} {}         // NOLINT(google-explicit-constructor): reads as text
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>)
  word(T number) : text_{std::to_string(number)} {}  // NOLINT(google-explicit-constructor): reads as a number

  [[nodiscard]] std::string const& text() const noexcept { return text_; }

 private:
  std::string text_;
};

class session;

/// A connection for programs that have none.
///
/// Use from one thread at a time. It must outlive its transactions. Throws `error`.
class OUTBOX_REDIS_EXPORT connection {
 public:
  /// Connects; gives up after 10 s. The URL is that of `open`. Throws `error` like `open`.
  explicit connection(std::string const& url);
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection();

  /// Sends a command and returns its answer. Throws `error` if the server refuses it.
  template <class... Words>
  value command(Words const&... words) {
    word const list[] = {word{words}...};
    return run(list);
  }

 private:
  value run(std::span<word const> command);

  friend class transaction;
  std::unique_ptr<session> session_;
};

/// A transaction of Redis: its commands and events are sent with `commit()`, and take effect together, or not at all.
/// It ends without effect when it is destroyed unfinished.
///
/// Redis does not undo: if a command fails when the transaction is carried out, as INCR of a text does, the others take
/// effect all the same, and so do the events. `commit()` says so.
///
/// Use from one thread at a time. The connection must outlive it; do not use it in between except to read keys that are
/// watched.
class OUTBOX_REDIS_EXPORT transaction {
 public:
  /// `watched` keys are watched from here on (WATCH): if another client changes one of them before `commit()`, nothing
  /// takes effect. Throws `error` (no_transaction) if the connection has a transaction already, and (unavailable) if it
  /// is broken.
  explicit transaction(connection& c, std::initializer_list<std::string_view> watched = {});

  /// On a connection of hiredis, in blocking mode, with no command under way and no MULTI open.
  explicit transaction(redisContext* c, std::initializer_list<std::string_view> watched = {});
  transaction(transaction const&) = delete;
  transaction& operator=(transaction const&) = delete;
  ~transaction();

  /// True until the transaction ends.
  [[nodiscard]] bool active() const noexcept;

  /// Adds a command. Throws `error` (no_transaction) after the end, and (invalid_option) for commands that belong to
  /// the transaction itself: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
  template <class... Words>
  void command(Words const&... words) {
    word const list[] = {word{words}...};
    add(list);
  }

  /// Sends all of it, and returns the answers to the commands, in order. Throws `error`:
  ///
  /// - unavailable: a watched key was changed, or the server is out of memory. Nothing took effect; run it again.
  /// - duplicate_event: an event with this id is there already. Nothing took effect.
  /// - commit_in_doubt: the connection was lost, or too few replicas confirmed (`options::replicas`).
  /// - store_failure: the server refused a command beforehand, and nothing took effect; or a command failed when it was
  ///   carried out, and all others took effect. The text says which.
  /// - no_transaction: it has ended before.
  std::vector<value> commit();

  /// Ends it without effect. Does nothing after the end.
  void rollback() noexcept;

 private:
  void add(std::span<word const> command);

  friend struct transaction_access;
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace outbox::inline v0::redis

namespace outbox::inline v0 {

template <>
struct transaction_traits<redis::transaction> {
  OUTBOX_REDIS_EXPORT static transaction_ref join(redis::transaction& tx) noexcept;
};

}  // namespace outbox::inline v0
