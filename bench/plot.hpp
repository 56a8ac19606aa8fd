// Pictures of a report: one SVG per database.
#pragma once

#include <string>
#include <vector>

#include "report.hpp"

namespace bench {

/// Writes bench-sqlite.svg and bench-postgres.svg into `directory`, those of which the report has rows. Returns their
/// paths.
std::vector<std::string> write_plots(report const& r, std::string const& directory);

}  // namespace bench
