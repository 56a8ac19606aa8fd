#include <algorithm>
#include <iterator>
#include <outbox/metrics.hpp>

namespace outbox::inline v0 {

metrics::~metrics() = default;

std::string_view name(counter c) noexcept {
  switch (c) {
    case counter::hot_enqueued: return "enqueue.hot";
    case counter::hot_dropped: return "enqueue.hot.dropped";
    case counter::hot_skipped_delayed: return "enqueue.hot.skipped.delayed";
    case counter::cold_enqueued: return "enqueue.cold";
    case counter::dispatch_success: return "dispatch.success";
    case counter::dispatch_failure: return "dispatch.failure";
    case counter::dispatch_deferred: return "dispatch.deferred";
    case counter::dispatch_dead: return "dispatch.dead";
    case counter::killed: return "claim.killed";
    case counter::released: return "settle.released";
    case counter::lost: return "settle.lost";
    case counter::unconfirmed: return "settle.unconfirmed";
    case counter::timed_out: return "listener.timeout";
    case counter::late_results: return "listener.late";
    case counter::store_errors: return "store.errors";
    case counter::isolated: return "claim.isolated";
  }
  return "unknown";
}

std::string_view name(gauge g) noexcept {
  switch (g) {
    case gauge::hot_queue_depth: return "queue.hot.depth";
    case gauge::cold_queue_depth: return "queue.cold.depth";
    case gauge::oldest_lag_ms: return "lag.oldest.ms";
    case gauge::held: return "held";
  }
  return "unknown";
}

namespace {

std::string joined(std::string_view prefix, std::string_view name, char separator) {
  std::string text{prefix};
  if (!text.empty()) text += '.';
  text += name;
  std::ranges::replace(text, '.', separator);
  return text;
}

constexpr counter counters[] = {counter::hot_enqueued,
                                counter::hot_dropped,
                                counter::hot_skipped_delayed,
                                counter::cold_enqueued,
                                counter::dispatch_success,
                                counter::dispatch_failure,
                                counter::dispatch_deferred,
                                counter::dispatch_dead,
                                counter::killed,
                                counter::released,
                                counter::lost,
                                counter::unconfirmed,
                                counter::timed_out,
                                counter::late_results,
                                counter::store_errors,
                                counter::isolated};
static_assert(std::size(counters) == static_cast<std::size_t>(counter::isolated) + 1);

constexpr gauge gauges[] = {gauge::hot_queue_depth, gauge::cold_queue_depth, gauge::oldest_lag_ms, gauge::held};
static_assert(std::size(gauges) == static_cast<std::size_t>(gauge::held) + 1);

}  // namespace

std::string full_name(counter c, std::string_view prefix, char separator) { return joined(prefix, name(c), separator); }
std::string full_name(gauge g, std::string_view prefix, char separator) { return joined(prefix, name(g), separator); }

std::span<counter const> all_counters() noexcept { return counters; }
std::span<gauge const> all_gauges() noexcept { return gauges; }

}  // namespace outbox::inline v0
