#include "core/base/text.hpp"

#include <cstdint>
#include <cstring>

namespace outbox::inline v0::core {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

bool continues(std::string_view s, std::size_t at) noexcept {
  return at < s.size() && (static_cast<unsigned char>(s[at]) & 0xC0U) == 0x80U;
}

// How many bytes at the beginning are ASCII, in steps of eight until one is not.
std::size_t ascii_prefix(std::string_view s) noexcept {
  std::size_t at = 0;
  for (std::uint64_t word = 0; s.size() - at >= sizeof word; at += sizeof word) {
    std::memcpy(&word, s.data() + at, sizeof word);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  return at;
}

}  // namespace

// The table of well-formed byte sequences of the standard.
std::size_t character_at(std::string_view s, std::size_t at) noexcept {
  auto const lead = static_cast<unsigned char>(s[at]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  if (!continues(s, at + 1)) return 0;
  auto const second = static_cast<unsigned char>(s[at + 1]);
  if (lead < 0xE0) return 2;
  if (lead == 0xE0 && second < 0xA0) return 0;  // overlong
  if (lead == 0xED && second > 0x9F) return 0;  // surrogate
  if (lead == 0xF0 && second < 0x90) return 0;  // overlong
  if (lead == 0xF4 && second > 0x8F) return 0;  // past U+10FFFF
  if (!continues(s, at + 2)) return 0;
  if (lead < 0xF0) return 3;
  return continues(s, at + 3) ? 4 : 0;
}

std::optional<std::size_t> utf8_length(std::string_view s) noexcept {
  auto const plain = ascii_prefix(s);
  std::size_t characters = plain;
  for (std::size_t at = plain; at < s.size(); ++characters) {
    auto const length = character_at(s, at);
    if (length == 0) return std::nullopt;
    at += length;
  }
  return characters;
}

std::string scrub(std::string_view s, std::size_t max_characters) {
  std::string clean;
  std::size_t characters = 0;
  for (std::size_t at = 0; at < s.size() && characters < max_characters; ++characters) {
    auto const length = character_at(s, at);
    if (length == 0 || s[at] == '\0') {
      clean += replacement;
      at += 1;
    } else {
      clean += s.substr(at, length);
      at += length;
    }
  }
  return clean;
}

}  // namespace outbox::inline v0::core
