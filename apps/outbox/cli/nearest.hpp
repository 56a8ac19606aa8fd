// "Did you mean …?"
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outbox_tool {

/// The number of letters to insert, remove or replace until `a` is `b`.
[[nodiscard]] inline std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto corner = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      auto const replaced = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, corner + 1});
    }
  }
  return row.back();
}

/// The word that is most like this one, if one is: a third of its letters may differ.
[[nodiscard]] inline std::optional<std::string> nearest(std::string_view word, std::vector<std::string> const& known) {
  std::optional<std::string> best;
  auto least = word.size() / 3 + 2;
  for (auto const& k : known) {
    if (auto const n = edits_between(word, k); n < least) {
      least = n;
      best = k;
    }
  }
  return best;
}

}  // namespace outbox_tool
