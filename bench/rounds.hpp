// Interleaved rounds: ours, by hand, ours, by hand, …, so that what the machine does meanwhile hits both.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace bench {

/// What a row must reach: at least (a rate's ratio) or at most (a latency's ratio, or a figure without a counterpart).
struct bar {
  enum class kind { at_least, at_most } what = kind::at_least;
  double value = 1;
};

[[nodiscard]] inline bar at_least(double v) { return {bar::kind::at_least, v}; }
[[nodiscard]] inline bar at_most(double v) { return {bar::kind::at_most, v}; }

/// One row of the report. Medians over the rounds. `by_hand` and `ratio` are missing where nothing stands beside it.
struct row {
  std::string name;
  std::string unit;
  double ours = 0;
  std::optional<double> by_hand;
  std::optional<double> ratio;
  int rounds = 0;
  double spread =
      0;  ///< Of the ratio, or of `ours`: the middle half of the rounds lies within this share of the median.
  bar target;
  std::string what;  ///< What runs on both sides.

  [[nodiscard]] bool reached() const noexcept;
};

struct settings {
  int rounds = 9;
  double scale = 1;       ///< Of the amounts of work: less is quicker and noisier.
  std::string directory;  ///< For database files, on a real disk.
};

/// A round of one side returns its figures, one per name.
using side = std::function<std::vector<double>()>;

struct measured {
  std::string name;
  std::string unit;
  bar target;
  std::string what;
};

/// Runs both sides `rounds` times, the first of each round by turns, after one round that does not count.
[[nodiscard]] std::vector<row> interleave(settings const& s, std::vector<measured> const& names, side const& ours,
                                          side const& by_hand);

/// Rates of single pieces of work, of which each side does `count` in a round, a hundred by turns: a disk that other
/// guests use is fast for a while and then slow, and so both sides see the same of it.
[[nodiscard]] row alternate(settings const& s, measured const& m, int count, std::function<void()> const& ours,
                            std::function<void()> const& by_hand);

/// Figures with nothing beside them.
[[nodiscard]] row alone(measured const& m, std::vector<double> figures);

[[nodiscard]] double median(std::vector<double> values);
[[nodiscard]] double percentile(std::vector<double> values, double p);

/// Seconds of work.
template <class F>
double seconds(F&& f) {
  auto const start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>{std::chrono::steady_clock::now() - start}.count();
}

}  // namespace bench
