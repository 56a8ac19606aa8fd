#include "report.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace bench {
namespace {

using json = nlohmann::ordered_json;

// One line: the figure as a bar, and a mark where it should end.
std::string line(row const& r) {
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

char const* word_of(bar const& b) { return b.what == bar::kind::at_least ? "at_least" : "at_most"; }

json json_of(row const& r) {
  json j;
  j["name"] = r.name;
  j["unit"] = r.unit;
  j["ours"] = median(r.ours);
  j["by_hand"] = r.compared() ? json(median(r.by_hand)) : json(nullptr);
  j["ratio"] = r.compared() ? json(r.figure()) : json(nullptr);
  j["rounds"] = r.ours.size();
  j["spread"] = r.spread();
  j["bar"] = r.target ? json{{word_of(*r.target), r.target->value}} : json(nullptr);
  j["within"] = r.target ? json(r.within()) : json(nullptr);
  j["reached"] = r.target ? json(r.reached()) : json(nullptr);
  j["each_round"] = {{"ours", r.ours}, {"by_hand", r.by_hand}};
  j["what"] = r.what;
  return j;
}

row row_of(json const& j) {
  row r;
  r.name = j.at("name");
  r.unit = j.at("unit");
  r.what = j.at("what");
  if (auto const& b = j.at("bar"); !b.is_null()) {
    bool const at_least_one = b.contains("at_least");
    r.target = at_least_one ? at_least(b["at_least"]) : at_most(b["at_most"]);
  }
  r.ours = j.at("each_round").at("ours").get<std::vector<double>>();
  r.by_hand = j.at("each_round").at("by_hand").get<std::vector<double>>();
  return r;
}

}  // namespace

std::string figure(double v) {
  char text[32];
  std::snprintf(text, sizeof text, v >= 1000 ? "%.0f" : v >= 10 ? "%.1f" : "%.3f", v);
  return text;
}

std::string verdict(row const& r) {
  if (!r.target) return "";
  auto const count = std::to_string(r.within()) + " of " + std::to_string(r.ours.size());
  return (r.target->what == bar::kind::at_least ? ">= " : "<= ") + figure(r.target->value) +
         (r.reached() ? " reached (" + count + ")" : " MISSED (" + count + " within)");
}

void print(report const& all) {
  std::printf("%-45s %10s %10s %-8s %7s %6s  %-24s  %s\n", "", "ours", "by hand", "", "ratio", "spread", "", "bar");
  for (auto const& r : all.rows) {
    std::printf("%-45s %10s %10s %-8s %7s %5.0f%%  %s  %s\n", r.name.c_str(), figure(median(r.ours)).c_str(),
                r.compared() ? figure(median(r.by_hand)).c_str() : "", r.unit.c_str(),
                r.compared() ? figure(r.figure()).c_str() : "", r.spread() * 100, line(r).c_str(), verdict(r).c_str());
  }
  std::printf(
      "\nMedians of the rounds; the ratio is that of the pairs. Spread: the middle half of the rounds lies within this "
      "share of the median. A bar is missed when more than three quarters of the rounds are beyond it.\n");
  for (auto const& r : all.rows) std::printf("  %s: %s\n", r.name.c_str(), r.what.c_str());
  for (auto const& [database, time] : all.seconds) std::printf("\n%s took %.0f s", database.c_str(), time);
}

void write_json(report const& r, std::string const& path) {
  json all;
  for (auto const& [name, value] : r.about) all["about"][name] = value;
  all["seconds"] = r.seconds;
  all["rows"] = json::array();
  for (auto const& one : r.rows) all["rows"].push_back(json_of(one));
  std::ofstream{path} << all.dump(2) << "\n";
}

report read_json(std::string const& path) {
  std::ifstream in{path};
  if (!in) throw std::runtime_error{"cannot read " + path};
  auto const all = json::parse(in);
  report r;
  for (auto const& [name, value] : all.at("about").items()) r.about.emplace_back(name, value);
  r.seconds = all.at("seconds").get<std::map<std::string, double>>();
  for (auto const& one : all.at("rows")) r.rows.push_back(row_of(one));
  return r;
}

}  // namespace bench
