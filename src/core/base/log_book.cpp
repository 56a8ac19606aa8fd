#include "core/base/log_book.hpp"

#include <chrono>
#include <memory>
#include <utility>

namespace outbox::inline v0::core {
namespace {

constexpr std::chrono::seconds window{10};
constexpr unsigned lines_per_window = 10;
constexpr std::size_t most_kinds = 200;
constexpr std::size_t most_waiting = 1000;  // a log function that hangs must not fill the memory

}  // namespace

bool log_book::admit(std::string& text, std::string_view kind, steady_time now) {
  auto it = quotas_.find(kind);
  if (it == quotas_.end()) {
    if (quotas_.size() >= most_kinds)
      std::erase_if(quotas_, [&](auto const& q) { return now - q.second.since > window; });
    if (quotas_.size() >= most_kinds) quotas_.clear();
    it = quotas_.emplace(kind, quota{now, 0, 0}).first;
  }
  auto& q = it->second;
  if (now - q.since > window) {
    if (q.left_out > 0) text += " (" + std::to_string(q.left_out) + " lines like this one were left out)";
    q = {now, 0, 0};
  }
  if (q.said >= lines_per_window) {
    ++q.left_out;
    return false;
  }
  ++q.said;
  return true;
}

void log_book::say(log_level level, std::string_view text, std::string_view kind, steady_time now) noexcept {
  if (!to_) return;
  try {
    std::unique_lock lock{mutex_};
    std::string said{text};
    if (!admit(said, kind.empty() ? text : kind, now) || waiting_.size() >= most_waiting) return;
    waiting_.push_back({level, about_ + said});
    if (saying_) return;
    saying_ = true;
    while (!waiting_.empty()) {
      auto const next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      try {
        to_(next.level, next.text);
      } catch (...) {  // NOLINT(bugprone-empty-catch): a log that throws must not stop delivery
      }
      lock.lock();
    }
    saying_ = false;
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the line: delivery goes on without it
  }
}

log_function limited(log_function to, std::string about) {
  if (!to) return {};
  return [book = std::make_shared<log_book>(std::move(to), std::move(about))](log_level level, std::string_view text) {
    book->say(level, text, {}, std::chrono::steady_clock::now());
  };
}

}  // namespace outbox::inline v0::core
