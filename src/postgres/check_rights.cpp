// The rights of the role that the store connects as.
#include "postgres/checks.hpp"

namespace outbox::inline v0::postgres {
namespace {

using spi::check;

// What `outbox grants dispatcher` gives.
struct needed_rights {
  std::string_view table;
  std::vector<std::string_view> rights;
};

std::vector<needed_rights> rights_of_a_node() {
  return {{"outbox_event", {"SELECT", "UPDATE", "DELETE"}},
          {"outbox_meta", {"SELECT", "INSERT", "UPDATE"}},
          {"outbox_node", {"SELECT", "INSERT", "UPDATE", "DELETE"}}};
}

// Those that the role lacks, as GRANT names them.
std::string missing_rights(checked const& on, std::string const& table, std::vector<std::string_view> const& rights) {
  std::string missing;
  for (auto const right : rights) {
    bool const has = on.d.ask<bool>("SELECT has_table_privilege(to_regclass($1), $2)", {std::string_view{table}, right})
                         .value_or(true);
    if (!has) missing += (missing.empty() ? "" : ", ") + std::string{right};
  }
  return missing;
}

void check_privileges(checked const& on, std::string const& role) {
  check const here{on.found, "privileges", "A node claims, settles and reports with these rights."};
  std::string text, fix;
  auto const add = [&](std::string const& rights, std::string const& what) {
    text += (text.empty() ? "" : "; ") + rights + " on " + what;
    fix += (fix.empty() ? "" : "\n") + ("GRANT " + rights + " ON " + what + " TO \"" + role + "\";");
  };
  std::string_view const schema = on.schema;
  if (!on.d.ask<bool>("SELECT has_schema_privilege($1, 'USAGE')", {schema}).value_or(true)) {
    add("USAGE", "SCHEMA \"" + on.schema + "\"");
  }
  for (auto const& [name, rights] : rights_of_a_node()) {
    auto const table = on.named(name);
    if (auto const missing = missing_rights(on, table, rights); !missing.empty()) add(missing, table);
  }
  if (text.empty()) return here.passed("The role '" + role + "' has the rights of a node.");
  here.problem("The role '" + role + "' lacks rights of a node: " + text + ".", fix);
}

}  // namespace

void check_rights(checked const& on) {
  auto const role = on.d.ask<std::string>("SELECT current_user::text").value_or("");
  check_privileges(on, role);
  check const super{on.found, "superuser",
                    "A mistake in a program that connects as a superuser can destroy everything."};
  if (on.d.ask<std::string>("SELECT current_setting('is_superuser')") != "on") {
    return super.passed("The role '" + role + "' is no superuser.");
  }
  super.warning("The role '" + role + "' is a superuser.",
                "CREATE ROLE relay LOGIN;\noutbox grants dispatcher --user relay");
}

}  // namespace outbox::inline v0::postgres
