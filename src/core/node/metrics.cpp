#include <algorithm>
#include <array>
#include <iterator>
#include <outbox/metrics.hpp>

#include "core/node/metrics_table.hpp"

namespace outbox::inline v0 {

metrics::~metrics() = default;

void metrics::add_for_route(counter c, std::uint64_t n, std::string_view /*route*/) noexcept { add(c, n); }
void metrics::observe(histogram /*h*/, double /*seconds*/, std::string_view /*route*/) noexcept {}

std::string_view name(counter c) noexcept {
  auto const i = static_cast<std::size_t>(c);
  return i < std::size(core::counter_table) ? core::counter_table[i].name : "unknown";
}

std::string_view name(histogram h) noexcept {
  switch (h) {
    case histogram::delivery_seconds: return "delivery.seconds";
    case histogram::lag_seconds: return "lag.seconds";
  }
  return "unknown";
}

std::string_view name(gauge g) noexcept {
  switch (g) {
    case gauge::hot_queue_depth: return "queue.hot.depth";
    case gauge::cold_queue_depth: return "queue.cold.depth";
    case gauge::oldest_lag_ms: return "lag.oldest.ms";
    case gauge::held: return "held";
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

constexpr histogram histograms[] = {histogram::delivery_seconds, histogram::lag_seconds};
static_assert(std::size(histograms) == static_cast<std::size_t>(histogram::lag_seconds) + 1);

constexpr gauge gauges[] = {gauge::hot_queue_depth, gauge::cold_queue_depth, gauge::oldest_lag_ms, gauge::held};
static_assert(std::size(gauges) == static_cast<std::size_t>(gauge::held) + 1);

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
