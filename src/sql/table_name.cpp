#include "sql/table_name.hpp"

#include <outbox/error.hpp>

namespace outbox::inline v0::sql {
namespace {

constexpr std::string_view default_table = "outbox_event";
constexpr std::size_t longest = 48;

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

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
  std::string text{sql};
  if (table == default_table) return text;
  std::string const prefix{table};
  replace_all(text, "outbox_meta", prefix + "_meta");
  replace_all(text, "outbox_node", prefix + "_node");
  replace_all(text, default_table, table);
  return text;
}

}  // namespace outbox::inline v0::sql
