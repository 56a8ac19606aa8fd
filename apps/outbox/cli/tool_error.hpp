// Why a verb ends: a sentence for people, what to do next, and a status for scripts.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "exit_status.hpp"

namespace outbox_tool {

class tool_error : public std::runtime_error {
 public:
  /// `hint` is what to do next, as a line of its own; it may be empty.
  tool_error(int status, std::string const& what, std::string hint = {})
      : std::runtime_error{what}, status_{status}, hint_{std::move(hint)} {}

  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] std::string const& hint() const noexcept { return hint_; }

 private:
  int status_;
  std::string hint_;
};

/// A wrong command line.
[[noreturn]] inline void refuse(std::string const& what, std::string hint = {}) {
  throw tool_error{exit_usage, what, std::move(hint)};
}

}  // namespace outbox_tool
