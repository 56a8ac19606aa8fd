#include "core/base/json_text.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/text.hpp"

namespace outbox::inline v0::core {
namespace {

// Which brackets are open: a bit each, true for an object.
class bracket_stack {
 public:
  void push(bool object) {
    if (depth_ < 64) {
      first_ = object ? first_ | (std::uint64_t{1} << depth_) : first_ & ~(std::uint64_t{1} << depth_);
    } else {
      rest_.push_back(object);
    }
    ++depth_;
  }
  void pop() {
    --depth_;
    if (depth_ >= 64) rest_.pop_back();
  }
  [[nodiscard]] bool top() const {
    return depth_ <= 64 ? ((first_ >> (depth_ - 1)) & 1U) != 0 : static_cast<bool>(rest_.back());
  }
  [[nodiscard]] std::size_t depth() const noexcept { return depth_; }

 private:
  std::uint64_t first_ = 0;
  std::vector<bool> rest_;
  std::size_t depth_ = 0;
};

// How many bytes at the beginning are ASCII characters that stand for themselves in a string. Most of a payload is
// inside of strings, so this looks at eight bytes at once; the last seven are left to the caller.
std::size_t plain_prefix(std::string_view text) noexcept {
  constexpr std::uint64_t ones = 0x0101010101010101U;
  constexpr std::uint64_t tops = ones << 7U;
  auto const zeros = [](std::uint64_t x) { return (x - ones) & ~x; };  // the top bit of the first byte that is 0
  std::size_t at = 0;
  for (std::uint64_t word = 0; text.size() - at >= sizeof word; at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    auto const special =
        tops & (zeros(word ^ (ones * '"')) | zeros(word ^ (ones * '\\')) | ((word - ones * 0x20) & ~word) | word);
    if (special == 0) continue;
    bool const first_is_lowest = std::endian::native == std::endian::little;
    return at + (first_is_lowest ? static_cast<std::size_t>(std::countr_zero(special)) / 8 : 0);
  }
  return at;
}

class scanner {
 public:
  explicit scanner(std::string_view text) noexcept
      : begin_{text.data()}, at_{text.data()}, end_{text.data() + text.size()} {}

  /// Where `run` stopped: if it failed, at what cannot be there.
  [[nodiscard]] std::size_t position() const noexcept { return static_cast<std::size_t>(at_ - begin_); }

  std::optional<std::size_t> run() {
    std::size_t deepest = 0;
    skip_space();
    while (true) {
      // Here a value begins.
      if (at_ == end_) return std::nullopt;
      char const c = *at_;
      if (c == '{' || c == '[') {
        ++at_;
        open_.push(c == '{');
        deepest = std::max(deepest, open_.depth());
        skip_space();
        if (!take(c == '{' ? '}' : ']')) {
          if (c == '{' && !name()) return std::nullopt;
          continue;
        }
        open_.pop();
      } else if (!scalar(c)) {
        return std::nullopt;
      }
      if (!after_value()) return std::nullopt;
      if (finished_) return deepest;
    }
  }

 private:
  // Closes what is closed; then the end, or a comma and whatever comes before the next value.
  bool after_value() {
    while (true) {
      skip_space();
      if (open_.depth() == 0) return finished_ = at_ == end_;
      if (at_ == end_) return false;
      bool const object = open_.top();
      if (take(object ? '}' : ']')) {
        open_.pop();
        continue;
      }
      if (!take(',')) return false;
      skip_space();
      return !object || name();
    }
  }

  bool name() {
    if (!take('"') || !string()) return false;
    skip_space();
    if (!take(':')) return false;
    skip_space();
    return true;
  }

  bool scalar(char c) {
    switch (c) {
      case '"': ++at_; return string();
      case 't': return word("true");
      case 'f': return word("false");
      case 'n': return word("null");
      default: return number();
    }
  }

  // After the opening quote.
  bool string() {
    while (true) {
      at_ += plain_prefix({at_, static_cast<std::size_t>(end_ - at_)});
      if (at_ == end_) return false;
      auto const c = static_cast<unsigned char>(*at_);
      if (c == '"') return ++at_, true;
      if (c < 0x20) return false;
      if (c == '\\') {
        auto const* const begin = at_++;
        if (escape()) continue;
        if (at_ != end_) at_ = begin;
        return false;
      }
      if (c < 0x80) {
        ++at_;
      } else {
        auto const length = character_at({at_, static_cast<std::size_t>(end_ - at_)}, 0);
        if (length == 0) return false;
        at_ += length;
      }
    }
  }

  bool escape() {
    if (at_ == end_) return false;
    switch (*at_) {
      case '"':
      case '\\':
      case '/':
      case 'b':
      case 'f':
      case 'n':
      case 'r':
      case 't': ++at_; return true;
      case 'u': ++at_; break;
      default: return false;
    }
    auto const unit = hex();
    if (!unit || (*unit >= 0xDC00 && *unit <= 0xDFFF)) return false;
    if (*unit < 0xD800 || *unit > 0xDBFF) return true;
    if (!take('\\') || !take('u')) return false;
    auto const low = hex();
    return low && *low >= 0xDC00 && *low <= 0xDFFF;
  }

  std::optional<unsigned> hex() noexcept {
    unsigned value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      if (at_ == end_) return std::nullopt;
      char const c = *at_;
      value <<= 4U;
      if (c >= '0' && c <= '9') {
        value |= static_cast<unsigned>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        value |= static_cast<unsigned>(c - 'a' + 10);
      } else if (c >= 'A' && c <= 'F') {
        value |= static_cast<unsigned>(c - 'A' + 10);
      } else {
        return std::nullopt;
      }
    }
    return value;
  }

  bool number() noexcept {
    take('-');
    if (!take('0') && !digits()) return false;
    if (take('.') && !digits()) return false;
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      ++at_;
      if (!take('+')) take('-');
      return digits();
    }
    return true;
  }

  bool digits() noexcept {
    auto const* const begin = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return at_ != begin;
  }

  bool word(std::string_view w) noexcept {
    if (std::string_view{at_, static_cast<std::size_t>(end_ - at_)}.substr(0, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }

  bool take(char c) noexcept {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }

  void skip_space() noexcept {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  char const* begin_;
  char const* at_;
  char const* end_;
  bracket_stack open_;
  bool finished_ = false;
};

}  // namespace

std::optional<std::size_t> json_depth(std::string_view text) { return scanner{text}.run(); }

std::string json_problem(std::string_view text) {
  scanner s{text};
  if (s.run()) return {};
  auto const at = s.position();
  if (at == text.size()) return "is not valid JSON: it ends too early, after " + std::to_string(at) + " bytes";
  if (character_at(text, at) == 0) return "is not valid UTF-8 at offset " + std::to_string(at);
  return "is not valid JSON at offset " + std::to_string(at);
}

}  // namespace outbox::inline v0::core
