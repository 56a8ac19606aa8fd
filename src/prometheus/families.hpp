// Every figure of a node as Prometheus knows it: its text of help and, for histograms, its buckets.
#pragma once

#include <cstddef>
#include <iterator>
#include <outbox/metrics.hpp>
#include <span>
#include <string_view>

namespace outbox::inline v0::prometheus {

template <class E>
struct described {
  E which;
  std::string_view help;
};

inline constexpr described<counter> counters[] = {
    {counter::hot_enqueued, "Events that the node took over at their commit."},
    {counter::hot_dropped, "Events born without an owner because no slot was free; the poller delivers them."},
    {counter::hot_skipped_delayed, "Events born without an owner because they are delayed."},
    {counter::cold_enqueued, "Rows that the poller claimed."},
    {counter::delivered, "Events settled DONE."},
    {counter::failed, "Events settled for another try; the attempt was counted."},
    {counter::deferred, "Events settled for later; nothing was counted."},
    {counter::dead, "Events settled DEAD."},
    {counter::claimed_dead, "Rows that a claim made DEAD: past max_crashes, or unreadable."},
    {counter::released, "Events given back unfinished; nothing was counted."},
    {counter::lost, "Events settled or renewed too late: the row has another owner."},
    {counter::unconfirmed, "Events settled twice because a reply was lost; the second found nothing to do."},
    {counter::timed_out, "Calls of listeners that ran past their timeout."},
    {counter::late_results, "Results of calls that had run past their timeout, ignored."},
    {counter::store_errors, "Failed requests of the node to its store."},
    {counter::isolated, "Rows that could not be claimed; the node goes on without them."},
    {counter::maybe_duplicates, "Calls of listeners whose event may have been delivered before."},
    {counter::commits, "Transactions in which the node wrote to its store."},
    {counter::noted, "Rows of which a claim noted that they wait for another row of their key."},
    {counter::unblocked, "Noted rows that the end of the row before them let go on."},
    {counter::healed, "Noted rows that waited for nothing: another program removed what was before them."},
    {counter::chains_broken, "Times that an event was not delivered and those behind it were given back."},
};

/// How the gauges of exporters with the same labels become one.
enum class merge { sum, highest, lowest };

struct described_gauge {
  gauge which;
  merge how;
  std::string_view help;
};

inline constexpr described_gauge gauges[] = {
    {gauge::hot_queue_depth, merge::sum, "Events in the hot queue."},
    {gauge::cold_queue_depth, merge::sum, "Rows in the cold queue."},
    {gauge::oldest_lag_ms, merge::highest, "How long the first due row had been due at the last claim."},
    {gauge::held, merge::sum, "Events in the node: queued, running or waiting to be settled."},
    {gauge::healthy, merge::lowest, "1 if the node runs and is healthy."},
    {gauge::active, merge::highest, "1 if the node delivers; 0 if it stands by for another node."},
};

// From the time of a hot delivery to that of a listener that hangs.
inline constexpr double waits[] = {0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05,
                                   0.1,     0.5,     1,      5,      10,    30,    60,   300};
// A lag is an age: an event may wait for hours.
inline constexpr double ages[] = {0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 21600, 86400};
inline constexpr double rows[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};

struct described_histogram {
  histogram which;
  bool by_route;
  std::span<double const> bounds;
  std::string_view help;
};

inline constexpr described_histogram histograms[] = {
    {histogram::delivery_seconds, true, waits, "How long the call of a listener took, whatever its result."},
    {histogram::lag_seconds, true, ages, "How old an event was when its listener was done with it."},
    {histogram::hot_wait_seconds, true, waits, "From the commit of an event until a worker called its listener."},
    {histogram::cold_wait_seconds, true, waits, "From the claim of an event until a worker called its listener."},
    {histogram::settle_seconds, true, waits, "From the result of a listener until its settlement was durable."},
    {histogram::settle_batch_rows, false, rows, "The number of rows that were settled together."},
    {histogram::pool_wait_seconds, false, waits, "How long a request waited for a connection that another one used."},
};

template <class Table>
consteval bool in_order(Table const& table) {
  for (std::size_t i = 0; i < std::size(table); ++i) {
    if (static_cast<std::size_t>(table[i].which) != i) return false;
  }
  return true;
}
static_assert(in_order(counters) && in_order(gauges) && in_order(histograms));
static_assert(std::size(counters) == static_cast<std::size_t>(counter::chains_broken) + 1);
static_assert(std::size(gauges) == static_cast<std::size_t>(gauge::active) + 1);
static_assert(std::size(histograms) == static_cast<std::size_t>(histogram::pool_wait_seconds) + 1);

/// The counters that a node keeps for each route.
[[nodiscard]] constexpr bool by_route(counter c) noexcept {
  return c == counter::delivered || c == counter::failed || c == counter::deferred || c == counter::dead;
}

}  // namespace outbox::inline v0::prometheus
