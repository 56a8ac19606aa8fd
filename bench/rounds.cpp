#include "rounds.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace bench {

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  auto const at = p * static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::lround(at))];
}

double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

std::vector<double> row::judged() const {
  if (!compared()) return ours;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < ours.size(); ++i) ratios.push_back(by_hand[i] == 0 ? 0 : ours[i] / by_hand[i]);
  return ratios;
}

double row::figure() const { return median(judged()); }

double row::spread() const {
  auto const values = judged();
  auto const middle = median(values);
  return middle == 0 ? 0 : (percentile(values, 0.75) - percentile(values, 0.25)) / middle;
}

int row::within() const {
  if (!target) return static_cast<int>(ours.size());
  return static_cast<int>(std::ranges::count_if(judged(), [&](double v) { return target->holds(v); }));
}

bool row::reached() const {
  auto const rounds = static_cast<int>(ours.size());
  return (rounds - within()) * 4 <= rounds * 3;
}

std::vector<row> interleave(settings const& s, std::vector<measured> const& names, side const& ours,
                            side const& by_hand) {
  std::vector<row> rows;
  for (auto const& m : names) rows.push_back({m, {}, {}});
  for (int round = -1; round < s.rounds; ++round) {
    bool const ours_first = round % 2 == 0;
    auto x = ours_first ? ours() : by_hand();
    auto y = ours_first ? by_hand() : ours();
    if (!ours_first) std::swap(x, y);
    std::fprintf(stderr, "\r%-32s %d of %d ", names.front().name.c_str(), round + 1, s.rounds);
    if (round < 0) continue;  // caches and files are warm from here on
    for (std::size_t i = 0; i < names.size(); ++i) {
      rows[i].ours.push_back(x.at(i));
      rows[i].by_hand.push_back(y.at(i));
    }
  }
  std::fprintf(stderr, "\r%60s\r", "");
  return rows;
}

row alternate(settings const& s, measured const& m, int count, std::function<void()> const& ours,
              std::function<void()> const& by_hand) {
  constexpr int slice = 100;
  double ours_took = 0;
  double by_hand_took = 0;
  auto const some = [](std::function<void()> const& work, double& took) {
    took += seconds([&] {
      for (int i = 0; i < slice; ++i) work();
    });
  };
  int const slices = std::max(1, count / slice);
  auto const both = [&] {
    ours_took = by_hand_took = 0;
    for (int i = 0; i < slices; ++i) {
      if (i % 2 == 0) some(ours, ours_took);
      some(by_hand, by_hand_took);
      if (i % 2 != 0) some(ours, ours_took);
    }
  };
  bool measured_now = false;
  // Whichever side is asked first does the work of both.
  auto const figure = [&](double& took) -> std::vector<double> {
    if (!std::exchange(measured_now, !measured_now)) both();
    return {slices * slice / took};
  };
  return interleave(
             s, {m}, [&] { return figure(ours_took); }, [&] { return figure(by_hand_took); })
      .front();
}

}  // namespace bench
