// Where a server is and how to reach it: mysql://user:password@host:port/database?ssl=verify
#pragma once

#include <string>
#include <string_view>

namespace outbox::inline v0::mysql {

/// How a connection is encrypted.
enum class tls {
  off,
  attempt,  ///< If the server can.
  on,       ///< A server that cannot is refused.
  verify,   ///< Its certificate must be valid for the host too.
};

struct address {
  std::string host{}, user{}, password{}, database{}, socket{};
  unsigned port = 0;  ///< 0: the default.
  mysql::tls tls = tls::attempt;
  std::string ca{}, certificate{}, key{};  ///< Paths of PEM files.
};

/// Throws `error` (invalid_option) about the url. What it says never shows a part of the URL, because it is unknown
/// which part of a wrong URL is the password.
[[nodiscard]] address parse_url(std::string_view url);

}  // namespace outbox::inline v0::mysql
