// A walk over a table, in pages: a call ends soon, and the next one goes on from there.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <utility>

namespace outbox::inline v0::core {

/// `Position` is where a page begins; one that was default-constructed is the beginning of the table. A call that began
/// in the middle goes on from the beginning when it comes to the end: where there is little, each call sees all of it.
/// Thread-safe.
template <class Position>
class resumed_walk {
 public:
  static constexpr std::chrono::milliseconds longest{500};  ///< No page begins later.

  /// `page(at, most)` changes at most so many rows behind `at`, moves it, or puts it back to the beginning if there is
  /// no more, and returns how many it changed. If it throws, the next call goes on from where `at` is. Returns the
  /// number of rows that were changed; no page begins when these are `limit`.
  template <class F>
  std::size_t go_on(std::size_t limit, int most_pages, F&& page) {
    std::lock_guard const lock{mutex_};
    auto const until = std::chrono::steady_clock::now() + longest;
    bool from_beginning = at_ == Position{};
    std::size_t rows = 0;
    for (; most_pages > 0 && rows < limit && std::chrono::steady_clock::now() < until; --most_pages) {
      rows += page(at_, limit - rows);
      if (at_ == Position{} && std::exchange(from_beginning, true)) break;
    }
    return rows;
  }

 private:
  std::mutex mutex_;
  Position at_;
};

}  // namespace outbox::inline v0::core
