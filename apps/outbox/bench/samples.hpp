// Durations that were measured: percentiles, and a histogram with a logarithmic scale.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace outbox_tool {

/// A part of a histogram: durations from `from` on, below `to`.
struct bucket {
  double from = 0, to = 0;  ///< Microseconds.
  std::uint64_t count = 0;
};

/// Use from one thread at a time.
class samples {
 public:
  void add(std::chrono::nanoseconds d) { all_.push_back(static_cast<double>(d.count() < 0 ? 0 : d.count()) / 1000); }
  void add(samples const& others) { all_.insert(all_.end(), others.all_.begin(), others.all_.end()); }

  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  [[nodiscard]] std::vector<double> const& microseconds() const noexcept { return all_; }

  /// The duration in microseconds that this share of all is not longer than: 0.5 gives the median. 0 if there are none.
  [[nodiscard]] double percentile(double share) const;

  /// Ten for each power of ten, from the first that has something to the last. Below a microsecond there is one.
  [[nodiscard]] std::vector<bucket> buckets() const;

 private:
  std::vector<double> all_;
};

/// A number of microseconds with three digits and a unit that fits: "42.1 µs", "2.1 ms", "1.3 s".
[[nodiscard]] std::string microseconds_text(double us);

/// A histogram of block characters with a logarithmic, labelled axis; lines are at most `width` wide. Empty if there
/// are no samples.
[[nodiscard]] std::string plot(samples const& of, std::size_t width);

}  // namespace outbox_tool
