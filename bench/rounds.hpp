// Interleaved rounds: ours, by hand, ours, by hand, …, so that what the machine does meanwhile hits both.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace bench {

/// What a row must reach: at least (a rate's ratio) or at most (a latency's ratio, or a figure without a counterpart).
struct bar {
  enum class kind { at_least, at_most } what = kind::at_least;
  double value = 1;

  [[nodiscard]] bool holds(double figure) const noexcept {
    return what == kind::at_least ? figure >= value : figure <= value;
  }
};

[[nodiscard]] inline bar at_least(double v) { return {bar::kind::at_least, v}; }
[[nodiscard]] inline bar at_most(double v) { return {bar::kind::at_most, v}; }

/// For figures that depend on more than the code: they are reported without a verdict.
inline constexpr std::optional<bar> no_bar{};

/// What a row is about.
struct measured {
  std::string name;
  std::string unit;
  std::optional<bar> target;
  std::string what;  ///< What runs on both sides, so that a reader can repeat it.
};

/// One row of the report. Round i of one side belongs to round i of the other.
struct row : measured {
  std::vector<double> ours;
  std::vector<double> by_hand;  ///< Empty where nothing stands beside it.

  [[nodiscard]] bool compared() const noexcept { return !by_hand.empty(); }
  /// What the bar judges, one figure per round: the ratios of the pairs, or `ours` where there are no pairs.
  [[nodiscard]] std::vector<double> judged() const;
  [[nodiscard]] double figure() const;  ///< The median of `judged()`.
  [[nodiscard]] double spread() const;  ///< The middle half of `judged()` lies within this share of its median.
  [[nodiscard]] int within() const;     ///< The number of rounds that hold the bar.
  /// A bar is missed when more than three quarters of the rounds are beyond it: seven of nine, all of three.
  [[nodiscard]] bool reached() const;
};

struct settings {
  int rounds = 9;
  double scale = 1;       ///< Of the amounts of work: less is quicker and noisier.
  std::string directory;  ///< For database files, on a real disk.

  [[nodiscard]] int amount(int n) const noexcept { return std::max(1, static_cast<int>(n * scale)); }
};

/// A round of one side returns its figures, one per name.
using side = std::function<std::vector<double>()>;

/// Runs both sides `rounds` times, the first of each round by turns, after one round that does not count.
[[nodiscard]] std::vector<row> interleave(settings const& s, std::vector<measured> const& names, side const& ours,
                                          side const& by_hand);

/// Rates of single pieces of work, of which each side does `count` in a round, a hundred by turns: a disk that other
/// guests use is fast for a while and then slow, and so both sides see the same of it.
[[nodiscard]] row alternate(settings const& s, measured const& m, int count, std::function<void()> const& ours,
                            std::function<void()> const& by_hand);

/// Figures with nothing beside them.
[[nodiscard]] inline row alone(measured const& m, std::vector<double> figures) { return {m, std::move(figures), {}}; }

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
