// What a node counts, and how a monitoring system gets at it.
#pragma once

#include <cstdint>
#include <outbox/detail/core_export.hpp>
#include <span>
#include <string>
#include <string_view>

namespace outbox::inline v0 {

/// Monotonic counters of one node since it was made.
///
/// They add up: `hot_enqueued + cold_enqueued = settled + released + lost + unconfirmed + held`.
struct node_counters {
  std::uint64_t hot_enqueued = 0;         ///< Committed events handed to the dispatcher at commit.
  std::uint64_t hot_dropped = 0;          ///< Events born without an owner because no slot was free: the poller's.
  std::uint64_t hot_skipped_delayed = 0;  ///< Events born without an owner because they are delayed.
  std::uint64_t cold_enqueued = 0;        ///< Rows claimed by the poller.
  std::uint64_t succeeded = 0;            ///< Settled DONE.
  std::uint64_t failed = 0;               ///< Settled for another try, attempt counted.
  std::uint64_t deferred = 0;  ///< Settled for later, nothing counted: deferred, or still open when the node stopped.
  std::uint64_t died = 0;      ///< Settled DEAD.
  std::uint64_t killed = 0;    ///< Rows this node's claims made DEAD: past `max_crashes`, or unreadable.
  std::uint64_t settled = 0;   ///< succeeded + failed + deferred + died.
  std::uint64_t released = 0;  ///< Given back unfinished, nothing counted.
  std::uint64_t lost = 0;      ///< Settled or renewed too late: another claim owns the row.
  std::uint64_t unconfirmed = 0;         ///< Settled twice because a reply was lost; the second found nothing to do.
  std::uint64_t held = 0;                ///< In the node now: queued, running or waiting to be settled.
  std::uint64_t timed_out = 0;           ///< Listener calls that outlived their timeout.
  std::uint64_t late_results = 0;        ///< Results of such calls, ignored.
  std::uint64_t store_errors = 0;        ///< Requests of the node's own loops that failed.
  std::uint64_t isolated = 0;            ///< Rows that could not be claimed; the node goes on without them.
  std::uint64_t own_rows_reclaimed = 0;  ///< Claims that returned a row the node still held: the store's clock jumped.
};

enum class counter {
  hot_enqueued,
  hot_dropped,
  hot_skipped_delayed,
  cold_enqueued,
  dispatch_success,
  dispatch_failure,
  dispatch_deferred,
  dispatch_dead,
  killed,
  released,
  lost,
  unconfirmed,
  timed_out,
  late_results,
  store_errors,
  isolated,
};

enum class gauge { hot_queue_depth, cold_queue_depth, oldest_lag_ms, held };

/// The dotted name without its prefix: "enqueue.hot", "dispatch.success", "queue.hot.depth", …
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(counter c) noexcept;
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(gauge g) noexcept;

/// With a prefix, "outbox" unless you have several: "orders.outbox.enqueue.hot". Where a system wants another
/// separator, that is `separator`.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string full_name(counter c, std::string_view prefix = "outbox",
                                                       char separator = '.');
[[nodiscard]] OUTBOX_CORE_EXPORT std::string full_name(gauge g, std::string_view prefix = "outbox",
                                                       char separator = '.');

/// Every counter and gauge there is, for whoever registers them.
[[nodiscard]] OUTBOX_CORE_EXPORT std::span<counter const> all_counters() noexcept;
[[nodiscard]] OUTBOX_CORE_EXPORT std::span<gauge const> all_gauges() noexcept;

/// Receives a node's figures. Called from the node's own loops, never from `write()` or a commit, one call at a time
/// per node. Must not throw.
class OUTBOX_CORE_EXPORT metrics {
 public:
  metrics() = default;
  metrics(metrics const&) = delete;
  metrics& operator=(metrics const&) = delete;
  virtual ~metrics();

  /// `c` has grown by `n`, which is positive.
  virtual void add(counter c, std::uint64_t n) noexcept = 0;
  virtual void set(gauge g, std::int64_t value) noexcept = 0;
};

}  // namespace outbox::inline v0
