#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

#include "svg.hpp"

namespace bench {
namespace {

constexpr double names_end = 262, plot_begin = 272, plot_end = 672, notes_begin = 684, page_width = 990, step = 22;

bool is_latency(row const& r) {
  return r.name.find("latency") != std::string::npos || r.name.find("lateness") != std::string::npos ||
         r.name.find("first_event") != std::string::npos;
}

bool is(row const& r, bar::kind k) { return r.target && r.target->what == k; }

double milliseconds(row const& r, double v) { return r.unit == "us" ? v / 1000 : v; }

std::string short_name(row const& r) {
  return r.name.starts_with("rss") ? r.name : r.name.substr(r.name.find('.') + 1);
}

std::string digits(double v) {
  char text[32];
  std::snprintf(text, sizeof text, v >= 100 ? "%.0f" : "%.3g", v);
  return text;
}

// "0.93, bar 0.85, 9 of 9".
std::string note(row const& r) {
  auto text = digits(r.figure());
  if (!r.compared()) text += " " + r.unit;
  if (!r.target) return text;
  text += std::string{r.target->what == bar::kind::at_least ? ", at least " : ", at most "} + digits(r.target->value);
  return text + (r.reached() ? ": " : ": missed, ") + std::to_string(r.within()) + " of " +
         std::to_string(r.ours.size());
}

char const* colour(row const& r) { return !r.target ? "open" : r.reached() ? "held" : "beyond"; }

class picture {
 public:
  explicit picture(report const& r, std::string const& database) {
    out_.text(16, 30, "outbox on " + database + ": ours beside the same work by hand", "head");
    std::string where;
    for (auto const& [name, value] : r.about) where += (where.empty() ? "" : " · ") + name + " " + value;
    out_.text(16, 50, where, "faint");
    out_.text(
        16, 67,
        "On the right: the median, the bar, and how many rounds are within it. A bar is missed when more than three "
        "quarters of the rounds are beyond it.",
        "faint");
    y_ = 76;
  }

  // Ratios: a bar up to the median, a mark at the goal, a point per round.
  void ratios(std::string const& title, std::vector<row> const& rows) {
    if (rows.empty()) return;
    part(title);
    double largest = 1.5;
    for (auto const& r : rows) largest = std::max({largest, r.figure() * 1.05, r.target ? r.target->value * 1.1 : 0});
    largest = std::min(largest, 5.5);
    auto const at = [&](double v) { return plot_begin + std::min(v, largest) / largest * (plot_end - plot_begin); };
    auto const bottom = y_ + step * static_cast<double>(rows.size());
    for (double v = 0; v <= largest + 1e-9; v += largest > 2.5 ? 1.0 : 0.5) {
      out_.line(at(v), y_, at(v), bottom, v == 1 ? "same" : "grid");
      out_.text(at(v), bottom + 13, digits(v), "axis");
    }
    for (auto const& r : rows) {
      auto const middle = name_of(r);
      out_.box(plot_begin, middle - 6, at(r.figure()) - plot_begin, 12, colour(r));
      for (auto const v : r.judged()) out_.dot(at(v), middle, 2.2, "round", digits(v));
      if (r.target) out_.line(at(r.target->value), middle - 9, at(r.target->value), middle + 9, "goal");
      if (r.figure() > largest) out_.text(plot_end + 2, middle + 4, "›", "miss");
    }
    y_ += 22;
  }

  // Milliseconds on a logarithmic axis: filled points are ours, rings are by hand.
  void latencies(std::vector<row> const& rows) {
    if (rows.empty()) return;
    part("Latency in milliseconds, a point per round: filled are ours, rings by hand");
    constexpr double low = -3, high = 3;  // a microsecond to a second
    auto const at = [&](double ms) {
      auto const v = std::clamp(ms <= 0 ? low : std::log10(ms), low, high);
      return plot_begin + (v - low) / (high - low) * (plot_end - plot_begin);
    };
    auto const bottom = y_ + step * static_cast<double>(rows.size());
    for (int v = static_cast<int>(low); v <= static_cast<int>(high); ++v) {
      auto const x = at(std::pow(10.0, v));
      out_.line(x, y_, x, bottom, "grid");
      out_.text(x, bottom + 13, digits(std::pow(10.0, v)), "axis");
    }
    for (auto const& r : rows) {
      auto const middle = name_of(r, middle_note(r));
      for (auto const v : r.by_hand) out_.dot(at(milliseconds(r, v)), middle, 3.4, "other", digits(milliseconds(r, v)));
      for (auto const v : r.ours) out_.dot(at(milliseconds(r, v)), middle, 2.6, "round", digits(milliseconds(r, v)));
    }
    y_ += 22;
  }

