#include "sql/instant_text.hpp"

#include <algorithm>

#include "core/base/instants.hpp"

namespace outbox::inline v0::sql {
namespace {

using namespace std::chrono;

void put(char* at, int digits, std::int64_t value) noexcept {
  for (int i = digits - 1; i >= 0; --i) {
    at[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
}

// Reads exactly `digits` digits.
std::optional<int> take(std::string_view& text, std::size_t digits) noexcept {
  if (text.size() < digits) return std::nullopt;
  int value = 0;
  for (char const c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool skip(std::string_view& text, std::string_view any_of) noexcept {
  if (text.empty() || any_of.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

std::int64_t take_fraction(std::string_view& text) noexcept {
  std::int64_t micros = 0;
  std::int64_t unit = 100'000;
  while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
    micros += unit * (text.front() - '0');
    unit /= 10;
    text.remove_prefix(1);
  }
  return micros;
}

// Reads what follows the time: nothing, Z, UTC or an offset.
std::optional<minutes> take_offset(std::string_view text) noexcept {
  skip(text, " ");
  if (text.empty() || text == "Z" || text == "z" || text == "UTC") return minutes{0};
  bool const ahead = text.front() == '+';
  if (!skip(text, "+-")) return std::nullopt;
  auto const h = take(text, 2);
  skip(text, ":");
  auto const m = text.empty() ? std::optional{0} : take(text, 2);
  if (!h || !m || !text.empty()) return std::nullopt;
  return minutes{(*h * 60 + *m) * (ahead ? 1 : -1)};
}

// The form that this library writes, which nearly every instant in a table has: it needs no search for what may be
// there. Nothing for any other text.
std::optional<instant> parse_own_form(std::string_view text) noexcept {
  constexpr std::string_view form = "0000-00-00 00:00:00.000000";
  if (text.size() != form.size()) return std::nullopt;
  bool good = true;
  for (std::size_t i = 0; i < form.size(); ++i) {
    good &= form[i] == '0' ? static_cast<unsigned char>(text[i] - '0') < 10 : text[i] == form[i];
  }
  if (!good) return std::nullopt;
  auto const number = [&](std::size_t at, std::size_t digits) {
    int value = 0;
    for (auto i = at; i < at + digits; ++i) value = value * 10 + (text[i] - '0');
    return value;
  };
  year_month_day const date{year{number(0, 4)}, month{static_cast<unsigned>(number(5, 2))},
                            day{static_cast<unsigned>(number(8, 2))}};
  int const hour = number(11, 2);
  int const minute = number(14, 2);
  int const second = number(17, 2);
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return instant{sys_days{date}} + hours{hour} + minutes{minute} + seconds{second} + microseconds{number(20, 6)};
}

}  // namespace

instant_text::instant_text(instant t) noexcept {
  t = std::clamp(t, core::first_instant, core::last_instant);  // no event has an instant outside of these
  auto const day = floor<days>(t);
  year_month_day const date{day};
  hh_mm_ss const time{t - day};
  std::copy_n("0000-00-00 00:00:00.000000", text_.size(), text_.begin());
  put(&text_[0], 4, static_cast<int>(date.year()));
  put(&text_[5], 2, static_cast<unsigned>(date.month()));
  put(&text_[8], 2, static_cast<unsigned>(date.day()));
  put(&text_[11], 2, time.hours().count());
  put(&text_[14], 2, time.minutes().count());
  put(&text_[17], 2, time.seconds().count());
  put(&text_[20], 6, time.subseconds().count());
}

std::optional<instant> parse_instant(std::string_view text) noexcept {
  if (text.empty()) return std::nullopt;
  if (auto const own = parse_own_form(text)) return own;
  auto const y = take(text, 4);
  if (!y || !skip(text, "-")) return std::nullopt;
  auto const m = take(text, 2);
  if (!m || !skip(text, "-")) return std::nullopt;
  auto const d = take(text, 2);
  if (!d) return std::nullopt;
  year_month_day const date{year{*y}, month{static_cast<unsigned>(*m)}, day{static_cast<unsigned>(*d)}};
  if (!date.ok()) return std::nullopt;
  instant const midnight{sys_days{date}};
  if (text.empty()) return midnight;
  if (!skip(text, " Tt")) return std::nullopt;
  auto const hour = take(text, 2);
  if (!hour || !skip(text, ":")) return std::nullopt;
  auto const minute = take(text, 2);
  if (!minute) return std::nullopt;
  std::optional<int> second = 0;
  if (skip(text, ":")) second = take(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  std::int64_t const fraction = skip(text, ".") ? take_fraction(text) : 0;
  auto const offset = take_offset(text);
  if (!offset) return std::nullopt;
  return midnight + hours{*hour} + minutes{*minute} + seconds{*second} + microseconds{fraction} - *offset;
}

}  // namespace outbox::inline v0::sql
