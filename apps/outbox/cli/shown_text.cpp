#include "cli/shown_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cwchar>

namespace outbox_tool {
namespace {

struct character {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0: the next byte is not the beginning of a character in UTF-8.
};

character first_of(std::string_view text) {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  std::size_t const length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
  if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return {};
  char32_t code = byte(0) & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {};
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  bool const overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  if (overlong || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, length};
}

struct range {
  char32_t first, last;
};

// Control characters, marks of direction, and what takes no space but is not a combining mark.
constexpr std::array<range, 12> hidden{{{0x00, 0x1F},
                                        {0x7F, 0x9F},
                                        {0xAD, 0xAD},
                                        {0x061C, 0x061C},
                                        {0x180E, 0x180E},
                                        {0x200B, 0x200F},
                                        {0x2028, 0x202E},
                                        {0x2060, 0x206F},
                                        {0xFEFF, 0xFEFF},
                                        {0xFFF9, 0xFFFB},
                                        {0xE0000, 0xE007F},
                                        {0x10FFFE, 0x10FFFF}}};

bool is_hidden(char32_t c) {
  return std::ranges::any_of(hidden, [&](range const& r) { return c >= r.first && c <= r.last; });
}

std::string hexadecimal(std::uint32_t n, std::size_t least) {
  std::array<char, 8> digits{};
  auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), n, 16).ptr;
  std::string text(digits.data(), end);
  return std::string(least > text.size() ? least - text.size() : 0, '0') + text;
}

}  // namespace

std::string shown(std::string_view text, bool keep_lines) {
  std::string result;
  while (!text.empty()) {
    auto const [code, bytes] = first_of(text);
    auto const taken = std::max<std::size_t>(bytes, 1);
    if (bytes == 0) {
      result += "\\x" + hexadecimal(static_cast<unsigned char>(text.front()), 2);
    } else if (code == '\\') {
      result += "\\\\";
    } else if (code == '\n') {
      result += keep_lines ? "\n" : "\\n";
    } else if (code == '\t') {
      result += "\\t";
    } else if (code == '\r') {
      result += "\\r";
    } else if (is_hidden(code)) {
      result += "\\u{" + hexadecimal(code, 1) + "}";
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(taken);
  }
  return result;
}

std::size_t width_of(std::string_view shown) {
  std::size_t columns = 0;
  while (!shown.empty()) {
    auto const [code, bytes] = first_of(shown);
    columns += bytes == 0 ? 1 : static_cast<std::size_t>(std::max(0, ::wcwidth(static_cast<wchar_t>(code))));
    shown.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return columns;
}

std::string cut(std::string_view shown, std::size_t columns) {
  if (width_of(shown) <= columns) return std::string{shown};
  std::string result;
  std::size_t used = 0;
  while (!shown.empty()) {
    auto const bytes = std::max<std::size_t>(first_of(shown).bytes, 1);
    auto const one = shown.substr(0, bytes);
    if (used + width_of(one) + 1 > columns) break;
    used += width_of(one);
    result += one;
    shown.remove_prefix(bytes);
  }
  return result + (columns > 0 ? "…" : "");
}

}  // namespace outbox_tool
