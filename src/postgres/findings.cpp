#include "postgres/findings.hpp"

#include <string_view>

#include "sql/table_name.hpp"

namespace outbox::inline v0::postgres {
namespace {

using severity = spi::finding::severity;

void look_at_durability(sql::connection& c, std::vector<spi::finding>& found) {
  for (std::string_view const setting : {"synchronous_commit", "fsync"}) {
    auto const value = c.ask<std::string>("SELECT current_setting($1)", {setting}).value_or("");
    if (value != "off") continue;
    found.push_back({severity::warning, std::string{setting},
                     "The server has " + std::string{setting} +
                         " = off: a commit that was delivered may be gone after a power failure."});
  }
}

void look_at_indexes(sql::connection& c, std::string const& table, std::string const& schema,
                     std::vector<spi::finding>& found) {
  auto const on = sql::with_table("outbox_event", table, schema);
  for (auto const* const suffix : {"_ready", "_ended", "_dead"}) {
    auto const name = table + suffix;
    auto const valid = c.ask<bool>(
        "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = "
        "to_regclass($1) AND c.relname = $2",
        {std::string_view{on}, std::string_view{name}});
    if (valid == true) continue;
    found.push_back({severity::problem, "missing_index",
                     "The index " + name + (valid ? " is not valid" : " is missing") +
                         ": statements read the whole table. Create it as in schema/postgres, with CREATE INDEX "
                         "CONCURRENTLY."});
  }
}

// They keep VACUUM from removing the rows that claims and settlements leave behind, and hold up ordered nodes.
void look_at_transactions(sql::connection& c, std::vector<spi::finding>& found) {
  auto const old = c.ask<std::string>(
      "SELECT string_agg(pid::text, ', ' ORDER BY xact_start) FROM pg_stat_activity WHERE datname = current_database() "
      "AND xact_start < clock_timestamp() - interval '1 hour' AND backend_type = 'client backend'");
  if (!old) return;
  found.push_back({severity::warning, "old_transaction",
                   "Transactions are open for more than an hour (process " + *old +
                       "): claims get slower, and ordered nodes may wait for them. End them."});
}

}  // namespace

std::vector<spi::finding> findings_of(sql::connection& c, std::string const& table, std::string const& schema) {
  std::vector<spi::finding> found;
  look_at_durability(c, found);
  look_at_indexes(c, table, schema, found);
  look_at_transactions(c, found);
  return found;
}

}  // namespace outbox::inline v0::postgres
