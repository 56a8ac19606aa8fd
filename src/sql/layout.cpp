#include "sql/layout.hpp"

#include <outbox/error.hpp>

#include "sql/table_name.hpp"

namespace outbox::inline v0::sql {
namespace {

// What a claimed row tells its node. The claim itself has set the owner, and its look has read when the row was due.
constexpr bool claim_reads(column c) noexcept {
  switch (c) {
    case column::available_at:
    case column::done_at:
    case column::last_error:
    case column::locked_by:
    case column::lease_until: return false;
    default: return true;
  }
}

}  // namespace

std::array<std::string, column_count> layout::defaults() {
  std::array<std::string, column_count> names;
  std::ranges::transform(default_columns, names.begin(), [](named_column const& c) { return std::string{c.name}; });
  return names;
}

std::string layout::text(std::string_view sql) const {
  std::string made;
  made.reserve(sql.size() * 2);
  while (true) {
    auto const open = sql.find('{');
    made += sql.substr(0, open);
    if (open == std::string_view::npos) return made;
    auto const close = sql.find('}', open);
    made += meaning_of(sql.substr(open + 1, close - open - 1));
    sql.remove_prefix(close + 1);
  }
}

std::string layout::meaning_of(std::string_view word) const {
  if (word == "NEW") return std::to_string(status.created);
  if (word == "DONE") return std::to_string(status.delivered);
  if (word == "RETRY") return std::to_string(status.retry);
  if (word == "DEAD") return std::to_string(status.dead);
  if (word == "row" || word == "claimed") {
    std::string list;
    for (std::size_t c = 0; c < columns_of_a_row; ++c) {
      bool const left_out = names.at(c).empty() || (word == "claimed" && !claim_reads(static_cast<column>(c)));
      list += (c == 0 ? "" : ", ") + (left_out ? "NULL" : names.at(c));
    }
    return list;
  }
  auto const known = std::ranges::find(default_columns, word, &named_column::name);
  if (known == default_columns.end()) return with_table(word, table, schema, quote);
  if (has(known->which)) return names.at(static_cast<std::size_t>(known->which));
  throw error{errc::invalid_option, "table '" + table + "' has no column for '" + std::string{word} + "'"};
}

}  // namespace outbox::inline v0::sql
