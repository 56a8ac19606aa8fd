#include "bench/samples.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "cli/shown_text.hpp"
#include "cli/time_text.hpp"

namespace outbox_tool {
namespace {

constexpr int buckets_per_decade = 10;

// The bucket of a duration: 0 is everything below a microsecond.
std::size_t bucket_of(double us) {
  if (us < 1) return 0;
  return 1 + static_cast<std::size_t>(std::floor(std::log10(us) * buckets_per_decade));
}

double bound_of(std::size_t bucket) {
  if (bucket == 0) return 0;
  auto const exact = std::pow(10, static_cast<double>(bucket - 1) / buckets_per_decade);
  return std::round(exact * 1000) / 1000;
}

// 1, 2 or 5 times a power of ten.
double round_number(int index) {
  static constexpr std::array<double, 3> steps{1, 2, 5};
  auto const decade = static_cast<int>(std::floor(index / 3.0));
  return steps.at(static_cast<std::size_t>(index - 3 * decade)) * std::pow(10, decade);
}

constexpr std::size_t height = 6;
constexpr std::size_t margin = 10;  // for the number beside the axis

// A tenth of a microsecond. What is shorter stands there too, because a logarithm has no zero.
constexpr int shortest = -3;

// The range of a plot in round numbers, and where a duration stands in it.
struct scale {
  int first = shortest, last = 0;  ///< Of `round_number`.
  std::size_t columns = 0;

  scale(samples const& of, std::size_t wide) : columns{wide} {
    auto const [least, most] = std::ranges::minmax(of.microseconds());
    while (round_number(first + 1) <= least) ++first;
    last = first + 1;
    while (round_number(last) <= most) ++last;
  }
  [[nodiscard]] double share(double us) const {
    auto const from = std::log(round_number(first)), to = std::log(round_number(last));
    return (std::log(std::max(us, round_number(first))) - from) / (to - from);
  }
  [[nodiscard]] std::size_t column(double us) const {
    return std::min(columns - 1, static_cast<std::size_t>(share(us) * static_cast<double>(columns)));
  }
};

// Few samples would be lonely in columns of their own.
std::size_t columns_per_bar(std::size_t count) { return count < 300 ? 4 : count < 3000 ? 2 : 1; }

std::vector<std::uint64_t> bars_of(samples const& of, scale const& s) {
  std::vector<std::uint64_t> bars(s.columns);
  auto const wide = columns_per_bar(of.size());
  for (double const us : of.microseconds()) ++bars[s.column(us) / wide * wide];
  for (std::size_t i = 0; i < bars.size(); ++i) bars[i] = bars[i / wide * wide];
  return bars;
}

std::string line_of(std::vector<std::uint64_t> const& bars, std::uint64_t most, std::size_t row) {
  static constexpr std::array<char const*, 9> blocks{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (auto const n : bars) {
    auto const exact = static_cast<double>(n * height * 8) / static_cast<double>(most);
    auto level = static_cast<std::size_t>(std::llround(exact));
    if (n > 0) level = std::max<std::size_t>(level, 1);  // one of a million is seen too
    line += blocks.at(level > row * 8 ? std::min<std::size_t>(level - row * 8, 8) : 0);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

// The ticks, and the labels below those that have room.
std::string axis_of(scale const& s) {
  std::vector<bool> ticks(s.columns);
  std::string labels(margin, ' ');
  for (int i = s.first; i <= s.last; ++i) {
    auto const at = s.column(round_number(i));
    auto const label = i == shortest ? std::string{"0"} : microseconds_text(round_number(i));
    auto const used = width_of(labels);
    auto const half = width_of(label) / 2;
    auto const begin =
        std::min(margin + at + 1 - std::min(margin + at + 1, half), margin + s.columns - width_of(label));
    if (i != s.first && begin < used + 2) continue;
    ticks[at] = true;
    if (begin > used) labels += std::string(begin - used, ' ');
    if (begin < used) labels.resize(begin);
    labels += label;
  }
  std::string line = std::string(margin - 1, ' ') + "└";
  for (bool const tick : ticks) line += tick ? "┬" : "─";
  return line + "\n" + labels + "\n";
}

}  // namespace

double samples::percentile(double share) const {
  if (all_.empty()) return 0;
  auto copy = all_;
  auto const at = static_cast<std::size_t>(std::llround(share * static_cast<double>(copy.size() - 1)));
  auto const where = copy.begin() + static_cast<std::ptrdiff_t>(std::min(at, copy.size() - 1));
  std::ranges::nth_element(copy, where);
  return *where;
}

std::vector<bucket> samples::buckets() const {
  if (all_.empty()) return {};
  auto const [least, most] = std::ranges::minmax(all_);
  auto const first = bucket_of(least);
  std::vector<bucket> found;
  for (auto i = first; i <= bucket_of(most); ++i) found.push_back({bound_of(i), bound_of(i + 1), 0});
  for (double const us : all_) ++found[bucket_of(us) - first].count;
  return found;
}

std::string microseconds_text(double us) {
  auto const [value, unit] = us < 999.5      ? std::pair{us, "µs"}
                             : us < 999'500. ? std::pair{us / 1000, "ms"}
                                             : std::pair{us / 1'000'000, "s"};
  std::array<char, 32> text{};
  auto const n = std::snprintf(text.data(), text.size(), "%.3g", value);
  return std::string{text.data(), static_cast<std::size_t>(n)} + " " + unit;
}

std::string plot(samples const& of, std::size_t width) {
  if (of.empty()) return {};
  scale const s{of, std::clamp<std::size_t>(width, 40, 300) - margin - 1};
  auto const bars = bars_of(of, s);
  auto const most = std::ranges::max(bars);
  auto const top = number_text(most);
  std::string text;
  for (std::size_t row = height; row-- > 0;) {
    auto const label = row == height - 1 ? top : std::string{};
    auto const space = label.size() < margin - 2 ? margin - 2 - label.size() : 0;
    text += std::string(space, ' ') + label + (row == height - 1 ? " ┤" : " │") + line_of(bars, most, row) + "\n";
  }
  return text + axis_of(s);
}

}  // namespace outbox_tool
