#include <outbox/metrics.hpp>

namespace outbox::inline v0 {

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

}  // namespace outbox::inline v0
