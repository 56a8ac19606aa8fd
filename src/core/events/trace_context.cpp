// W3C Trace Context: https://www.w3.org/TR/trace-context/.
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <outbox/trace.hpp>
#include <system_error>
#include <vector>

namespace outbox::inline v0 {
namespace {

// "00-", the trace id, "-", the span id, "-", the flags.
constexpr std::size_t trace_at = 3, trace_size = 32, span_at = 36, span_size = 16, flags_at = 53, whole_size = 55;

constexpr std::size_t most_members = 32;
constexpr std::size_t longest_state = 512;
constexpr std::size_t long_member = 128;

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_small(char c) noexcept { return c >= 'a' && c <= 'z'; }
bool is_hex(char c) noexcept { return is_digit(c) || (c >= 'a' && c <= 'f'); }
unsigned value_of(char c) noexcept { return static_cast<unsigned>(is_digit(c) ? c - '0' : c - 'a' + 10); }

bool is_id(std::string_view text) noexcept {
  return std::ranges::all_of(text, is_hex) && std::ranges::any_of(text, [](char c) { return c != '0'; });
}

// A later version may have more fields behind the last one that we know.
bool is_parent(std::string_view p) noexcept {
  if (p.size() < whole_size || !is_hex(p[0]) || !is_hex(p[1]) || p.starts_with("ff")) return false;
  if (p.size() > whole_size && (p.starts_with("00") || p[whole_size] != '-')) return false;
  return p[2] == '-' && p[span_at - 1] == '-' && p[flags_at - 1] == '-' && is_id(p.substr(trace_at, trace_size)) &&
         is_id(p.substr(span_at, span_size)) && is_hex(p[flags_at]) && is_hex(p[flags_at + 1]);
}

bool is_part_of_key(char c) noexcept {
  return is_small(c) || is_digit(c) || c == '_' || c == '-' || c == '*' || c == '/';
}

// "vendor", or "tenant@vendor".
bool is_key(std::string_view key) noexcept {
  auto const at = key.find('@');
  bool const tenant = at != std::string_view::npos;
  auto const first = key.substr(0, at);
  if (first.empty() || !std::ranges::all_of(first, is_part_of_key)) return false;
  if (!tenant) return is_small(first.front()) && first.size() <= 256;
  auto const vendor = key.substr(at + 1);
  return (is_small(first.front()) || is_digit(first.front())) && first.size() <= 241 && !vendor.empty() &&
         is_small(vendor.front()) && vendor.size() <= 14 && std::ranges::all_of(vendor, is_part_of_key);
}

bool is_member(std::string_view member) noexcept {
  auto const at = member.find('=');
  if (at == std::string_view::npos || !is_key(member.substr(0, at))) return false;
  auto const value = member.substr(at + 1);
  return !value.empty() && value.size() <= 256 && value.back() != ' ' &&
         std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view blank = " \t";
  auto const begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

using member_list = std::vector<std::string_view>;

// Nothing if it is not valid as a whole. Empty members are allowed, and mean nothing.
std::optional<member_list> members_of(std::string_view state) {
  member_list all;
  while (!state.empty()) {
    auto const comma = state.find(',');
    auto const member = trimmed(state.substr(0, comma));
    state = comma == std::string_view::npos ? std::string_view{} : state.substr(comma + 1);
    if (member.empty()) continue;
    if (!is_member(member) || all.size() == most_members) return std::nullopt;
    all.push_back(member);
  }
  return all;
}

std::size_t size_of(member_list const& all) noexcept {
  std::size_t size = all.empty() ? 0 : all.size() - 1;  // the commas
  for (auto const m : all) size += m.size();
  return size;
}

// The order in which the specification lets members go.
void shorten(member_list& all) {
  for (std::size_t i = all.size(); i-- > 0 && size_of(all) > longest_state;) {
    if (all[i].size() > long_member) all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
  }
  while (size_of(all) > longest_state) all.pop_back();
}

std::string valid_state(std::string_view state) {
  auto all = members_of(state);
  if (!all) return {};
  shorten(*all);
  std::string text;
  for (auto const m : *all) (text += text.empty() ? "" : ",") += m;
  return text;
}

// From the system each time: a forked child must not go on with the ids of its parent.
std::string random_id(std::size_t digits) {
  static constexpr char hex[] = "0123456789abcdef";
  unsigned char bytes[trace_size / 2];
  std::string id;
  do {
    while (::getrandom(bytes, digits / 2, 0) != static_cast<ssize_t>(digits / 2)) {
      if (errno != EINTR) throw std::system_error{errno, std::generic_category(), "getrandom"};
    }
    id.clear();
    for (std::size_t i = 0; i < digits / 2; ++i) (id += hex[bytes[i] >> 4U]) += hex[bytes[i] & 15U];
  } while (!is_id(id));
  return id;
}

}  // namespace

trace_context::trace_context(std::string_view trace_id, std::string_view span_id, char flags,
                             std::string state) noexcept
    : state_{std::move(state)} {
  parent_.fill('-');
  parent_[0] = parent_[1] = parent_[flags_at] = '0';
  std::ranges::copy(trace_id, parent_.begin() + trace_at);
  std::ranges::copy(span_id, parent_.begin() + span_at);
  parent_[flags_at + 1] = flags;
}

std::optional<trace_context> trace_context::parse(std::string_view traceparent, std::string_view tracestate) {
  if (!is_parent(traceparent)) return std::nullopt;
  // Flags that this version does not know are not passed on: 1 is "sampled", 2 "the trace id is random".
  auto const flags = static_cast<char>('0' + (value_of(traceparent[flags_at + 1]) & 3U));
  return trace_context{traceparent.substr(trace_at, trace_size), traceparent.substr(span_at, span_size), flags,
                       valid_state(tracestate)};
}

trace_context trace_context::start(bool sampled) {
  return {random_id(trace_size), random_id(span_size), sampled ? '3' : '2', {}};
}

trace_context trace_context::child() const { return {trace_id(), random_id(span_size), parent_[flags_at + 1], state_}; }

std::string trace_context::traceparent() const { return {parent_.data(), parent_.size()}; }
std::string_view trace_context::trace_id() const noexcept { return {parent_.data() + trace_at, trace_size}; }
std::string_view trace_context::span_id() const noexcept { return {parent_.data() + span_at, span_size}; }
bool trace_context::sampled() const noexcept { return (value_of(parent_[flags_at + 1]) & 1U) != 0; }

}  // namespace outbox::inline v0
