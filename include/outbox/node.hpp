// A node: the running part of an outbox.
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
#include <cstddef>
#include <memory>
#include <optional>
#include <outbox/dead_events.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/metrics.hpp>
#include <outbox/options.hpp>
#include <outbox/writer.hpp>
#include <stop_token>
#include <string>
#include <vector>

namespace outbox::inline v0 {

namespace core {
class runtime;
}

/// The health of a node. A node is unhealthy while the store does not answer or refuses its requests, while every
/// worker is past the timeout of its listener, while the table does not allow this node (it needs a newer library, or
/// keeps an order that this mode does not), and before `start()` and after `stop()`. A node notices that the store is
/// gone when a request fails: after `poll.every` or a quarter of the lease, whichever is less, if nothing else happens.
struct node_health {
  bool running = false;  ///< Between `start()` and `stop()`.
  bool active = false;   ///< It delivers. False while it stands by for another node.

  /// A standby is healthy. So is a `writer_only` node that was not started, because it needs no thread.
  bool healthy = false;

  /// Empty if healthy. Otherwise the cause, with the text of the error if the store is at fault.
  std::string reason{};

  /// Ids of events that could not be claimed, at most 20: for example, a trigger of the application refuses the change.
  /// The node delivers everything else. It tries these again after a minute, then less and less often. They do not make
  /// it unhealthy.
  std::vector<std::string> isolated{};
};

/// Delivers the events of one table. One of the functions below makes it; making it starts no thread.
///
/// Thread-safe. `start()` makes one thread for each worker, one each to poll, settle and renew, in `keyed` one to ask
/// where new events stand, and one to purge if the node purges.
///
/// The node keeps its store, metrics, clock and hooks alive. A listener, or another callback that the node calls, may
/// call `stop()`: that only asks for the stop and returns false. The node then takes no more events. When it has
/// finished what it holds, it gives the dispatch lock back, so that another node can go on; `health()` says so. Another
/// thread must still call `stop()` or destroy the node. A listener may even destroy its own node: a thread of the
/// library then ends it.
///
/// A node that was moved from throws `error` (lifecycle), except that `wake()` does nothing, `incarnation()` is empty
/// and `health()` gives the reason.
class OUTBOX_CORE_EXPORT node {
 public:
  node(node&&) noexcept;
  node& operator=(node&&) noexcept;

  /// Stops with the configured `stop_timeout`, then waits for listeners that still run and for requests that the store
  /// has not answered.
  ~node();

  /// Returns a writer, which may outlive the node.
  [[nodiscard]] outbox::v0::writer writer() const;

  /// Starts the threads. Throws `error` (lifecycle) if it was called before or the node was stopped, (mode_conflict) if
  /// a live node of another mode works on the table or the table keeps an order that this mode does not,
  /// (unsupported) if the mode is `keyed` and the table cannot keep an order of keys, (store_failure) if the table
  /// needs a newer library or an index is missing that the store may not make, (unavailable) if the store does not
  /// answer or the system has no more threads. A start that fails ends the threads that it started and never hangs. It
  /// leaves the table as it was, except that a `keyed` node may have marked it. After (unavailable) for want of
  /// threads, make a new node.
  void start();

  /// Calls `start()`, waits for the token, and calls `stop()`.
  void run(std::stop_token token);

  /// Claims no more rows; events written from now on are left to other nodes. Until the deadline it lets queued events
  /// finish (or releases them at once, see `stop_queued`) and waits for transactions that have written events and are
  /// still open. Then it releases the rest and settles what finished.
  ///
  /// It returns one second after the deadline at the latest, whatever listeners, transactions and the store do. True:
  /// everything was finished, or released at once as `stop_queued` says, and settled; the threads have ended. False:
  /// something was released at the deadline, a listener still runs, a transaction is still open, or the store does not
  /// answer. In the last three cases the node's threads go on to settle and release what they can, until `stop()`
  /// is called again or the node is destroyed.
  bool stop();
  bool stop(std::chrono::milliseconds timeout);

  /// Makes the poller look at the table now, for rows that this node was not told of.
  void wake() noexcept;

