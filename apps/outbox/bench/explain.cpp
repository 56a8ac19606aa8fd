// Figures in words: what a write waits for, by comparing it with a round trip.
#include <algorithm>
#include <array>
#include <cstdio>

#include "bench/measure.hpp"

namespace outbox_tool {
namespace {

// A disk that keeps what it was told, also without power, takes longer than this.
constexpr double quickest_flush = 300;

std::string times_text(double n) {
  std::array<char, 32> text{};
  auto const length = std::snprintf(text.data(), text.size(), "%.1f", n);
  return {text.data(), static_cast<std::size_t>(length)};
}

std::string one_in_words(double write, double round_trip, int trips) {
  auto const took = "a commit takes " + microseconds_text(write) + ": ";
  auto const on_the_way = round_trip * trips;
  if (trips > 0 && on_the_way > 0.6 * write) {
    auto const one = microseconds_text(round_trip);
    return trips == 1 ? "a round trip of " + one + " is most of it"
                      : std::to_string(trips) + " round trips of " + one + " are most of it";
  }
  if (write - on_the_way >= quickest_flush)
    return took + (trips > 0 ? "the server's disk (fsync)" : "the disk (fsync)");
  return took + (trips > 0 ? "the server's work" : "the disk flushes at once, or not at all");
}

std::string several_in_words(double growth, std::size_t connections, bool server) {
  if (connections < 2) return {};
  if (growth >= 0.7 * static_cast<double>(connections)) return "grows with the connections: more would write more";
  if (growth > 1.2) return times_text(growth) + " times one connection: they begin to wait for each other";
  return server ? "connections wait for each other: the disk or the processor" : "one transaction writes at a time";
}

// The node hands an event over before commit() returns, so a listener may be the first.
std::string hot_in_words(samples const& hot) {
  auto const first = std::ranges::count(hot.microseconds(), 0.0);
  auto const percent = 100 * static_cast<std::uint64_t>(first) / hot.size();
  if (percent == 0) return "no statement in between: threads of this machine";
  return std::to_string(percent) + " % of the listeners began before commit() returned";
}

}  // namespace

limits_in_words explain(measurements const& m, measure_options const& o, int round_trips) {
  limits_in_words w;
  if (round_trips == 0) w.round_trip = "no network: the database is in the process";
  if (!m.write_one.empty() && !m.round_trip.empty()) {
    w.one = one_in_words(m.write_one.percentile(0.5), m.round_trip.percentile(0.5), round_trips);
  }
  if (m.one.per_second() > 0) {
    w.several = several_in_words(m.several.per_second() / m.one.per_second(), o.connections, round_trips > 0);
    if (m.cold.count > 0) {
      w.cold = "in batches: " + times_text(m.cold.per_second() / m.one.per_second()) + " times one connection's writes";
    }
  }
  if (!m.hot.empty()) w.hot = hot_in_words(m.hot);
  return w;
}

}  // namespace outbox_tool
