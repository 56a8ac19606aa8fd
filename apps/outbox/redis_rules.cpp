#include "redis_rules.hpp"

#include <algorithm>

namespace outbox_tool {
namespace {

// What the scripts of src/redis/scripts call, and what the store sends beside them, by what it is for.
constexpr std::string_view to_run_scripts = "eval evalsha time";
constexpr std::string_view to_open = "info hmget";
constexpr std::string_view to_create = "hexists hset";
constexpr std::string_view to_hear = "subscribe publish ping";
constexpr std::string_view to_insert = "exists hincrby zadd zrevrange hset set";
constexpr std::string_view to_join = "hget watch unwatch multi exec";
constexpr std::string_view to_read =
    "get hget hgetall scard zcard zcount zrange zrangebyscore zrank zrevrange zrevrangebyscore zscore";
constexpr std::string_view to_change = "hdel hincrby hset srem unlink zadd zrem";
constexpr std::string_view to_try_again = "sadd";
constexpr std::string_view to_lock_and_report = "del";
constexpr std::string_view to_audit = "del exists hexists";
constexpr std::string_view to_diagnose = "config|get";

// Keys, behind the beginning that they share. That itself is the one key that every script declares.
constexpr std::string_view keys_to_open = "- meta";
constexpr std::string_view keys_of_births = "- meta figures event:* payload:* line:* open due leased";
constexpr std::string_view keys_of_rows =
    "- meta figures event:* payload:* line:* open due leased retrying blocked done* dead* node*";

void add(std::vector<std::string>& to, std::string_view words, std::string const& before) {
  while (!words.empty()) {
    auto const end = std::min(words.find(' '), words.size());
    auto const word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    auto rule = before + (word == "-" ? "" : std::string{word});
    if (std::ranges::find(to, rule) == to.end()) to.push_back(std::move(rule));
  }
}

// The beginning of the keys, as redis::options::name says, where characters of patterns stand for themselves. A rule
// has no spaces: a question mark stands for one.
std::string pattern_of(std::string const& name) {
  bool const braces = name.find('{') != std::string::npos;
  std::string pattern;
  for (char const c : braces ? name + ":" : "{" + name + "}:") {
    bool const special = c == '*' || c == '?' || c == '[' || c == '\\';
    pattern += special ? std::string{'\\', c} : c == ' ' ? std::string{'?'} : std::string{c};
  }
  return pattern;
}

std::vector<std::string_view> commands_of(std::string_view role) {
  if (role == "writer") return {to_run_scripts, to_open, to_hear, to_insert, to_join};
  if (role == "dispatcher") {
    return {to_run_scripts, to_open, to_hear, to_read, to_change, to_try_again, to_lock_and_report};
  }
  if (role == "operator") return {to_run_scripts, to_open, to_hear, to_read, to_change, to_audit, to_diagnose};
  if (role == "reader") return {to_run_scripts, to_open, to_read, to_diagnose};
  return {to_run_scripts, to_open, to_create};
}

}  // namespace

redis_rules redis_rules_of(std::string_view role, std::string const& name, bool selects) {
  redis_rules rules;
  for (auto const words : commands_of(role)) add(rules.commands, words, "+");
  if (selects) rules.commands.emplace_back("+select");
  auto const pattern = pattern_of(name);
  add(rules.keys, role == "writer" ? keys_of_births : role == "owner" ? keys_to_open : keys_of_rows, "~" + pattern);
  if (role == "dispatcher") rules.keys.push_back("~" + pattern + "lock");
  if (role == "operator" || role == "reader") rules.keys.push_back("~" + pattern + "audit:*");
  if (role != "reader" && role != "owner") rules.channels.push_back("&" + pattern + "wake");
  return rules;
}

std::string cli_word(std::string_view text) {
  auto const plain = [](unsigned char c) {
    return c > 0x20 && c != '"' && c != '\'' && c != '\\' && c != '#' && c < 0x7F;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return std::string{text};
  std::string quoted{'"'};
  for (char const c : text) quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return quoted + '"';
}

}  // namespace outbox_tool
