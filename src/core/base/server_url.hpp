// Reads the URL of a database server: scheme://user:password@host:port/database?name=value
#pragma once

#include <optional>
#include <outbox/detail/core_export.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::core {

/// The parts, decoded. A part that the URL does not have is empty; the host is then "localhost".
struct server_url {
  std::string scheme{}, user{}, password{}, host{}, database{};
  unsigned port = 0;  ///< 0: the URL names none.

  // Its parameters.
  std::string socket{};                    ///< The path of a unix socket.
  std::optional<std::string> ssl{};        ///< A word that means something to the database.
  std::string ca{}, certificate{}, key{};  ///< Paths of PEM files.
};

/// Returns what is before "://"; empty if that is not there.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view scheme_of(std::string_view url) noexcept;

/// Throws `error` (invalid_option) about the url. What it says never shows a part of the URL, because it is unknown
/// which part of a wrong URL is the password.
[[nodiscard]] OUTBOX_CORE_EXPORT server_url parse_server_url(std::string_view url);

/// Returns the text with "%41" as "A". Throws `error` (invalid_option) about the url for a % that stands alone, and for
/// a NUL.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string decoded(std::string_view text);

/// Throws that error: "url <why>".
[[noreturn]] OUTBOX_CORE_EXPORT void refuse_url(std::string_view why);

}  // namespace outbox::inline v0::core
