#include "cli/store_url.hpp"

#include <algorithm>
#include <charconv>

#include "cli/tool_error.hpp"

namespace outbox_tool {
namespace {

constexpr std::string_view own_prefix = "outbox.";

database_kind kind_of(std::string_view scheme, std::string const& purpose) {
  if (scheme == "sqlite") return database_kind::sqlite;
  if (scheme == "postgresql" || scheme == "postgres") return database_kind::postgres;
  if (scheme == "mysql" || scheme == "mariadb") return database_kind::mysql;
  if (scheme == "redis" || scheme == "rediss") return database_kind::redis;
  if (scheme == "memory") {
    refuse("memory: is no database: it ends with its process, and " + purpose + " has nothing to do there",
           "Name one with sqlite:FILE, postgresql://…, mysql://… or redis://…");
  }
  // What stands there is not shown: it may be a part of a password.
  refuse("the URL has no scheme that this tool knows", "Write sqlite:FILE, postgresql://…, mysql://… or redis://…");
}

// "%41" is A. What is no such code stays as it is: the client library complains about it.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char code = 0;
    auto const digits = text.substr(i + 1, 2);
    auto const* const end = digits.data() + digits.size();
    if (text[i] == '%' && digits.size() == 2 && std::from_chars(digits.data(), end, code, 16).ptr == end) {
      plain += static_cast<char>(code);
      i += 2;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

}  // namespace

store_url store_url::parse(std::string_view url, std::string const& purpose) {
  auto const colon = url.find(':');
  store_url u;
  u.kind = kind_of(colon == std::string_view::npos ? "" : url.substr(0, colon), purpose);
  bool const server = u.kind != database_kind::sqlite;
  auto const question = std::min(url.find('?'), url.size());
  u.connection = server ? url.substr(0, question) : url.substr(colon + 1, question - colon - 1);
  if (!server && u.connection.starts_with("//")) u.connection.erase(0, 2);  // as open_store does
  auto query = url.substr(std::min(question + 1, url.size()));
  char separator = '?';
  while (!query.empty()) {
    auto const end = std::min(query.find('&'), query.size());
    auto const one = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    auto const equals = std::min(one.find('='), one.size());
    auto const name = one.substr(0, equals);
    auto const value = one.substr(std::min(equals + 1, one.size()));
    if (!server) {
      u.ours.emplace(name, value);
    } else if (name.starts_with(own_prefix)) {
      u.ours.emplace(name.substr(own_prefix.size()), value);
    } else {
      u.connection += separator + std::string{one};
      separator = '&';
    }
  }
  return u;
}

std::string store_url::parameter(std::string_view name, std::string const& otherwise) const {
  auto const found = ours.find(name);
  return found == ours.end() ? otherwise : found->second;
}

std::string store_url::text() const {
  bool const server = kind != database_kind::sqlite;
  auto all = (server ? "" : "sqlite:") + connection;
  char separator = connection.find('?') == std::string::npos ? '?' : '&';
  for (auto const& [name, value] : ours) {
    all += separator + (server ? std::string{own_prefix} : "") + name + "=" + value;
    separator = '&';
  }
  return all;
}

std::string store_url::database_in_path() const {
  std::string_view rest = connection;
  rest = rest.substr(0, rest.find('?'));
  rest.remove_prefix(std::min(rest.find("://") + 3, rest.size()));
  auto const slash = rest.find('/');
  return slash == std::string_view::npos ? "" : decoded(rest.substr(slash + 1));
}

std::string store_url::outbox_name() const { return decoded(parameter("name", "outbox")); }

}  // namespace outbox_tool
