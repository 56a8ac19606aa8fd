// What a node logged, without the names of the node and its table.
#pragma once

#include <outbox/log.hpp>
#include <string>

namespace outbox {

/// "warning: the hot path is full" of a node's line.
[[nodiscard]] inline std::string without_source(log_line const& line) {
  return std::string{name(line.level)} + ": " + std::string{line.message};
}

}  // namespace outbox
