// What a node counts and measures, and how a monitoring system receives it.
#pragma once

#include <cstdint>
#include <outbox/detail/core_export.hpp>
#include <span>
#include <string>
#include <string_view>

namespace outbox::inline v0 {

/// Monotonic counters of one node since it was made; `held` alone goes up and down.
///
/// They add up: `hot_enqueued + cold_enqueued = settled + released + lost + unconfirmed + held`. A field has the name
/// of its `counter`, if it has one.
struct node_counters {
  std::uint64_t hot_enqueued = 0;         ///< Committed events that the node took over at commit.
  std::uint64_t hot_dropped = 0;          ///< Events written without an owner because no slot was free.
  std::uint64_t hot_skipped_delayed = 0;  ///< Events written without an owner because they are delayed.
  std::uint64_t cold_enqueued = 0;        ///< Rows that the poller claimed.
  std::uint64_t delivered = 0;            ///< Settled DONE.
  std::uint64_t failed = 0;               ///< Settled for another try; the attempt was counted.
  std::uint64_t deferred = 0;  ///< Settled for later, nothing counted: deferred, or still open when the node stopped.
  std::uint64_t dead = 0;      ///< Settled DEAD.
  std::uint64_t claimed_dead = 0;  ///< Rows that claims of this node made DEAD: past `max_crashes`, or unreadable.
  std::uint64_t settled = 0;       ///< delivered + failed + deferred + dead.
  std::uint64_t released = 0;      ///< Given back unfinished; nothing was counted.
  std::uint64_t lost = 0;          ///< Settled or renewed too late: another claim owns the row.
  std::uint64_t unconfirmed = 0;   ///< Settled twice because a reply was lost; the second found nothing to do.
  std::uint64_t erased = 0;        ///< Rows deleted because their events were delivered (`done_rows::erase`).
  std::uint64_t held = 0;          ///< In the node now: queued, running or waiting to be settled.
  std::uint64_t timed_out = 0;     ///< Listener calls that ran past their timeout.
  std::uint64_t late_results = 0;  ///< Results of such calls, ignored.
  std::uint64_t store_errors = 0;  ///< Failed requests of the node's own threads.
  std::uint64_t isolated = 0;      ///< Rows that could not be claimed; the node goes on without them.
  std::uint64_t own_rows_reclaimed = 0;  ///< Claims that returned a row the node still held: the store's clock jumped.
  std::uint64_t maybe_duplicates = 0;    ///< Calls of listeners with `delivery::maybe_duplicate`.

  /// Transactions in which the node's own threads wrote to the store: claims that found rows, settlements, renewals,
  /// releases, heartbeats, purges. Reads and claims that found nothing are not among them.
  std::uint64_t commits = 0;

