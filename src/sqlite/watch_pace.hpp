// When the watch of a database file checks next. No thread, no clock.
#pragma once

#include <algorithm>
#include <chrono>

namespace outbox::inline v0::sqlite {

/// How often the watch checks.
struct watch_limits {
  using duration = std::chrono::microseconds;

  // While it hears of writes. The file is written before a commit can be seen, by as long as the disk takes: so the
  // first checks after a write come quickly. The slow check is for what was not heard.
  duration heard_first{250};
  duration heard_slowest{1'000'000};

  // While it hears of nothing, because it cannot.
  duration deaf_first{10'000};
  duration deaf_slowest{100'000};

  // After a change. Commits of this process are changes too, and every push costs a claim.
  duration rest_first{1'000};
  duration rest_longest{10'000};
};

class watch_pace {
 public:
  using duration = watch_limits::duration;

  explicit watch_pace(watch_limits const& l) noexcept : limits_{l}, delay_{l.heard_slowest}, rest_{l.rest_first} {}

  /// How long to wait before the next check.
  [[nodiscard]] duration delay() const noexcept { return delay_; }

  /// True: a write that is heard meanwhile ends the wait.
  [[nodiscard]] bool may_wake() const noexcept { return !resting_; }

  /// True: so many checks in a row found a change that the next will, too. There is no need to listen.
  [[nodiscard]] bool in_a_stream() const noexcept { return streaming_; }

  /// A write was heard: check now.
  void heard() noexcept { delay_ = duration{0}; }

  /// A check could not be made now.
  void failed() noexcept { delay_ = std::clamp(delay_ * 2, limits_.rest_first, limits_.rest_longest); }

  /// A check was made. `deaf`: writes cannot be heard.
  void checked(bool changed, bool deaf) noexcept {
    bool const stream_ended = streaming_ && !changed;
    resting_ = changed;
    streaming_ = changed && rest_ == limits_.rest_longest;
    if (changed) {
      delay_ = rest_;
      rest_ = std::min(rest_ * 2, limits_.rest_longest);
      return;
    }
    rest_ = limits_.rest_first;
    delay_ = stream_ended ? duration{0}  // listen at once
                          : std::clamp(delay_ * 2, deaf ? limits_.deaf_first : limits_.heard_first,
                                       deaf ? limits_.deaf_slowest : limits_.heard_slowest);
  }

 private:
  watch_limits limits_;
  duration delay_;
  duration rest_;
  bool resting_ = false;
  bool streaming_ = false;
};

}  // namespace outbox::inline v0::sqlite
