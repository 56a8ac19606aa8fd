#include <algorithm>
#include <array>
#include <iterator>
#include <outbox/metrics.hpp>

#include "core/node/metrics_table.hpp"

namespace outbox::inline v0 {

metrics::~metrics() = default;

void metrics::add_for_route(counter c, std::uint64_t n, std::string_view /*route*/) noexcept { add(c, n); }
void metrics::attach(std::span<std::string const> /*routes*/) {}
void metrics::observe(histogram /*h*/, double /*value*/, std::string_view /*route*/) noexcept {}

std::string_view name(counter c) noexcept {
  auto const i = static_cast<std::size_t>(c);
  return i < std::size(core::counter_table) ? core::counter_table[i].name : "unknown";
}

std::string_view name(histogram h) noexcept {
  switch (h) {
    case histogram::delivery_seconds: return "delivery.seconds";
    case histogram::lag_seconds: return "lag.seconds";
    case histogram::hot_wait_seconds: return "wait.hot.seconds";
    case histogram::cold_wait_seconds: return "wait.cold.seconds";
    case histogram::settle_seconds: return "settle.seconds";
    case histogram::settle_batch_rows: return "settle.batch.rows";
    case histogram::pool_wait_seconds: return "pool.wait.seconds";
  }
  return "unknown";
}

std::string_view name(gauge g) noexcept {
  switch (g) {
    case gauge::hot_queue_depth: return "queue.hot.depth";
    case gauge::cold_queue_depth: return "queue.cold.depth";
    case gauge::oldest_lag_ms: return "lag.oldest.ms";
    case gauge::held: return "held";
    case gauge::healthy: return "healthy";
    case gauge::active: return "active";
  }
  return "unknown";
}

namespace {

std::string joined(std::string_view prefix, std::string_view name, char separator) {
  std::string text{prefix};
  if (!text.empty()) text += '.';
  text += name;
  std::ranges::replace(text, '.', separator);
  return text;
}

constexpr auto counters = [] {
  std::array<counter, std::size(core::counter_table)> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = core::counter_table[i].which;
  return all;
}();

// Every enumerator up to the last one.
template <class E, E Last>
constexpr auto up_to = [] {
  std::array<E, static_cast<std::size_t>(Last) + 1> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<E>(i);
  return all;
}();
constexpr auto gauges = up_to<gauge, gauge::active>;
constexpr auto histograms = up_to<histogram, histogram::pool_wait_seconds>;

}  // namespace

std::string full_name(counter c, std::string_view prefix, char separator) { return joined(prefix, name(c), separator); }
std::string full_name(gauge g, std::string_view prefix, char separator) { return joined(prefix, name(g), separator); }

std::string full_name(histogram h, std::string_view prefix, char separator) {
  return joined(prefix, name(h), separator);
}

std::span<counter const> all_counters() noexcept { return counters; }
std::span<gauge const> all_gauges() noexcept { return gauges; }
std::span<histogram const> all_histograms() noexcept { return histograms; }

}  // namespace outbox::inline v0
