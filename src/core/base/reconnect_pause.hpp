// How long to wait before the next attempt to connect.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

#include "core/base/random.hpp"

namespace outbox::inline v0::core {

/// Doubles from `first` to `longest`, times 0.5 to 1.5 at random: other nodes see the same outage and must not all come
/// back at once. Use from one thread at a time.
class reconnect_pause {
 public:
  reconnect_pause(std::chrono::milliseconds first, std::chrono::milliseconds longest)
      : first_{first}, longest_{longest}, next_{first} {}

  [[nodiscard]] std::chrono::milliseconds next() {
    auto const base = next_;
    next_ = std::min(next_ * 2, longest_);
    return std::chrono::duration_cast<std::chrono::milliseconds>(base * (0.5 + random_.fraction()));
  }
  void reset() noexcept { next_ = first_; }

 private:
  std::chrono::milliseconds first_, longest_, next_;
  random_source random_{std::random_device{}()};
};

}  // namespace outbox::inline v0::core
