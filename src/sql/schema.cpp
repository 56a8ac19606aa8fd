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

void refuse(std::string const& text) { throw error{errc::store_failure, text}; }

int read_schema_version(connection& c, layout const& table) {
  auto const text = c.ask<std::string>(table.text("SELECT value FROM {outbox_meta} WHERE name = 'schema_version'"));
  int version = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), version);
  return version;
}

void refuse_newer_schema(int version) {
  if (version <= schema_version) return;
  refuse("the outbox table has schema version " + std::to_string(version) + ", this library knows up to " +
         std::to_string(schema_version) + ": use a newer library");
}

void refuse_older_schema(int version, std::string_view table, std::string_view migrate) {
  if (version >= schema_version) return;
  refuse("table " + std::string{table} + " has no outbox schema of version " + std::to_string(schema_version) +
         ": call " + std::string{migrate} + ", or open with .migrate = true");
}

}  // namespace outbox::inline v0::sql
