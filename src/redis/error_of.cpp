#include <algorithm>
#include <charconv>
#include <limits>

#include "core/base/text.hpp"
#include "redis/link.hpp"

namespace outbox::inline v0::redis {
namespace {

constexpr std::size_t longest_text = 300;  // some of them explain for a screen what the operator can do

std::string_view first_word(std::string_view text) noexcept { return text.substr(0, text.find(' ')); }

// What the server said. Before Redis 7.0 the error of a command within a script stands behind where it happened.
std::string_view said(std::string_view text) noexcept {
  if (!text.starts_with("ERR Error running script")) return text;
  auto const inner = text.find(": -");
  return inner == std::string_view::npos ? text : text.substr(inner + 3);
}

// Takes the next word from the front.
std::string_view take_word(std::string_view& text) noexcept {
  auto const word = first_word(text);
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

// The server starts, is full, has lost its primary, its replicas, its cluster or its disk, runs a long script, or
// is not the one that has the key (any more).
bool passes(std::string_view text) noexcept {
  static constexpr std::string_view codes[] = {"OOM",      "LOADING", "BUSY",       "MASTERDOWN",
                                               "READONLY", "MISCONF", "NOREPLICAS", "CLUSTERDOWN",
                                               "TRYAGAIN", "MOVED",   "ASK"};
  return std::ranges::find(codes, first_word(text)) != std::end(codes) || text.starts_with("ERR max number of clients");
}

}  // namespace

error error_of(answer_view a, std::string_view doing) {
  return error{passes(said(a.text())) ? errc::unavailable : errc::store_failure,
               std::string{doing} + ": " + core::scrub(a.text(), longest_text)};
}

bool leads_elsewhere(answer_view a) noexcept {
  static constexpr std::string_view codes[] = {"READONLY", "MASTERDOWN", "LOADING", "CLUSTERDOWN", "MOVED"};
  return a.failed() && std::ranges::find(codes, first_word(said(a.text()))) != std::end(codes);
}

// "MOVED 3999 127.0.0.1:6381", "MOVED 3999 ::1:6381" or "MOVED 3999 :6381". The host is "?" if the server does not know
// it.
std::unique_ptr<address> moved_to(answer_view a, address const& from) {
  auto rest = a.text();
  if (!a.failed() || take_word(rest) != "MOVED") return nullptr;
  take_word(rest);
  auto const place = take_word(rest);
  auto const colon = place.rfind(':');
  if (colon == std::string_view::npos) return nullptr;
  auto const host = place.substr(0, colon);
  auto const port = place.substr(colon + 1);
  auto to = std::make_unique<address>(from);
  auto const [end, code] = std::from_chars(port.data(), port.data() + port.size(), to->port);
  bool const is_port = code == std::errc{} && end == port.data() + port.size() && to->port > 0 && to->port <= 65'535;
  if (!is_port || host == "?") return nullptr;
  if (!host.empty()) to->host = host;
  to->socket.clear();
  return to;
}

}  // namespace outbox::inline v0::redis
