// The memory of the figures: atomics that a node's threads write without a lock, and the exporter that finds them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <outbox/metrics.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/text_map.hpp"
#include "prometheus/families.hpp"

namespace outbox::inline v0::prometheus {

/// One histogram. A reader may see a value that is in a bucket and not yet in the sum.
class cells {
 public:
  explicit cells(std::span<double const> bounds) : bounds_{bounds} {}

  void observe(double value) noexcept {
    auto const at = static_cast<std::size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin());
    counts_[at].fetch_add(1, std::memory_order_relaxed);
    sum_.fetch_add(value, std::memory_order_relaxed);
  }

  [[nodiscard]] std::span<double const> bounds() const noexcept { return bounds_; }

  /// Of the values that are at most `bounds()[i]` and above the bound before; the last entry is that of the rest.
  [[nodiscard]] std::uint64_t count(std::size_t i) const noexcept { return counts_[i].load(std::memory_order_relaxed); }
  [[nodiscard]] double sum() const noexcept { return sum_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t most = std::max({std::size(waits), std::size(ages), std::size(rows)}) + 1;

  std::span<double const> bounds_;
  std::array<std::atomic<std::uint64_t>, most> counts_{};
  std::atomic<double> sum_ = 0;
};

/// Histograms that have a route, or those that have none. The others are there and stay empty.
template <std::size_t... I>
std::array<cells, sizeof...(I)> make_cells(std::index_sequence<I...>) {
  return {cells{histograms[I].bounds}...};
}

/// What is kept for a route, and for a node as a whole.
struct series {
  using counter_cells = std::array<std::atomic<std::uint64_t>, std::size(counters)>;

  counter_cells counted{};
  std::array<cells, std::size(histograms)> observed = make_cells(std::make_index_sequence<std::size(histograms)>{});
};

/// The figures of one set of labels. They stay when the node ends, so that they never fall.
struct node_series {
  std::string table;
  std::string node;
  series whole;

  /// By the value of the label. The empty one is for events without a listener. Guarded by the registry's lock; the
  /// entries themselves stay where they are.
  std::map<std::string, series, std::less<>> routes;
};

/// Writes the figures of one node to its series.
class exporter final : public metrics {
 public:
  /// `lock` guards the routes of `to`. Both live as long as `owner`.
  exporter(std::shared_ptr<void> owner, std::mutex& lock, node_series& to);

  void attach(std::span<std::string const> routes) override;
  void add(counter c, std::uint64_t n) noexcept override;
  void add_for_route(counter c, std::uint64_t n, std::string_view route) noexcept override;
  void set(gauge g, std::int64_t value) noexcept override;
  void observe(histogram h, double value, std::string_view route) noexcept override;

  [[nodiscard]] node_series const& to() const noexcept { return to_; }

  /// Nothing before the node has told its value.
  [[nodiscard]] std::optional<std::int64_t> value(gauge g) const noexcept;

 private:
  using index = core::text_map<series*>;

  [[nodiscard]] series& of(std::string_view route) const noexcept;

  struct gauge_cell {
    std::atomic<std::int64_t> value = 0;
    std::atomic<bool> told = false;
  };

  std::shared_ptr<void> owner_;
  std::mutex& lock_;
  node_series& to_;
  series& without_route_;
  std::array<gauge_cell, std::size(gauges)> gauges_{};
  std::vector<std::unique_ptr<index const>> indexes_;  ///< Only the last one is used; a thread may still read another.
  std::atomic<index const*> current_;
};

}  // namespace outbox::inline v0::prometheus
