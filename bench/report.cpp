#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace bench {
namespace {

std::string figure(double v) {
  char text[32];
  std::snprintf(text, sizeof text, v >= 1000 ? "%.0f" : v >= 10 ? "%.1f" : "%.3f", v);
  return text;
}

// One line: the figure as a bar, and a mark where it should end.
std::string plot(row const& r) {
  constexpr int width = 24;
  auto const value = r.ratio.value_or(r.ours);
  auto const full = std::max({value, r.target.value * 1.25, 1e-9});
  auto const filled = static_cast<int>(value / full * width);
  auto const mark = std::min(width - 1, static_cast<int>(r.target.value / full * width));
  std::string text;
  for (int i = 0; i < width; ++i) text += i == mark ? "│" : i < filled ? "█" : "·";
  return text;
}

}  // namespace

void print(std::vector<row> const& rows) {
  std::printf("%-28s %12s %12s %-9s %7s %7s  %-24s  %s\n", "", "ours", "by hand", "", "ratio", "spread", "", "bar");
  for (auto const& r : rows) {
    std::printf("%-28s %12s %12s %-9s %7s %6.0f%%  %s  %s %s %s\n", r.name.c_str(), figure(r.ours).c_str(),
                r.by_hand ? figure(*r.by_hand).c_str() : "", r.unit.c_str(), r.ratio ? figure(*r.ratio).c_str() : "",
                r.spread * 100, plot(r).c_str(),
                r.target.what == bar::kind::at_least ? ">=" : "<=", figure(r.target.value).c_str(),
                r.reached() ? "reached" : "MISSED");
  }
  std::printf("\nMedians of the rounds; spread: the middle half of the rounds lies within this share of the median.\n");
  for (auto const& r : rows) std::printf("  %s: %s\n", r.name.c_str(), r.what.c_str());
}

void write_json(std::vector<row> const& rows, std::string const& path) {
  auto all = nlohmann::ordered_json::array();
  for (auto const& r : rows) {
    nlohmann::ordered_json j;
    j["name"] = r.name;
    j["unit"] = r.unit;
    j["ours"] = r.ours;
    j["by_hand"] = r.by_hand ? nlohmann::ordered_json(*r.by_hand) : nlohmann::ordered_json(nullptr);
    j["ratio"] = r.ratio ? nlohmann::ordered_json(*r.ratio) : nlohmann::ordered_json(nullptr);
    j["rounds"] = r.rounds;
    j["spread"] = r.spread;
    all.push_back(std::move(j));
  }
  std::ofstream{path} << all.dump(2) << "\n";
}

}  // namespace bench
