#include "mysql/url.hpp"

#include <algorithm>
#include <charconv>
#include <outbox/error.hpp>

namespace outbox::inline v0::mysql {
namespace {

[[noreturn]] void refuse(std::string const& why) { throw error::about(errc::invalid_option, "url", why); }

int hexadecimal(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The client library takes texts that end at their first NUL.
std::string decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      int const high = i + 2 < text.size() ? hexadecimal(text[i + 1]) : -1;
      int const low = high >= 0 ? hexadecimal(text[i + 2]) : -1;
      if (low < 0) refuse("has a % that is not followed by two hexadecimal digits: write %25 for the character itself");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (c == '\0') refuse("has a NUL in it");
    plain += c;
  }
  return plain;
}

unsigned port_of(std::string_view text) {
  unsigned port = 0;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (code != std::errc{} || end != text.data() + text.size() || port == 0 || port > 65'535) {
    refuse("has a port that is not a number from 1 to 65535: write %2F for a '/' and %3A for a ':' in the password");
  }
  return port;
}

tls tls_of(std::string_view word) {
  if (word == "off") return tls::off;
  if (word == "try") return tls::attempt;
  if (word == "on") return tls::on;
  if (word != "verify") refuse("has a parameter ssl that is not off, try, on or verify");
  return tls::verify;
}

// Removes the part up to the character, and the character, from the front. Nothing if it is not there.
bool split_at(std::string_view& rest, std::size_t at, std::string_view& part) noexcept {
  part = rest.substr(0, at);
  rest.remove_prefix(std::min(at == std::string_view::npos ? rest.size() : at + 1, rest.size()));
  return at != std::string_view::npos;
}

void read_host(std::string_view text, address& a) {
  if (text.starts_with('[')) {  // an IPv6 address
    auto const end = text.find(']');
    if (end == std::string_view::npos) refuse("has a '[' without a ']' in its host");
    a.host = decoded(text.substr(1, end - 1));
    text.remove_prefix(end + 1);
    if (text.empty()) return;
    if (text.front() != ':') refuse("has something other than a port behind the ']' of its host");
    a.port = port_of(text.substr(1));
    return;
  }
  auto const colon = text.find(':');
  a.host = decoded(text.substr(0, colon));
  if (colon != std::string_view::npos) a.port = port_of(text.substr(colon + 1));
}

void read_parameter(std::string_view name, std::string value, address& a) {
  if (name == "socket") {
    a.socket = std::move(value);
  } else if (name == "ssl") {
    a.tls = tls_of(value);
  } else if (name == "ssl_ca") {
    a.ca = std::move(value);
  } else if (name == "ssl_cert") {
    a.certificate = std::move(value);
  } else if (name == "ssl_key") {
    a.key = std::move(value);
  } else {
    refuse("has an unknown parameter; it knows socket, ssl, ssl_ca, ssl_cert and ssl_key");
  }
}

}  // namespace

address parse_url(std::string_view url) {
  address a;
  std::string_view scheme;
  if (!split_at(url, url.find("://"), scheme) || (scheme != "mysql" && scheme != "mariadb")) {
    refuse("does not begin with mysql:// or mariadb://");
  }
  url.remove_prefix(std::min<std::size_t>(2, url.size()));  // the slashes
  std::string_view authority;
  auto const end = url.find_first_of("/?");
  authority = url.substr(0, end);
  url.remove_prefix(std::min(end, url.size()));
  if (url.find('@') != std::string_view::npos || std::ranges::count(authority, '@') > 1) {
    refuse("has an '@' that does not end the password: write %40 for an '@' and %2F for a '/' in the password");
  }
  std::string_view credentials;
  if (auto const at = authority.find('@'); split_at(authority, at, credentials)) {
    std::string_view user;
    split_at(credentials, credentials.find(':'), user);
    a.user = decoded(user);
    a.password = decoded(credentials);
    read_host(authority, a);
  } else {
    read_host(credentials, a);
  }
  std::string_view path;
  split_at(url, url.find('?'), path);
  if (path.starts_with('/')) path.remove_prefix(1);
  if (path.find('/') != std::string_view::npos) {
    refuse("has a '/' in the name of its database: write %2F for a '/' in the password");
  }
  a.database = decoded(path);
  while (!url.empty()) {
    std::string_view one;
    split_at(url, url.find('&'), one);
    std::string_view name;
    if (!split_at(one, one.find('='), name)) refuse("has a parameter that is not name=value");
    read_parameter(name, decoded(one), a);
  }
  if (a.host.empty()) a.host = "localhost";
  return a;
}

}  // namespace outbox::inline v0::mysql
