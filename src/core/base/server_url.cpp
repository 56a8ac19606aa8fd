#include "core/base/server_url.hpp"

#include <algorithm>
#include <charconv>
#include <outbox/error.hpp>

namespace outbox::inline v0::core {
namespace {

int hexadecimal(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

unsigned port_of(std::string_view text) {
  unsigned port = 0;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (code != std::errc{} || end != text.data() + text.size() || port == 0 || port > 65'535) {
    refuse_url(
        "has a port that is not a number from 1 to 65535: write %2F for a '/' and %3A for a ':' in the password");
  }
  return port;
}

// Removes the part up to the character, and the character, from the front. Nothing if it is not there.
bool split_at(std::string_view& rest, std::size_t at, std::string_view& part) noexcept {
  part = rest.substr(0, at);
  rest.remove_prefix(std::min(at == std::string_view::npos ? rest.size() : at + 1, rest.size()));
  return at != std::string_view::npos;
}

void read_host(std::string_view text, server_url& u) {
  if (text.starts_with('[')) {  // an IPv6 address
    auto const end = text.find(']');
    if (end == std::string_view::npos) refuse_url("has a '[' without a ']' in its host");
    u.host = decoded(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
    if (text.empty()) return;
    if (text.front() != ':') refuse_url("has something other than a port behind the ']' of its host");
    u.port = port_of(text.substr(1));
    return;
  }
  auto const colon = text.find(':');
  u.host = decoded(text.substr(0, colon));
  if (colon != std::string_view::npos) u.port = port_of(text.substr(colon + 1));
}

void read_authority(std::string_view text, server_url& u) {
  std::string_view credentials;
  if (auto const at = text.find('@'); !split_at(text, at, credentials)) return read_host(credentials, u);
  std::string_view user;
  split_at(credentials, credentials.find(':'), user);
  u.user = decoded(user);
  u.password = decoded(credentials);
  read_host(text, u);
}

void read_parameter(std::string_view name, std::string value, server_url& u) {
  if (name == "socket") {
    u.socket = std::move(value);
  } else if (name == "ssl") {
    u.ssl = std::move(value);
  } else if (name == "ssl_ca") {
    u.ca = std::move(value);
  } else if (name == "ssl_cert") {
    u.certificate = std::move(value);
  } else if (name == "ssl_key") {
    u.key = std::move(value);
  } else {
    refuse_url("has an unknown parameter; it knows socket, ssl, ssl_ca, ssl_cert and ssl_key");
  }
}

}  // namespace

// Client libraries take texts that end at their first NUL.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      int const high = i + 2 < text.size() ? hexadecimal(text[i + 1]) : -1;
      int const low = high >= 0 ? hexadecimal(text[i + 2]) : -1;
      if (low < 0) {
        refuse_url("has a % that is not followed by two hexadecimal digits: write %25 for the character itself");
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') refuse_url("has a NUL in it");
    plain += c;
  }
  return plain;
}

void refuse_url(std::string_view why) { throw error::about(errc::invalid_option, "url", why); }

std::string_view scheme_of(std::string_view url) noexcept {
  auto const end = url.find("://");
  return end == std::string_view::npos ? std::string_view{} : url.substr(0, end);
}

server_url parse_server_url(std::string_view url) {
  server_url u{.scheme = std::string{scheme_of(url)}};
  url.remove_prefix(std::min(u.scheme.size() + 3, url.size()));
  auto const end = std::min(url.find_first_of("/?"), url.size());
  auto const authority = url.substr(0, end);
  url.remove_prefix(end);
  if (url.find('@') != std::string_view::npos || std::ranges::count(authority, '@') > 1) {
    refuse_url("has an '@' that does not end the password: write %40 for an '@' and %2F for a '/' in the password");
  }
  read_authority(authority, u);
  std::string_view path;
  split_at(url, url.find('?'), path);
  if (path.starts_with('/')) path.remove_prefix(1);
  if (path.find('/') != std::string_view::npos) {
    refuse_url("has a '/' in the name of its database: write %2F for a '/' in the password");
  }
  u.database = decoded(path);
  while (!url.empty()) {
    std::string_view one;
    split_at(url, url.find('&'), one);
    std::string_view name;
    if (!split_at(one, one.find('='), name)) refuse_url("has a parameter that is not name=value");
    read_parameter(name, decoded(one), u);
  }
  if (u.host.empty()) u.host = "localhost";
  return u;
}

}  // namespace outbox::inline v0::core