  // Of a `keyed` node.
  std::uint64_t noted = 0;      ///< Rows of which a claim noted that they wait for another row of their key.
  std::uint64_t unblocked = 0;  ///< Such rows that can be claimed again, because the row before them left the line.
  std::uint64_t healed = 0;     ///< Such rows that waited for nothing: another program removed what was before them.
  std::uint64_t chains_broken = 0;  ///< Times that an event was not delivered and those behind it were given back.
};

/// What a node counts for a monitoring system. The meaning is that of the field of `node_counters` with the same name.
enum class counter {
  hot_enqueued,
  hot_dropped,
  hot_skipped_delayed,
  cold_enqueued,
  delivered,
  failed,
  deferred,
  dead,
  claimed_dead,
  released,
  lost,
  unconfirmed,
  timed_out,
  late_results,
  store_errors,
  isolated,
  maybe_duplicates,
  commits,
  noted,
  unblocked,
  healed,
  chains_broken,
};

/// What a node measures now and then.
enum class gauge {
  hot_queue_depth,   ///< Events in the hot queue.
  cold_queue_depth,  ///< Rows in the cold queue.
  oldest_lag_ms,     ///< How long the first due row had been due at the last claim, in milliseconds.
  held,              ///< Events in the node: queued, running or waiting to be settled.
  healthy,           ///< 1 if the node runs and is healthy, as `node::health()` says; else 0.
  active,            ///< 1 if the node runs and delivers; 0 if it stands by for another node or was stopped.
};

/// What a node measures again and again: seconds, except `settle_batch_rows`.
enum class histogram {
  delivery_seconds,  ///< How long the call of a listener took, whatever its result.
  lag_seconds,  ///< How old an event was when its listener returned `done`: since `occurred_at` or since it was due.
  hot_wait_seconds,   ///< From the commit of an event on the hot path until a worker called its listener.
  cold_wait_seconds,  ///< From the reply of the claim of an event until a worker called its listener.
  settle_seconds,     ///< From the result of a listener until its settlement was durable.
  settle_batch_rows,  ///< The number of rows that were settled together. It has no route.
  pool_wait_seconds,  ///< How long a request waited because every connection of the store's pool was in use. It has no
                      ///< route. Requests that found a free connection are not in it.
};

/// The dotted name without its prefix: "enqueue.hot", "dispatch.success", "queue.hot.depth", …
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(counter c) noexcept;
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(gauge g) noexcept;
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(histogram h) noexcept;

/// The full name: prefix, separator, name. Give each node its own prefix if a process has several:
/// "orders.outbox.enqueue.hot".
[[nodiscard]] OUTBOX_CORE_EXPORT std::string full_name(counter c, std::string_view prefix = "outbox",
                                                       char separator = '.');
[[nodiscard]] OUTBOX_CORE_EXPORT std::string full_name(gauge g, std::string_view prefix = "outbox",
                                                       char separator = '.');
[[nodiscard]] OUTBOX_CORE_EXPORT std::string full_name(histogram h, std::string_view prefix = "outbox",
                                                       char separator = '.');

/// Every counter, gauge and histogram, for programs that register them in advance.
[[nodiscard]] OUTBOX_CORE_EXPORT std::span<counter const> all_counters() noexcept;
[[nodiscard]] OUTBOX_CORE_EXPORT std::span<gauge const> all_gauges() noexcept;
[[nodiscard]] OUTBOX_CORE_EXPORT std::span<histogram const> all_histograms() noexcept;

/// Receives the figures of a node. The node's own threads call it, and the thread that stops the node; never `write()`
/// or a commit.
///
/// A node makes one call of `add`, `add_for_route` and `set` at a time. Its threads call `observe` at the same time, so
/// `observe` must be thread-safe. The node keeps the object alive. No function may block for long.
class OUTBOX_CORE_EXPORT metrics {
 public:
  metrics() = default;
  metrics(metrics const&) = delete;
  metrics& operator=(metrics const&) = delete;
  virtual ~metrics();

  /// A node that uses this object is being made, and these are the names of its routes, without repetition. They are
  /// the only ones that the node will name, besides the empty one for events without a listener. Called before any
  /// other function, so that everything can be allocated here. What it throws is thrown by the function that makes the
  /// node. Default: does nothing.
  virtual void attach(std::span<std::string const> routes);

  /// `c` has grown by `n`, which is positive.
  virtual void add(counter c, std::uint64_t n) noexcept = 0;

  /// The same for a counter that the node keeps for each route: `delivered`, `failed`, `deferred` and `dead`. The node
  /// calls this instead of `add` for them. `route` is the name of the route, or empty for events without a listener.
  /// Default: calls `add`.
  virtual void add_for_route(counter c, std::uint64_t n, std::string_view route) noexcept;

  /// `g` is `value` now.
  virtual void set(gauge g, std::int64_t value) noexcept = 0;

  /// `h` was `value` once: seconds by the node's clock, or rows. `route` is empty for events without a listener, and
  /// for a histogram that has no route. Default: does nothing.
  virtual void observe(histogram h, double value, std::string_view route) noexcept;
};

}  // namespace outbox::inline v0
