#include "core/base/log_book.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace outbox::inline v0::core {
namespace {

constexpr std::chrono::seconds window{10};
constexpr unsigned lines_per_window = 10;
constexpr std::size_t most_kinds = 200;
constexpr std::size_t most_waiting = 1000;  // a log function that hangs must not fill the memory

// Errors of databases have several lines, and reasons of listeners may have anything.
std::string one_line(std::string_view text) {
  std::string clean{text};
  std::ranges::replace_if(
      clean, [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, ' ');
  return clean;
}

}  // namespace

bool log_book::admit(line& one, std::string_view kind, steady_time now) {
  auto it = quotas_.find(kind);
  if (it == quotas_.end()) {
    if (quotas_.size() >= most_kinds)
      std::erase_if(quotas_, [&](auto const& q) { return now - q.second.since > window; });
    if (quotas_.size() >= most_kinds) quotas_.clear();
    it = quotas_.emplace(kind, quota{now, 0, 0}).first;
  }
  auto& q = it->second;
  if (now - q.since > window) {
    if (q.left_out > 0) {
      auto const number = std::to_string(q.left_out);
      one.text += " (" + number + " lines like this one were left out)";
      one.facts.push_back({"left_out", number});
    }
    q = {now, 0, 0};
  }
  if (q.said >= lines_per_window) {
    ++q.left_out;
    return false;
  }
  ++q.said;
  return true;
}

void log_book::say(log_level level, std::string_view text, std::string_view kind, steady_time now,
                   log_facts facts) noexcept {
  if (!to_) return;
  try {
    std::unique_lock lock{mutex_};
    line one{level, one_line(text), std::move(facts)};
    if (!admit(one, kind.empty() ? text : kind, now) || waiting_.size() >= most_waiting) return;
    waiting_.push_back(std::move(one));
    if (saying_) return;
    saying_ = true;
    while (!waiting_.empty()) {
      auto const next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      write(next);
      lock.lock();
    }
    saying_ = false;
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory for the line: delivery goes on without it
  }
}

void log_book::write(line const& one) const noexcept {
  try {
    std::vector<log_field> fields;
    fields.reserve(about_.size() + one.facts.size());
    for (auto const* facts : {&about_, &one.facts}) {
      for (auto const& f : *facts) fields.push_back({f.key, f.value});
    }
    to_({.level = one.level, .message = one.text, .source = source_, .fields = fields});
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log that throws must not stop delivery
  }
}

log_function limited(log_function to, std::string source, log_facts about) {
  if (!to) return {};
  auto const book = std::make_shared<log_book>(std::move(to), std::move(source), std::move(about));
  return [book](log_line const& line) {
    log_facts facts;
    for (auto const& f : line.fields) facts.push_back({f.key, std::string{f.value}});
    book->say(line.level, line.message, {}, std::chrono::steady_clock::now(), std::move(facts));
  };
}

}  // namespace outbox::inline v0::core
