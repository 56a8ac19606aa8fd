// What several error texts have in common.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace outbox_tool {

/// The text with "…" for ids: words of letters and digits with at least 16 characters and two digits, UUIDs, and
/// numbers of five digits or more. Shorter numbers stay, because 503 and 404 are not the same.
[[nodiscard]] inline std::string kind_of_error(std::string_view text) {
  auto const is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_'; };
  auto const is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::string kind;
  while (!text.empty()) {
    auto const length = static_cast<std::size_t>(std::ranges::find_if_not(text, is_word) - text.begin());
    if (length == 0) {
      kind += text.front();
      text.remove_prefix(1);
      continue;
    }
    auto const word = text.substr(0, length);
    auto const digits = std::ranges::count_if(word, is_digit);
    bool const number = digits >= 5 && static_cast<std::size_t>(digits) == word.size();
    bool const id = length >= 16 && digits >= 2;
    kind += number || id ? "…" : std::string{word};
    text.remove_prefix(length);
  }
  return kind;
}

}  // namespace outbox_tool
