#include <algorithm>
#include <charconv>
#include <chrono>

#include "postgres/driver.hpp"

namespace outbox::inline v0::postgres {
namespace {

constexpr std::string_view not_shown =
    "the reason is not shown, because the URL has an '@' behind its '?' and the reason might quote a password: write "
    "%40 "
    "for it";

struct free_options {
  void operator()(PQconninfoOption* o) const noexcept { PQconninfoFree(o); }
};

// A connection string that is wrong is not shown: it is unknown which part of it is the password.
[[noreturn]] void refuse(char const* why) { throw error::about(errc::invalid_option, "connection", why); }

bool is_url(std::string_view text) noexcept {
  return text.starts_with("postgresql://") || text.starts_with("postgres://");
}

// Calls `f` with each element of a list such as "a,b".
template <class F>
void for_each_element(std::string_view list, F&& f) {
  while (true) {
    auto const end = std::min(list.find(','), list.size());
    f(list.substr(0, end));
    if (end == list.size()) return;
    list.remove_prefix(end + 1);
  }
}

bool is_port(std::string_view text) noexcept {
  auto const first = std::min(text.find_first_not_of(' '), text.size());
  text = text.substr(first, text.find_last_not_of(' ') + 1 - first);
  int port = 0;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  return text.empty() || (code == std::errc{} && end == text.data() + text.size() && port > 0 && port < 65'536);
}

// libpq looks for the end of the password before the first '/' only, and takes the first '@' for it. What is left of a
// password with one of them that is not escaped becomes a host, a port or the name of a database, which libpq and the
// server quote in their errors. False: the URL may be right, but so may be a reading in which what they would quote
// is part of the password.
bool check_url(std::string_view url) {
  auto const rest = url.substr(url.find("//") + 2);
  auto const slash = std::min(rest.find('/'), rest.size());
  auto const question = std::min(rest.find('?', slash), rest.size());
  bool const in_path = rest.substr(slash, question - slash).find('@') != std::string_view::npos;
  if (in_path || std::ranges::count(rest.substr(0, slash), '@') > 1) {
    refuse(
        "has an '@' in the name of its host or database: in a URL, write %40 for an '@' and %2F for a '/' in the "
        "password");
  }
  return rest.find('@', question) == std::string_view::npos;
}

// False: what libpq says about it must not be shown.
bool check_connection_string(std::string const& text) {
  std::unique_ptr<PQconninfoOption, free_options> const parsed{PQconninfoParse(text.c_str(), nullptr)};
  if (!parsed) refuse("is not a connection string that libpq can read");
  bool const clear = !is_url(text) || check_url(text);
  for (auto const* o = parsed.get(); o->keyword != nullptr; ++o) {
    if (o->val == nullptr) continue;
    std::string_view const name = o->keyword;
    std::string_view const value = o->val;
    if (name == "dbname" && is_url(value)) refuse("has a URL in dbname: pass the URL itself");
    for_each_element(value, [&](std::string_view one) {
      if (name == "port" && !is_port(one)) {
        refuse("has a port that is not a number from 1 to 65535: in a URL, write %2F for a '/' in the password");
      }
      // The first character may be an '@': that is an abstract socket.
      if (name == "host" && one.find('@', 1) != std::string_view::npos) {
        refuse("has an '@' in the name of its host: in a URL, write %40 for one in the password");
      }
    });
  }
  return clear;
}

// The SQLSTATEs in libpq's most verbose text, which is "FATAL:  28P01: password authentication failed …" in whatever
// language.
std::vector<std::string> states_in(std::string_view text) {
  static constexpr std::string_view before = ":  ";
  std::vector<std::string> found;
  for (auto at = text.find(before); at != std::string_view::npos; at = text.find(before, at + 1)) {
    auto const rest = text.substr(at + before.size());
    auto const letter = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); };
    if (rest.size() > 6 && std::ranges::all_of(rest.substr(0, 5), letter) && rest.substr(5, 2) == ": ") {
      found.emplace_back(rest.substr(0, 5));
    }
  }
  return found;
}

bool has_several_hosts(PGconn* c) {
  std::unique_ptr<PQconninfoOption, free_options> const used{PQconninfo(c)};
  for (auto const* o = used.get(); o != nullptr && o->keyword != nullptr; ++o) {
    std::string_view const name = o->keyword;
    if (o->val == nullptr || (name != "host" && name != "hostaddr")) continue;
    if (std::string_view{o->val}.find(',') != std::string_view::npos) return true;
  }
  return false;
}

// Why servers refused a connection, and whether they will go on doing so.
error refusal(PGconn* c, std::string const& why) {
  std::string_view const text = PQerrorMessage(c);
  auto const states = states_in(text);
  if (states.empty()) return error{errc::unavailable, why};
  auto const passes = [&](std::string const& state) { return error_with(state, why).transient(); };
  // Of several hosts libpq tries one after the other; one that could not be asked may accept it later.
  bool const others = has_several_hosts(c) && states_in(text.substr(0, text.find('\n'))).empty();
  bool const may_pass = others || std::ranges::any_of(states, passes);
  return error{may_pass ? errc::unavailable : errc::store_failure, why + " (SQLSTATE " + states.back() + ")",
               states.back()};
}

// A server says by a SQLSTATE why it refuses a connection. libpq shows it only in its most verbose text; the functions
// that connect step by step, for which that can be set beforehand, know neither connect_timeout nor the way from a host
// that says nothing to the next one. So after a refusal, and only then, the same is tried once more. It may succeed.
// Throws why it does not.
void connect_again(PGconn* c, std::string const& why) {
  PQsetErrorVerbosity(c, PQERRORS_VERBOSE);
  PQreset(c);
  PQsetErrorVerbosity(c, PQERRORS_DEFAULT);
  if (PQstatus(c) != CONNECTION_OK) throw refusal(c, why);
}

}  // namespace

handle connect(std::string const& connection_string, milliseconds timeout) {
  bool const clear = check_connection_string(connection_string);
  auto const limit = std::to_string(std::max<std::int64_t>(2, timeout.count() / 1000));
  auto const unanswered = std::to_string(timeout.count());
  // What stands before the string is a default that it may change; what stands behind it is not for changing.
  char const* const names[] = {"connect_timeout",  "keepalives_idle",  "keepalives_interval",
                               "keepalives_count", "tcp_user_timeout", "fallback_application_name",
                               "dbname",           "client_encoding",  nullptr};
  char const* const values[] = {
      limit.c_str(), "15", "5", "3", unanswered.c_str(), "outbox", connection_string.c_str(), "UTF8", nullptr};
  auto const began = std::chrono::steady_clock::now();
  handle c{PQconnectdbParams(names, values, /*expand_dbname=*/1)};
  if (!c) throw error{errc::unavailable, "cannot connect to PostgreSQL: out of memory"};
  if (PQstatus(c.get()) != CONNECTION_OK) {
    auto const said = one_line(PQerrorMessage(c.get()));
    auto const why = "cannot connect to PostgreSQL: " + (clear ? said : std::string{not_shown});
    if (PQconnectionNeedsPassword(c.get()) != 0) throw error{errc::store_failure, why};
    bool const by_server = said.find(":  ") != std::string::npos;  // libpq's own texts have one space
    bool const soon = std::chrono::steady_clock::now() - began < timeout / 2;
    if (!by_server || !soon) throw error{errc::unavailable, why};
    connect_again(c.get(), why);
  }
  PQsetNoticeProcessor(
      c.get(), [](void*, char const*) {}, nullptr);
  return c;
}

}  // namespace outbox::inline v0::postgres
