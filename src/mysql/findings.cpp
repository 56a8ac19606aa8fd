#include "mysql/findings.hpp"

namespace outbox::inline v0::mysql {
namespace {

using severity = spi::finding::severity;

void look_at_indexes(sql::connection& c, std::string const& table, std::string const& database,
                     std::vector<spi::finding>& found) {
  for (auto const* const suffix : {"_id", "_due", "_ended"}) {
    auto const name = table + suffix;
    if (c.any(
            "SELECT 1 FROM information_schema.statistics WHERE table_schema = ?1 AND table_name = ?2 AND index_name = "
            "?3",
            {std::string_view{database}, std::string_view{table}, std::string_view{name}})) {
      continue;
    }
    found.push_back({severity::problem, "missing_index",
                     "The index " + name + " is missing: statements name it, and fail. Create it as in schema/mysql."});
  }
}

// They keep InnoDB from removing what claims and settlements leave behind.
void look_at_transactions(sql::connection& c, std::vector<spi::finding>& found) {
  std::optional<std::string> old;
  try {
    old = c.ask<std::string>(
        "SELECT group_concat(trx_mysql_thread_id ORDER BY trx_started SEPARATOR ', ') FROM "
        "information_schema.innodb_trx WHERE trx_started < now() - INTERVAL 1 HOUR");
  } catch (error const& e) {
    if (e.transient()) throw;
    found.push_back({severity::note, "old_transaction",
                     "Whether old transactions are open is not known: the user needs the privilege PROCESS to ask."});
  }
  if (!old) return;
  found.push_back({severity::warning, "old_transaction",
                   "Transactions are open for more than an hour (session " + *old + "): claims get slower. End them."});
}

}  // namespace

std::vector<spi::finding> findings_of(sql::connection& c, std::string const& table, std::string const& database,
                                      server const& s) {
  auto found = look_at_settings(c, s);
  look_at_indexes(c, table, database, found);
  look_at_transactions(c, found);
  return found;
}

}  // namespace outbox::inline v0::mysql
