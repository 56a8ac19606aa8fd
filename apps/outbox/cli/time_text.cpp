#include "cli/time_text.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <limits>

namespace outbox_tool {
namespace {

using namespace std::chrono;

std::string calendar(outbox::instant at, char const* form, bool fraction) {
  auto const day = floor<days>(at);
  year_month_day const date{day};
  hh_mm_ss const time{floor<microseconds>(at - day)};
  std::array<char, 48> text{};
  auto const written = std::snprintf(text.data(), text.size(), form, int{date.year()}, unsigned{date.month()},
                                     unsigned{date.day()}, static_cast<int>(time.hours().count()),
                                     static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
                                     fraction ? static_cast<int>(time.subseconds().count()) : 0);
  return {text.data(), static_cast<std::size_t>(written)};
}

std::string two(std::int64_t big, char const* unit, std::int64_t small, char const* part) {
  std::string text = std::to_string(big) + " " + unit;
  if (small > 0) text += (small < 10 ? " 0" : " ") + std::to_string(small) + " " + part;
  return text;
}

}  // namespace

std::string rfc3339(outbox::instant at) { return calendar(at, "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ", true); }

std::string clock_text(outbox::instant at) {
  auto text = calendar(at, "%04d-%02u-%02u %02d:%02d:%02d", false);
  return text + "Z";
}

std::string duration_text(microseconds d) {
  if (d < microseconds{0}) d = microseconds{0};
  if (d < seconds{10}) {
    auto const tenths = floor<milliseconds>(d).count() / 100;
    return std::to_string(tenths / 10) + (tenths % 10 == 0 ? "" : "." + std::to_string(tenths % 10)) + " s";
  }
  auto const s = floor<seconds>(d).count();
  if (s < 60) return std::to_string(s) + " s";
  if (s < 3600) return two(s / 60, "min", s % 60, "s");
  if (s < 86'400) return two(s / 3600, "h", s % 3600 / 60, "min");
  return two(s / 86'400, "d", s % 86'400 / 3600, "h");
}

std::string age_text(outbox::instant at, outbox::instant now) {
  return at > now ? "in " + duration_text(at - now) : duration_text(now - at) + " ago";
}

std::optional<milliseconds> parse_duration(std::string_view text) noexcept {
  struct unit {
    std::string_view name;
    std::int64_t milliseconds;
  };
  static constexpr std::array<unit, 5> units{
      {{"ms", 1}, {"s", 1000}, {"min", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}}};
  std::int64_t n = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (problem != std::errc{} || n < 0) return std::nullopt;
  std::string_view const rest{end, static_cast<std::size_t>(text.data() + text.size() - end)};
  constexpr std::int64_t longest = std::int64_t{36'500} * 86'400'000;
  for (auto const& u : units) {
    if (rest == u.name && n <= longest / u.milliseconds) return milliseconds{n * u.milliseconds};
  }
  return std::nullopt;
}

std::string number_text(std::uint64_t n) {
  auto text = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

}  // namespace outbox_tool
