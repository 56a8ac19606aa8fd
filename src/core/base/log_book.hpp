// A node's log: one line at a time, with the node's name in front, and no line too often.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <outbox/clock.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/log.hpp>
#include <string>
#include <string_view>

#include "core/base/log_facts.hpp"

namespace outbox::inline v0::core {

/// Thread-safe, and may be called from within the user's log function. A line that arrives while another thread is
/// logging waits, and that thread logs it too. So the user's function may call the node, and never runs twice at once.
class OUTBOX_CORE_EXPORT log_book {
 public:
  /// Every line has this source, and these fields before its own.
  log_book(log_function to, std::string source, log_facts about)
      : to_{std::move(to)}, source_{std::move(source)}, about_{std::move(about)} {}

  /// Lines of one kind are limited to a few in ten seconds. The first line after that says how many were left out. If
  /// `kind` is empty, the text is its own kind, so only repetitions are limited. Control characters become spaces.
  void say(log_level level, std::string_view text, std::string_view kind, steady_time now,
           log_facts facts = {}) noexcept;

 private:
  struct line {
    log_level level{};
    std::string text;
    log_facts facts;
  };
  struct quota {
    steady_time since{};
    unsigned said = 0;
    std::uint64_t left_out = 0;
  };

  [[nodiscard]] bool admit(line& one, std::string_view kind, steady_time now);
  void write(line const& one) const noexcept;

  log_function const to_;
  std::string const source_;
  log_facts const about_;
  std::mutex mutex_;
  bool saying_ = false;
  std::deque<line> waiting_;
  std::map<std::string, quota, std::less<>> quotas_;
};

/// The same as a `log_function`, for components that take one. Empty if `to` is empty.
[[nodiscard]] OUTBOX_CORE_EXPORT log_function limited(log_function to, std::string source, log_facts about);

}  // namespace outbox::inline v0::core
