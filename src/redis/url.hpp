// Where a server is and how to reach it: rediss://user:password@host:port/database?ssl=verify
#pragma once

#include <string>
#include <string_view>

namespace outbox::inline v0::redis {

/// How a connection is encrypted.
enum class tls {
  off,
  on,      ///< The certificate of the server is not checked, unless an authority is named: then it must have signed it.
  verify,  ///< Its certificate must be valid for the host too.
};

struct address {
  std::string host{}, user{}, password{}, socket{};
  unsigned port = 6379;
  unsigned database = 0;
  redis::tls tls = tls::off;
  std::string ca{}, certificate{}, key{};  ///< Paths of PEM files.
};

/// Throws `error` (invalid_option) about the url. What it says never shows a part of the URL, because it is unknown
/// which part of a wrong URL is the password. A URL of Sentinel is refused by name.
[[nodiscard]] address parse_url(std::string_view url);

/// "host:port" or the path of the socket, for messages: never a password.
[[nodiscard]] std::string shown(address const& a);

}  // namespace outbox::inline v0::redis
