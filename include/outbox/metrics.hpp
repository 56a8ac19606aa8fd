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
};

/// What a node measures now and then.
enum class gauge {
  hot_queue_depth,   ///< Events in the hot queue.
  cold_queue_depth,  ///< Rows in the cold queue.
  oldest_lag_ms,     ///< How long the first due row had been due at the last claim, in milliseconds.
  held,              ///< Events in the node: queued, running or waiting to be settled.
};

/// What a node measures for each event, in seconds.
enum class histogram {
  delivery_seconds,  ///< How long the call of a listener took, whatever its result.
  lag_seconds,  ///< How old an event was when its listener returned `done`: since `occurred_at`, or since it was due.
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

/// Receives the figures of a node. The node's own threads call it, never `write()` or a commit.
///
/// A node makes one call of `add`, `add_for_route` and `set` at a time. Its workers call `observe` at the same time, so
/// `observe` must be thread-safe. The node keeps the object alive. No function may throw or block for long.
class OUTBOX_CORE_EXPORT metrics {
 public:
  metrics() = default;
  metrics(metrics const&) = delete;
  metrics& operator=(metrics const&) = delete;
  virtual ~metrics();

  /// `c` has grown by `n`, which is positive.
  virtual void add(counter c, std::uint64_t n) noexcept = 0;

  /// The same for a counter that the node keeps for each route: `delivered`, `failed`, `deferred` and `dead`. The node
  /// calls this instead of `add` for them. `route` is the name of the route, or empty for events without a listener.
  /// Default: calls `add`.
  virtual void add_for_route(counter c, std::uint64_t n, std::string_view route) noexcept;

  /// `g` is `value` now.
  virtual void set(gauge g, std::int64_t value) noexcept = 0;

  /// One event of a route took `seconds`, by the node's clock. Default: does nothing.
  virtual void observe(histogram h, double seconds, std::string_view route) noexcept;
};

}  // namespace outbox::inline v0
