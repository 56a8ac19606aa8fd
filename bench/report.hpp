// The table on the terminal, and report.json.
#pragma once

#include <string>
#include <vector>

#include "rounds.hpp"

namespace bench {

void print(std::vector<row> const& rows);
void write_json(std::vector<row> const& rows, std::string const& path);

}  // namespace bench
