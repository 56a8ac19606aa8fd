#include "mysql/url.hpp"

#include <utility>

#include "core/base/server_url.hpp"

namespace outbox::inline v0::mysql {
namespace {

tls tls_of(std::string_view word) {
  if (word == "off") return tls::off;
  if (word == "try") return tls::attempt;
  if (word == "on") return tls::on;
  if (word != "verify") core::refuse_url("has a parameter ssl that is not off, try, on or verify");
  return tls::verify;
}

}  // namespace

address parse_url(std::string_view url) {
  auto const scheme = core::scheme_of(url);
  if (scheme != "mysql" && scheme != "mariadb") core::refuse_url("does not begin with mysql:// or mariadb://");
  auto u = core::parse_server_url(url);
  return {.host = std::move(u.host),
          .user = std::move(u.user),
          .password = std::move(u.password),
          .database = std::move(u.database),
          .socket = std::move(u.socket),
          .port = u.port,
          .tls = u.ssl ? tls_of(*u.ssl) : tls::attempt,
          .ca = std::move(u.ca),
          .certificate = std::move(u.certificate),
          .key = std::move(u.key)};
}

}  // namespace outbox::inline v0::mysql
