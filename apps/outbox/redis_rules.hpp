// The rules of Redis' access control lists that each role of `outbox grants` needs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outbox_tool {

/// Rules as ACL SETUSER takes them, each a word. They are those of Redis 6.2: without selectors, and without rights
/// that tell reading from writing a key.
struct redis_rules {
  std::vector<std::string> commands{};  ///< As in "+hset".
  std::vector<std::string> keys{};      ///< As in "~{outbox}:event:*".
  std::vector<std::string> channels{};  ///< As in "&{outbox}:wake".
};

/// The rules of a role for the outbox of this name. `selects` says that the URL names a database other than 0.
[[nodiscard]] redis_rules redis_rules_of(std::string_view role, std::string const& name, bool selects);

/// A word as redis-cli reads it: in double quotes if it has characters that have a meaning there.
[[nodiscard]] std::string cli_word(std::string_view text);

}  // namespace outbox_tool
