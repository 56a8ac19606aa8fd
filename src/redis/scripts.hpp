// The scripts that the store runs on the server, as they are in src/redis/scripts.
#pragma once

#include <string>
#include <string_view>

namespace outbox::inline v0::redis {

/// A text, and the name by which the server knows it once it has run: its SHA-1 in hexadecimal.
struct script_text {
  explicit script_text(std::string whole);

  std::string const text;
  std::string const sha1;
};

/// Whether a script may run while the server's memory is full. Those that write new events may not. Those that end them
/// must: else a full server could not be emptied.
enum class when_full { refused, allowed };

/// A script, in the words of old servers and of those since Redis 7.0. Before that, no script may be allowed to run while
/// the memory is full.
struct script {
  script(std::string const& whole, when_full how);

  script_text const old, modern;

  [[nodiscard]] script_text const& on(bool modern_server) const noexcept { return modern_server ? modern : old; }
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
