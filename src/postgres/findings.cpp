#include "postgres/findings.hpp"

#include "sql/findings.hpp"
#include "sql/table_name.hpp"

namespace outbox::inline v0::postgres {

std::string checked::named(std::string_view name) const { return sql::with_table(name, table, schema); }

void make_checks(checked const& on) {
  check_tables(on);
  check_indexes(on);
  check_settings(on);
  check_vacuum(on);
  check_rights(on);
  sql::check_owners(on.d, {on.statements.owners, on.statements.nodes, on.named("outbox_event")}, on.limits, on.found);
}

}  // namespace outbox::inline v0::postgres
