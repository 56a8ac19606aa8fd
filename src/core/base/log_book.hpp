// What a node says to its log: one line at a time, with the node's name in front, and no line too often.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <outbox/clock.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/log.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::core {

/// Safe to call from several threads, and from within the user's log function: a line that comes while another one is
/// being said waits, and whoever says that one says it too. So the user's function may call the node, and never runs
/// twice at once.
class OUTBOX_CORE_EXPORT log_book {
 public:
  /// `about` stands before every line.
  log_book(log_function to, std::string about) : to_{std::move(to)}, about_{std::move(about)} {}

  /// Lines of one kind are limited to a few in ten seconds; the next one after that says how many were left out. An
  /// empty kind: the text itself, so that only repetitions are.
  void say(log_level level, std::string_view text, std::string_view kind, steady_time now) noexcept;

 private:
  struct line {
    log_level level{};
    std::string text;
  };
  struct quota {
    steady_time since{};
    unsigned said = 0;
    std::uint64_t left_out = 0;
  };

  [[nodiscard]] bool admit(std::string& text, std::string_view kind, steady_time now);

  log_function const to_;
  std::string const about_;
  std::mutex mutex_;
  bool saying_ = false;
  std::deque<line> waiting_;
  std::map<std::string, quota, std::less<>> quotas_;
};

/// The same as a function, for whoever is given one. Empty if `to` is.
[[nodiscard]] OUTBOX_CORE_EXPORT log_function limited(log_function to, std::string about);

}  // namespace outbox::inline v0::core
