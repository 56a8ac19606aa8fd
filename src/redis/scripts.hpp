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

/// What a script does. Servers since Redis 7.0 are told: they let scripts that only read run on a replica, and those
/// that change what is there run while the memory is full. Else a full server could not be emptied.
enum class does { write_events, change, read };

/// A script, in the words of old servers and of those since Redis 7.0.
struct script {
  script(std::string const& whole, does what);

  script_text const old, modern;

  [[nodiscard]] script_text const& on(bool modern_server) const noexcept { return modern_server ? modern : old; }
};

struct scripts {
  scripts();

  script const insert, claim, settle, renew, release, lock, node, purge, change, table, heal;
  script const page, look, read_table, read_nodes;  ///< The last two: `table` and `node`, for what they read.
};

/// Thread-safe.
[[nodiscard]] scripts const& all_scripts();

/// What applications put before scripts of their own.
[[nodiscard]] std::string_view text_of_write() noexcept;

}  // namespace outbox::inline v0::redis
