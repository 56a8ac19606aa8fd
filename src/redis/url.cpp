#include "redis/url.hpp"

#include <sys/un.h>

#include <charconv>
#include <limits>
#include <utility>

#include "core/base/server_url.hpp"

namespace outbox::inline v0::redis {
namespace {

using core::refuse_url;

void check_scheme(std::string_view scheme) {
  if (scheme == "redis" || scheme == "rediss") return;
  for (std::string_view const sentinel : {"redis+sentinel", "rediss+sentinel", "redis-sentinel", "sentinel"}) {
    if (scheme == sentinel)
      refuse_url("names a Sentinel, which is not supported: write redis:// and the server itself");
  }
  refuse_url("does not begin with redis:// or rediss://");
}

unsigned database_of(std::string_view text) {
  if (text.empty()) return 0;
  unsigned number = 0;
  auto const [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || end != text.data() + text.size() || number > std::numeric_limits<int>::max()) {
    refuse_url("has a database that is not a number from 0: write redis://host/0");
  }
  return number;
}

tls tls_of(core::server_url const& u) {
  bool const secure = u.scheme == "rediss";
  if (!u.ssl) return secure ? tls::verify : tls::off;
  if (*u.ssl == "on") return tls::on;
  if (*u.ssl == "verify") return tls::verify;
  if (*u.ssl != "off") refuse_url("has a parameter ssl that is not off, on or verify");
  if (secure) refuse_url("begins with rediss:// and has ssl=off: write redis:// for a connection without TLS");
  return tls::off;
}

// A file that is named and not used would make a connection look safer than it is.
void check_files(core::server_url const& u, tls t) {
  if (t == tls::off && !(u.ca + u.certificate + u.key).empty()) {
    refuse_url("has ssl_ca, ssl_cert or ssl_key, and no TLS: write rediss://");
  }
  if (t != tls::off && !u.socket.empty()) refuse_url("has a socket and TLS: Redis encrypts no unix socket");
  if (u.certificate.empty() && !u.key.empty()) refuse_url("has ssl_key and no ssl_cert");
  if (u.socket.size() >= sizeof(::sockaddr_un::sun_path)) refuse_url("has a socket whose path is too long");
}

}  // namespace

address parse_url(std::string_view url) {
  check_scheme(core::scheme_of(url));
  auto u = core::parse_server_url(url);
  auto const t = tls_of(u);
  check_files(u, t);
  address a{.host = std::move(u.host),
            .user = std::move(u.user),
            .password = std::move(u.password),
            .socket = std::move(u.socket),
            .database = database_of(u.database),
            .tls = t,
            .ca = std::move(u.ca),
            .certificate = std::move(u.certificate),
            .key = std::move(u.key)};
  if (u.port != 0) a.port = u.port;
  return a;
}

std::string shown(address const& a) {
  if (!a.socket.empty()) return a.socket;
  bool const ipv6 = a.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + a.host + "]" : a.host) + ":" + std::to_string(a.port);
}

}  // namespace outbox::inline v0::redis
