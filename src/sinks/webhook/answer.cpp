#include "sinks/webhook/answer.hpp"

#include <curl/curl.h>
#include <strings.h>

#include <algorithm>
#include <charconv>

namespace outbox::inline v0::webhook {
namespace {

constexpr std::chrono::seconds shortest_wish{1}, longest_wish{std::chrono::hours{24}};

std::string_view trimmed(std::string_view text) noexcept {
  auto const first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<std::chrono::milliseconds> retry_after(std::string_view value, std::time_t now) {
  auto const text = trimmed(value);
  if (text.empty()) return std::nullopt;
  std::int64_t seconds = longest_wish.count();
  if (std::ranges::all_of(text, is_digit)) {
    std::from_chars(text.data(), text.data() + text.size(), seconds);  // a number that is too large changes nothing
  } else if (is_digit(text.front()) || text.front() == '-' || text.front() == '+') {
    return std::nullopt;  // libcurl would make a date of much; one of HTTP begins with the day's name
  } else {
    auto const then = curl_getdate(std::string{text}.c_str(), nullptr);
    if (then == -1) return std::nullopt;
    seconds = then - now;
  }
  return std::clamp(std::chrono::seconds{seconds}, shortest_wish, longest_wish);
}

void answer::header_line(std::string_view line) {
  if (line.starts_with("HTTP/")) {
    *this = {};
    auto const space = line.find(' ');
    if (space == std::string_view::npos) return;
    auto const code = trimmed(line.substr(space));
    std::from_chars(code.data(), code.data() + code.size(), status_);
    return;
  }
  auto const text = trimmed(line);
  constexpr std::string_view name = "retry-after:";
  if (text.empty()) {
    complete_ = status_ >= 200;  // what comes before is not the answer yet
  } else if (text.size() > name.size() && ::strncasecmp(text.data(), name.data(), name.size()) == 0) {
    wish_ = trimmed(text.substr(name.size()));
  }
}

bool answer::body(std::size_t bytes) noexcept {
  body_ += bytes;
  return body_ <= longest_body;
}

}  // namespace outbox::inline v0::webhook