  // Figures with units: the share of what the bar allows.
  void figures(std::vector<row> const& rows) {
    if (rows.empty()) return;
    part("Figures: the length is the share of what the bar allows");
    auto const top = y_;
    auto const at = [&](double share) { return plot_begin + std::min(share, 1.25) / 1.25 * (plot_end - plot_begin); };
    for (auto const& r : rows) {
      auto const middle = name_of(r);
      if (!r.target) continue;
      auto const share = [&](double v) { return r.target->value > 0 ? v / r.target->value : v > 0 ? 1.25 : 0; };
      out_.box(plot_begin, middle - 6, at(share(r.figure())) - plot_begin, 12, colour(r));
      for (auto const v : r.ours) out_.dot(at(share(v)), middle, 2.2, "round", digits(v));
    }
    out_.line(at(0), top, at(0), y_, "grid");
    out_.line(at(1), top, at(1), y_, "goal");
    y_ += 10;
  }

  [[nodiscard]] std::string finished(std::string const& title) const {
    return out_.finished(page_width, y_ + 12, title);
  }

 private:
  void part(std::string const& title) {
    out_.text(16, y_ + 20, title, "part");
    y_ += 30;
  }
  // The label on the left and the note on the right. Returns the middle of the line.
  double name_of(row const& r, std::string const& right = "") {
    auto const middle = y_ + step / 2;
    out_.text(names_end, middle + 4, short_name(r), "name");
    out_.text(notes_begin, middle + 4, right.empty() ? note(r) : right, r.reached() ? "faint" : "miss");
    y_ += step;
    return middle;
  }
  static std::string middle_note(row const& r) {
    auto const ours = digits(milliseconds(r, median(r.ours))) + " ms";
    return r.compared() ? ours + " beside " + digits(milliseconds(r, median(r.by_hand))) + " ms" : ours;
  }

  svg out_;
  double y_ = 0;
};

std::vector<row> those(std::vector<row> const& rows, std::function<bool(row const&)> const& wanted) {
  std::vector<row> some;
  std::ranges::copy_if(rows, std::back_inserter(some), wanted);
  return some;
}

std::string plot(report const& r, std::string const& database, std::vector<row> const& rows) {
  picture p{r, database};
  auto const less_is_better = [](row const& x) {
    return is_latency(x) || x.unit == "bytes" || is(x, bar::kind::at_most);
  };
  p.ratios("Rates, ours ÷ by hand: more is better",
           those(rows, [&](row const& x) { return x.compared() && !less_is_better(x); }));
  p.ratios("Costs and times, ours ÷ by hand: less is better",
           those(rows, [&](row const& x) { return x.compared() && less_is_better(x); }));
  p.latencies(those(rows, is_latency));
  p.figures(those(rows, [](row const& x) { return !x.compared() && !(is_latency(x) && !x.target); }));
  return p.finished("outbox on " + database + ": " + std::to_string(rows.size()) + " measured rows");
}

}  // namespace

std::vector<std::string> write_plots(report const& r, std::string const& directory) {
  std::filesystem::create_directories(directory);
  std::vector<std::string> paths;
  std::pair<std::string, std::string> const databases[] = {
      {"sqlite", "SQLite"}, {"postgres", "PostgreSQL"}, {"mysql", "MariaDB"}, {"redis", "Redis"}, {"kafka", "Kafka"}};
  for (auto const& [database, title] : databases) {
    auto const rows = those(r.rows, [&, &name = database](row const& x) {
      return x.name.starts_with(name + ".") || (name == "sqlite" && x.name.starts_with("rss."));
    });
    if (rows.empty()) continue;
    paths.push_back((std::filesystem::path{directory} / ("bench-" + database + ".svg")).string());
    std::ofstream{paths.back()} << plot(r, title, rows);
  }
  return paths;
}

}  // namespace bench
