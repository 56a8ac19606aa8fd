// Scripts that look at a part of the rows at a time, so that the server can serve others in between.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "redis/answer.hpp"

namespace outbox::inline v0::redis {

/// How many rows one script looks at: they take a few milliseconds.
inline constexpr std::size_t piece = 1000;

/// Calls `ask(rows to pass over)` until its answer says that there are no more: the number of rows that it changed, the
/// number to pass over next time, and 1 if there are more. Returns the number of rows changed in all.
template <class F>
std::size_t in_pieces(F&& ask) {
  std::size_t changed = 0;
  for (std::int64_t passed = 0;;) {
    auto const a = ask(passed);
    changed += static_cast<std::size_t>(std::max<std::int64_t>(0, a[0].number()));
    passed = a[1].number();
    if (a[2].number() != 1) return changed;
  }
}

}  // namespace outbox::inline v0::redis
