// The table on the terminal, and report.json.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "rounds.hpp"

namespace bench {

struct report {
  std::vector<std::pair<std::string, std::string>> about;  ///< Where and when: machine, versions, date, commit.
  std::map<std::string, double> seconds;                   ///< What the rows of each database took.
  std::vector<row> rows;
};

void print(report const& r);
void write_json(report const& r, std::string const& path);
[[nodiscard]] report read_json(std::string const& path);

/// A number with as many digits as mean something.
[[nodiscard]] std::string figure(double v);

/// ">= 0.850 reached (8 of 9)" or "<= 2.000 MISSED (2 of 9 within)"; empty without a bar.
[[nodiscard]] std::string verdict(row const& r);

}  // namespace bench