  /// Claims one batch on the calling thread. Returns the number of rows; 0 if the node stands by or its queues are
  /// full. Throws `error` (lifecycle) if the node was not started, or the error of the store.
  std::size_t poll_once();

  /// Deletes the rows that are past `purge.keep` (its default if the node has no `purge`), batch by batch. Returns the
  /// number of rows. Works whether or not the node runs. Throws the error of the store, with the number of rows that
  /// were deleted before in `rows_changed()`, and `error` (invalid_option) on a writer_only node without `purge`.
  std::size_t purge_once();

  /// Delivers no more events of this type (and aggregate type, if one is given) until `resume()`. The table keeps the
  /// pause, so it holds for every node and across restarts; other nodes learn of it within a quarter of their lease.
  /// Running listeners finish, and writing goes on. Returns false if nothing changed. Throws the error of the store,
  /// and `error` (invalid_option) for names that no event can have.
  bool pause(route_pause const& what);
  bool resume(route_pause const& what);
  [[nodiscard]] std::vector<route_pause> paused() const;

  /// Makes a pending event DEAD, with `reason` as its error. If a node holds it, this one or another, that node loses
  /// it and learns of it at its next renewal, within a quarter of its lease: it then forgets the event if it is queued,
  /// and sets `delivery::stop` if its listener runs. Until then the listener may still be called; its result is counted
  /// as lost. Returns false if there is no such event or it has ended. Throws the error of the store; `error`
  /// (unsupported) if it has no filters.
  bool cancel(std::string_view event_id, std::string_view reason);

  /// The same for every pending event that matches, `batch` at a time, oldest first. Returns their number. If a batch
  /// fails, `error::rows_changed()` has the number of events that were cancelled before it. Throws `error`
  /// (invalid_option) if the filter is empty: to cancel everything, name both pending statuses.
  std::uint64_t cancel(event_filter const& filter, std::string_view reason, std::size_t batch = 100);

  /// For tests, instead of `start()`: polls, delivers and settles on the calling thread until nothing is due. Returns
  /// the number of deliveries. Asynchronous listeners may still be under way when it returns. Throws `error`
  /// (lifecycle) if the node was started or stopped, or if events keep coming for ever.
  std::size_t run_until_idle();

  /// The dead events of the node's table. The node delivers replayed events at once.
  [[nodiscard]] outbox::v0::dead_events dead_events() const;

  [[nodiscard]] node_counters counters() const;  ///< What the node has counted since it was made.
  [[nodiscard]] node_health health() const;      ///< Whether the node works, and if not, why.

  /// "host:pid:random", unique among all nodes. The node's tokens begin with it.
  [[nodiscard]] std::string const& incarnation() const noexcept;

 private:
  friend OUTBOX_CORE_EXPORT node single_node(single_node_options);
  friend OUTBOX_CORE_EXPORT node multi_node(multi_node_options);
  friend OUTBOX_CORE_EXPORT node ordered(ordered_options);
  friend OUTBOX_CORE_EXPORT node writer_only(writer_only_options);
  friend OUTBOX_CORE_EXPORT node keyed(keyed_options);
  explicit node(std::shared_ptr<core::node_core> core);
  void end() noexcept;

  std::shared_ptr<core::node_core> core_;
  std::unique_ptr<core::runtime> runtime_;
};

/// Makes the only active node of a table; a second one stands by. Throws `error` (invalid_option), which names the
/// field, as do the others.
[[nodiscard]] OUTBOX_CORE_EXPORT node single_node(single_node_options options);

/// Makes one of many nodes that share a table.
[[nodiscard]] OUTBOX_CORE_EXPORT node multi_node(multi_node_options options);

/// Makes a node that delivers one event at a time in the order of writing; a second one stands by.
[[nodiscard]] OUTBOX_CORE_EXPORT node ordered(ordered_options options);

/// Makes one of many nodes that keep the order of keys: one event of a key at a time, keys in parallel.
[[nodiscard]] OUTBOX_CORE_EXPORT node keyed(keyed_options options);

/// Makes a node that only writes.
[[nodiscard]] OUTBOX_CORE_EXPORT node writer_only(writer_only_options options);

}  // namespace outbox::inline v0
