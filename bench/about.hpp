// Where and when a run was made.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rounds.hpp"

namespace bench {

/// The servers that the run has started: they are asked for their versions.
struct servers_used {
  bool postgres = false, mysql = false, redis = false;
};

[[nodiscard]] std::vector<std::pair<std::string, std::string>> about_this_run(settings const& s, servers_used used);

}  // namespace bench
