// Small, fast, repeatable randomness from one seed.
#pragma once

#include <cstdint>

namespace outbox::inline v0::core {

/// SplitMix64: passes the usual statistical tests, one word of state. Not for secrets.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) noexcept : state_{seed} {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

  /// In [0, 1).
  double fraction() noexcept { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }

  /// In [0, n); n must be positive.
  std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }

  /// True in this share of calls.
  bool chance(double share) noexcept { return fraction() < share; }

 private:
  std::uint64_t state_;
};

}  // namespace outbox::inline v0::core
