// What a node logged, without the names of the node and its table.
#pragma once

#include <outbox/log.hpp>
#include <string>
#include <string_view>

namespace outbox {

/// "warning: the hot path is full" of "node 'n' on t: the hot path is full".
[[nodiscard]] inline std::string log_line(log_level level, std::string_view text) {
  if (auto const end = text.find(": "); text.starts_with("node '") && end != std::string_view::npos) {
    text.remove_prefix(end + 2);
  }
  return std::string{name(level)} + ": " + std::string{text};
}

}  // namespace outbox
