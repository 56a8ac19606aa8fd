#include <algorithm>
#include <cassert>
#include <outbox/retry.hpp>

namespace outbox::inline v0 {
namespace {

// 2^40 times the smallest base is past any sensible cap; it keeps the shift defined.
constexpr std::int32_t max_doublings = 40;

}  // namespace

std::chrono::milliseconds backoff::delay(std::int32_t failures, double jitter) const noexcept {
  assert(failures >= 1);
  assert(jitter >= 0.0 && jitter < 1.0);
  auto const doublings = std::min(failures - 1, max_doublings);
  auto const wait = base.count() > (cap.count() >> doublings) ? cap.count() : base.count() << doublings;
  return std::chrono::milliseconds{static_cast<std::int64_t>(static_cast<double>(wait) * (0.5 + jitter))};
}

std::chrono::milliseconds retry_policy::wait(std::int32_t failures, double random) const noexcept {
  try {
    if (delay) return delay(failures);
  } catch (...) {  // NOLINT(bugprone-empty-catch): an event must not be lost to a policy that fails
  }
  constexpr double no_jitter = 0.5;  // the factor is then 1
  return backoff.delay(failures, jitter ? random : no_jitter);
}

}  // namespace outbox::inline v0
