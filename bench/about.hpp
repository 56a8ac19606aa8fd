// Where and when a run was made.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rounds.hpp"

namespace bench {

/// `with_postgres`: asks the benchmark's server for its version.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> about_this_run(settings const& s, bool with_postgres);

}  // namespace bench
