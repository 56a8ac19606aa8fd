// How long the settler gathers results before it sends them.
#pragma once

#include <algorithm>
#include <chrono>
#include <outbox/clock.hpp>

namespace outbox::inline v0::core {

/// A result that comes alone is settled at once. A busy node gathers results, so that one commit settles many. It
/// gathers longer if settlements are expensive, because each of them may hold up the writers: on SQLite they share one
/// lock, and everywhere they share a disk.
class settle_pace {
 public:
  static constexpr std::chrono::milliseconds shortest{5};
  static constexpr std::chrono::milliseconds longest{50};
  static constexpr int share = 20;  ///< A twentieth of the time is spent settling, unless `longest` is not enough.

  /// When the next settlement may be sent. `patient`: it may also wait until a settlement is worth its cost.
  [[nodiscard]] steady_time next(bool patient) const noexcept {
    if (last_sent_ == steady_time::min()) return last_sent_;
    if (!patient) return last_sent_ + shortest;
    return last_sent_ + std::clamp<steady_time::duration>(cost_ * share, shortest, longest);
  }

  void sent(steady_time now) noexcept { last_sent_ = now; }

  /// One slow answer counts for a quarter, so that a hiccup of the disk does not delay what follows.
  void answered(steady_time now) noexcept { cost_ = (cost_ * 3 + (now - last_sent_)) / 4; }

 private:
  steady_time last_sent_ = steady_time::min();
  steady_time::duration cost_{};
};

}  // namespace outbox::inline v0::core
