// Marks in statement texts, such as {id} and [rows], and what they stand for.
#pragma once

#include <string>
#include <string_view>

namespace outbox::inline v0::sql {

/// Puts `by` in the place of every `mark`.
inline void replace_all(std::string& text, std::string_view mark, std::string_view by) {
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at + by.size())) {
    text.replace(at, mark.size(), by);
  }
}

}  // namespace outbox::inline v0::sql
