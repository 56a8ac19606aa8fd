#include "config/text_forms.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <numeric>

namespace outbox::inline v0::configuration {
namespace {

struct unit {
  std::string_view name;
  std::uint64_t factor;
};
// From the largest to the smallest, so that the first that divides a duration is the one to write it in.
constexpr unit time_units[] = {{"d", 86'400'000}, {"h", 3'600'000}, {"min", 60'000}, {"s", 1000}, {"ms", 1}};
constexpr unit size_units[] = {{"GiB", 1U << 30U}, {"MiB", 1U << 20U}, {"KiB", 1U << 10U}};

// A number and one of the units, or the number alone.
template <std::size_t N>
std::optional<std::uint64_t> parse(std::string_view text, unit const (&units)[N]) noexcept {
  std::uint64_t n = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (problem != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  if (text.empty()) return n;
  auto const* const u = std::ranges::find(units, text, &unit::name);
  if (u == std::end(units) || n > std::numeric_limits<std::int64_t>::max() / u->factor) return std::nullopt;
  return n * u->factor;
}

// Insertions, deletions and replacements that turn one name into the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      auto const replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) noexcept {
  auto const n = parse(text, time_units);
  if (!n || *n > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
  return std::chrono::milliseconds{static_cast<std::int64_t>(*n)};
}

std::string duration_text(std::chrono::milliseconds d) {
  auto const n = static_cast<std::uint64_t>(d.count());
  if (n == 0) return "0";
  auto const* const u = std::ranges::find_if(time_units, [&](unit const& one) { return n % one.factor == 0; });
  return std::to_string(n / u->factor) + std::string{u->name};
}

std::optional<std::uint64_t> parse_size(std::string_view text) noexcept { return parse(text, size_units); }

std::optional<std::string> nearest(std::string_view name, std::vector<std::string> const& known) {
  std::optional<std::string> best;
  auto least = std::max<std::size_t>(2, name.size() / 2) + 1;
  for (auto const& k : known) {
    if (auto const d = distance(name, k); d < least) {
      least = d;
      best = k;
    }
  }
  return best;
}

namespace {

// Between the user and the host: "user:password@".
std::string without_users_password(std::string_view authority) {
  auto const at = authority.rfind('@');
  auto const colon = authority.find(':');
  if (at == std::string_view::npos || colon > at) return std::string{authority};
  return std::string{authority.substr(0, colon + 1)} + "***" + std::string{authority.substr(at)};
}

// The values of parameters such as password and sslpassword.
std::string without_password_parameters(std::string_view query) {
  std::string out;
  while (!query.empty()) {
    auto const end = std::min(query.find('&', 1), query.size());
    auto const one = query.substr(0, end);
    auto const equals = one.find('=');
    bool const secret = one.substr(0, equals).find("password") != std::string_view::npos;
    out +=
        secret && equals != std::string_view::npos ? std::string{one.substr(0, equals + 1)} + "***" : std::string{one};
    query.remove_prefix(end);
  }
  return out;
}

}  // namespace

// A text that is no URL may have its password anywhere. A password may have a question mark in it, so what comes before
// the last '@' belongs to the user.
std::string without_password(std::string_view url) {
  if (url.starts_with("sqlite:") || url.starts_with("memory:")) return std::string{url};
  auto const scheme = url.find("://");
  if (scheme == std::string_view::npos) return "***";
  auto const from = scheme + 3;
  auto const at = url.rfind('@');
  auto const question = std::min(url.find('?', at == std::string_view::npos ? from : at), url.size());
  return std::string{url.substr(0, from)} + without_users_password(url.substr(from, question - from)) +
         without_password_parameters(url.substr(question));
}

std::string without_query(std::string_view url) {
  auto const question = url.find('?');
  return std::string{url.substr(0, question)} + (question == std::string_view::npos ? "" : "?***");
}

}  // namespace outbox::inline v0::configuration
