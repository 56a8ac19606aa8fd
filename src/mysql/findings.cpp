#include "mysql/findings.hpp"

#include <iterator>

#include "sql/findings.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::mysql {

std::string checked::named(std::string_view name) const { return sql::with_table(name, table, database, '`'); }

std::string checked::plain(std::string_view name) const {
  constexpr std::string_view prefix = "outbox_";
  if (table == "outbox_event") return std::string{name};
  return name == "outbox_event" ? table : table + "_" + std::string{name.substr(prefix.size())};
}

bool checked::keyed() const {
  return d.any("SELECT 1 FROM " + named("outbox_meta") + " WHERE name = 'keyed' AND value = '1'", {});
}

void make_checks(checked const& on) {
  check_tables(on);
  check_indexes(on);
  auto settings = look_at_settings(on.d, on.server, on.keyed());
  on.found.insert(on.found.end(), std::move_iterator{settings.begin()}, std::move_iterator{settings.end()});
  check_server(on);
  sql::check_owners(on.d, {on.statements.owners, on.statements.nodes, on.named("outbox_event")}, on.limits, on.found);
}

}  // namespace outbox::inline v0::mysql
