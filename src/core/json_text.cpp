#include "core/json_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace outbox::inline v0::core {

bool is_json(std::string_view text) {
  // The parser takes NUL for the end of its input and skips a byte order mark; databases do neither.
  if (text.find('\0') != std::string_view::npos) return false;
  if (text.starts_with("\xEF\xBB\xBF")) return false;
  return nlohmann::json::accept(text);
}

std::size_t json_depth(std::string_view text) noexcept {
  std::size_t depth = 0;
  std::size_t deepest = 0;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char const c = text[at];
    if (in_string) {
      if (c == '\\') ++at;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

}  // namespace outbox::inline v0::core
