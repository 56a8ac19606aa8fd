#include "sql/table_name.hpp"

#include <algorithm>
#include <outbox/error.hpp>
#include <utility>

namespace outbox::inline v0::sql {
namespace {

constexpr std::string_view default_table = "outbox_event";
constexpr std::size_t longest = 48;

bool letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

}  // namespace

void check_table_name(std::string_view name) {
  auto const refuse = [](std::string const& why) { throw error::about(errc::invalid_option, "table", why); };
  if (name.empty()) refuse("must not be empty");
  if (name.size() > longest)
    refuse("has " + std::to_string(name.size()) + " characters, the limit is " + std::to_string(longest));
  if (!letter(name.front())) refuse("must begin with a letter or an underscore");
  for (char const c : name) {
    if (!letter(c) && !(c >= '0' && c <= '9')) refuse("may have letters, digits and underscores only");
  }
}

std::string with_table(std::string_view sql, std::string_view table) {
  if (table == default_table) return std::string{sql};
  std::string const name{table};
  std::pair<std::string_view, std::string> const names[] = {
      {default_table, name}, {"outbox_meta", name + "_meta"}, {"outbox_node", name + "_node"}};
  // One pass from left to right: what was put in is not looked at again.
  std::string text;
  for (std::size_t at = 0; at < sql.size();) {
    auto const match = std::ranges::find_if(names, [&](auto const& n) { return sql.substr(at).starts_with(n.first); });
    if (match == std::end(names)) {
      text += sql[at++];
    } else {
      text += match->second;
      at += match->first.size();
    }
  }
  return text;
}

}  // namespace outbox::inline v0::sql
