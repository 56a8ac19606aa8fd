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
  auto const value = r.figure();
  auto const goal = r.target ? r.target->value : 0;
  auto const full = std::max({value, goal * 1.25, 1e-9});
  auto const filled = static_cast<int>(value / full * width);
  auto const mark = r.target ? std::min(width - 1, static_cast<int>(goal / full * width)) : -1;
  std::string text;
  for (int i = 0; i < width; ++i) text += i == mark ? "│" : i < filled ? "█" : "·";
  return text;
}

// "reached (8 of 9)" or "MISSED (2 of 9 within)".
std::string verdict(row const& r) {
  if (!r.target) return "";
  auto const count = std::to_string(r.within()) + " of " + std::to_string(r.ours.size());
  return (r.target->what == bar::kind::at_least ? ">= " : "<= ") + figure(r.target->value) +
         (r.reached() ? " reached (" + count + ")" : " MISSED (" + count + " within)");
}

}  // namespace

void print(std::vector<row> const& rows) {
  std::printf("%-32s %12s %12s %-9s %7s %7s  %-24s  %s\n", "", "ours", "by hand", "", "ratio", "spread", "", "bar");
  for (auto const& r : rows) {
    std::printf("%-32s %12s %12s %-9s %7s %6.0f%%  %s  %s\n", r.name.c_str(), figure(median(r.ours)).c_str(),
                r.compared() ? figure(median(r.by_hand)).c_str() : "", r.unit.c_str(),
                r.compared() ? figure(r.figure()).c_str() : "", r.spread() * 100, plot(r).c_str(), verdict(r).c_str());
  }
  std::printf(
      "\nMedians of the rounds; the ratio is that of the pairs. Spread: the middle half of the rounds lies within this "
      "share of the median. A bar is missed when more than three quarters of the rounds are beyond it.\n");
  for (auto const& r : rows) std::printf("  %s: %s\n", r.name.c_str(), r.what.c_str());
}

void write_json(std::vector<row> const& rows, std::string const& path) {
  auto all = nlohmann::ordered_json::array();
  using json = nlohmann::ordered_json;
  for (auto const& r : rows) {
    json j;
    j["name"] = r.name;
    j["unit"] = r.unit;
    j["ours"] = median(r.ours);
    j["by_hand"] = r.compared() ? json(median(r.by_hand)) : json(nullptr);
    j["ratio"] = r.compared() ? json(r.figure()) : json(nullptr);
    j["rounds"] = r.ours.size();
    j["spread"] = r.spread();
    all.push_back(std::move(j));
  }
  std::ofstream{path} << all.dump(2) << "\n";
}

}  // namespace bench
