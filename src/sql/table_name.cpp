#include "sql/table_name.hpp"

#include <algorithm>
#include <outbox/error.hpp>

namespace outbox::inline v0::sql {
namespace {

constexpr std::string_view default_table = "outbox_event";
constexpr std::string_view companions_of_default = "outbox";
constexpr std::size_t longest = 48;

bool letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool name_part(char c) noexcept { return letter(c) || (c >= '0' && c <= '9'); }

}  // namespace

void check_table_name(std::string_view name, std::string_view field) {
  auto const refuse = [&](std::string const& why) { throw error::about(errc::invalid_option, field, why); };
  if (name.empty()) refuse("must not be empty");
  if (name.size() > longest)
    refuse("has " + std::to_string(name.size()) + " characters, the limit is " + std::to_string(longest));
  if (name == companions_of_default && field == "table") {
    refuse("cannot be '" + std::string{name} + "': the companions of the default table begin with that name");
  }
  if (!letter(name.front())) refuse("must begin with a letter or an underscore");
  for (char const c : name) {
    if (!name_part(c)) refuse("may have letters, digits and underscores only");
  }
}

std::string with_table(std::string_view sql, std::string_view table, std::string_view schema, char quote) {
  bool const plain = table == default_table && schema.empty();
  if (plain) return std::string{sql};
  auto const quoted = [quote](std::string const& name) {
    std::string text{quote};
    for (char const c : name) text += c == quote ? std::string(2, quote) : std::string{c};
    return text + quote;
  };
  auto const prefix = schema.empty() ? std::string{} : quoted(std::string{schema}) + ".";
  std::string const name{table};
  std::string const companion = table == default_table ? std::string{companions_of_default} : name;
  // Word by word, so that inserted names are not replaced again.
  std::string text;
  for (std::size_t at = 0; at < sql.size();) {
    if (!letter(sql[at])) {
      text += sql[at++];
      continue;
    }
    auto const end = std::find_if_not(sql.begin() + static_cast<std::ptrdiff_t>(at), sql.end(), name_part);
    auto const word = sql.substr(at, static_cast<std::size_t>(end - sql.begin()) - at);
    at += word.size();
    if (word == default_table) {
      text += prefix + quoted(name);
    } else if (word == "outbox_meta" || word == "outbox_node" || word == "outbox_audit") {
      text += prefix + quoted(companion + std::string{word.substr(6)});
    } else if (word.starts_with("outbox_event_")) {
      text += quoted(name + std::string{word.substr(default_table.size())});  // an index is in the schema of its table
    } else {
      text += word;
    }
  }
  return text;
}

}  // namespace outbox::inline v0::sql
