// Every counter, with its name and its field: one row per counter, so that none can be forgotten in one of three
// places.
#pragma once

#include <cstdint>
#include <iterator>
#include <outbox/metrics.hpp>
#include <string_view>

namespace outbox::inline v0::core {

struct counter_row {
  counter which;
  std::string_view name;                ///< As the specifications call it.
  std::uint64_t node_counters::*field;  ///< Has the same name as `which`.
  bool by_route = false;                ///< Kept for each route too.
};

inline constexpr counter_row counter_table[] = {
    {counter::hot_enqueued, "enqueue.hot", &node_counters::hot_enqueued},
    {counter::hot_dropped, "enqueue.hot.dropped", &node_counters::hot_dropped},
    {counter::hot_skipped_delayed, "enqueue.hot.skipped.delayed", &node_counters::hot_skipped_delayed},
    {counter::cold_enqueued, "enqueue.cold", &node_counters::cold_enqueued},
    {counter::delivered, "dispatch.success", &node_counters::delivered, true},
    {counter::failed, "dispatch.failure", &node_counters::failed, true},
    {counter::deferred, "dispatch.deferred", &node_counters::deferred, true},
    {counter::dead, "dispatch.dead", &node_counters::dead, true},
    {counter::claimed_dead, "claim.dead", &node_counters::claimed_dead},
    {counter::released, "settle.released", &node_counters::released},
    {counter::lost, "settle.lost", &node_counters::lost},
    {counter::unconfirmed, "settle.unconfirmed", &node_counters::unconfirmed},
    {counter::timed_out, "listener.timeout", &node_counters::timed_out},
    {counter::late_results, "listener.late", &node_counters::late_results},
    {counter::store_errors, "store.errors", &node_counters::store_errors},
    {counter::isolated, "claim.isolated", &node_counters::isolated},
    {counter::maybe_duplicates, "dispatch.maybe_duplicate", &node_counters::maybe_duplicates},
    {counter::commits, "store.commits", &node_counters::commits},
    {counter::noted, "order.noted", &node_counters::noted},
    {counter::unblocked, "order.unblocked", &node_counters::unblocked},
    {counter::healed, "order.healed", &node_counters::healed},
    {counter::chains_broken, "order.broken", &node_counters::chains_broken},
};

consteval bool in_order_of_the_enumerators() {
  for (std::size_t i = 0; i < std::size(counter_table); ++i) {
    if (static_cast<std::size_t>(counter_table[i].which) != i) return false;
  }
  return std::size(counter_table) == static_cast<std::size_t>(counter::chains_broken) + 1;
}
static_assert(in_order_of_the_enumerators());

}  // namespace outbox::inline v0::core
