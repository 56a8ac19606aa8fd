// Scripts that look at a part of the rows at a time, so that the server can serve others in between.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "redis/answer.hpp"

namespace outbox::inline v0::redis {

/// How many rows one script looks at: they take a few milliseconds.
inline constexpr std::size_t piece = 1000;

/// Calls `ask(last, score)` until its answer says that there are no more: the number of rows that it changed, the last
/// row that it looked at and its score, which the next call gets, and 1 if there are more. Returns the number of rows
/// changed in all.
template <class F>
std::size_t in_pieces(F&& ask) {
  std::size_t changed = 0;
  std::string last;
  std::string score;
  while (true) {
    auto const a = ask(last, score);
    changed += static_cast<std::size_t>(std::max<std::int64_t>(0, a[0].number()));
    last = a[1].text();
    score = a[2].text();
    if (a[3].number() != 1) return changed;
  }
}

}  // namespace outbox::inline v0::redis
