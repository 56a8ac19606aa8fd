#include "sql/schema.hpp"

#include <algorithm>
#include <charconv>
#include <outbox/error.hpp>

namespace outbox::inline v0::sql {

bool is_adoptable(std::string_view column) noexcept {
  return std::ranges::find(adoptable_columns, column) != std::end(adoptable_columns);
}

std::string listed(std::vector<std::string> const& names) {
  std::string text;
  for (auto const& n : names) text += (text.empty() ? "" : ", ") + n;
  return text;
}

namespace {

// A number of the table's companion; 0 if it is not there.
int read_number(connection& c, layout const& table, std::string_view name) {
  std::string text;
  c.execute(table.text("SELECT name, value FROM {outbox_meta}"), {}, [&](row const& r) {
    if (r.text(0) == name) text = r.text(1);
    return true;
  });
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

void refuse(std::string const& text) { throw error{errc::store_failure, text}; }

int read_schema_version(connection& c, layout const& table) { return read_number(c, table, "schema_version"); }

void refuse_newer_schema(connection& c, layout const& table, int version) {
  if (version == 0) return;
  auto const oldest = read_number(c, table, "oldest_library");
  if (oldest > schema_version || (version > schema_version && oldest == 0)) {
    refuse("the outbox table has schema version " + std::to_string(version) + ", this library knows up to " +
           std::to_string(schema_version) + ": use a newer library");
  }
}

void refuse_older_schema(int version, std::string_view table, std::string_view migrate) {
  if (version >= schema_version) return;
  refuse("table " + std::string{table} + " has no outbox schema of version " + std::to_string(schema_version) +
         ": call " + std::string{migrate} + ", or open with .migrate = true");
}

schema_state state_of(int version, bool table_exists) noexcept {
  using kind = schema_state::kind;
  auto const known = version < schema_version ? kind::older : version == schema_version ? kind::current : kind::newer;
  auto const unknown = table_exists ? kind::adoptable : kind::none;
  return {.found = version == 0 ? unknown : known, .version = version, .wanted = schema_version};
}

}  // namespace outbox::inline v0::sql
