// How often a failed event is tried again, and when.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <outbox/detail/core_export.hpp>

namespace outbox::inline v0 {

/// Exponential backoff with jitter.
///
/// The n-th failure waits `min(cap, base * 2^(n-1))` times a factor drawn from [0.5, 1.5), so that events which
/// failed together do not come back together. The factor comes after the cap: a wait can be half as long again.
struct backoff {
  /// Wait after the first failure. Default 200 ms. Must be positive.
  std::chrono::milliseconds base{200};

  /// The wait stops doubling here. Default one minute. Must not be less than `base`.
  std::chrono::milliseconds cap{60'000};

  /// The wait after failure number `failures` (1 = the first), for a `jitter` in [0, 1).
  /// The caller brings the randomness, so that a test or a simulation can repeat it.
  [[nodiscard]] OUTBOX_CORE_EXPORT std::chrono::milliseconds delay(std::int32_t failures, double jitter) const noexcept;
};

/// How often a failed event is tried, and how long it waits in between.
struct retry_policy {
  /// The event is DEAD after this many counted failures. Default 10. 1 means: no second try. 1 … 1,000,000.
  std::int32_t max_attempts = 10;

  /// How long an event waits after a failure.
  outbox::v0::backoff backoff{};

  /// Replaces the backoff: returns how long an event waits after failure number `failures` (1 = the first). Default:
  /// none. The value is used without jitter; negative means at once, and more than ten years means ten years. If it
  /// throws, the backoff decides. A `failed` or `failure` with a wait of its own comes first. It runs while the node
  /// holds its lock, so it must be quick and must not call the node. Nodes that share a policy may call it at the same
  /// time.
  std::function<std::chrono::milliseconds(std::int32_t failures)> delay{};

  /// False: the backoff waits exactly `min(cap, base * 2^(n-1))`. Events that failed together then come back together,
  /// which prolongs an outage: for tables whose other readers expect exact waits. Default true.
  bool jitter = true;

  /// What `delay` returns, or the backoff for a `random` number in [0, 1).
  [[nodiscard]] OUTBOX_CORE_EXPORT std::chrono::milliseconds wait(std::int32_t failures, double random) const noexcept;
};

}  // namespace outbox::inline v0
