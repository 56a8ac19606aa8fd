// When the next notification may be sent.
#pragma once

#include <algorithm>
#include <chrono>

namespace outbox::inline v0::core {

/// Lets a steady 250 notifications a second pass without delay, and a burst of twenty; a flood gets one every 4 ms.
/// Every notification makes each listening node claim, which costs more than the notification itself. Use from one
/// thread.
class hint_pace {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds each{4};
  static constexpr int burst = 20;

  /// The first instant at which one may be sent.
  [[nodiscard]] clock::time_point next() const noexcept { return paid_until_ - (burst - 1) * each; }

  void sent(clock::time_point now) noexcept { paid_until_ = std::max(paid_until_, now) + each; }

 private:
  clock::time_point paid_until_{};  ///< What was sent is made up for by then.
};

}  // namespace outbox::inline v0::core
