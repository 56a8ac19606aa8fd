// The scripts that the store runs on the server, as they are in src/redis/scripts.
#pragma once

#include <string>
#include <string_view>

namespace outbox::inline v0::redis {

/// A script and the name by which the server knows it once it has run.
struct script {
  explicit script(std::string whole);

  std::string const text;
  std::string const sha1;  ///< In hexadecimal.
};

struct scripts {
  scripts();

  script const insert, claim, settle, renew, release, lock, node, purge, page, change, table, look, heal;
};

/// Thread-safe.
[[nodiscard]] scripts const& all_scripts();

/// What applications put before scripts of their own.
[[nodiscard]] std::string_view text_of_write() noexcept;

}  // namespace outbox::inline v0::redis
