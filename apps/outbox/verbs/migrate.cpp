// `outbox migrate`: the schema of a table.
#include <memory>

#include "cli/console.hpp"
#include "cli/report.hpp"
#include "cli/target.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

using outbox::migration;
using outbox::schema_state;

struct migrate_options {
  target_options table;
  output_options output;
  std::string action = "up";
  bool sql = false, keyed = false;
};

std::string name_of(schema_state::kind k) {
  switch (k) {
    case schema_state::kind::none: return "none";
    case schema_state::kind::adoptable: return "of another program";
    case schema_state::kind::older: return "older";
    case schema_state::kind::current: return "current";
    case schema_state::kind::newer: return "newer";
  }
  return "?";
}

std::string sentence_of(migration::kind k) {
  switch (k) {
    case migration::kind::nothing: return "The table has the schema of this tool: nothing was changed.";
    case migration::kind::created: return "The table was created.";
    case migration::kind::adopted: return "The table of another program was adopted with its rows.";
    case migration::kind::upgraded: return "The table was upgraded.";
    case migration::kind::indexed: return "An index was added.";
  }
  return "?";
}

std::string name_of(migration::kind k) {
  switch (k) {
    case migration::kind::nothing: return "nothing";
    case migration::kind::created: return "created";
    case migration::kind::adopted: return "adopted";
    case migration::kind::upgraded: return "upgraded";
    case migration::kind::indexed: return "indexed";
  }
  return "?";
}

int print_sql(console& to, schema_state const& s) {
  if (s.found == schema_state::kind::adoptable) {
    throw tool_error{exit_schema, "the SQL to adopt a table of another program depends on its columns",
                     "outbox migrate up adopts it."};
  }
  if (s.sql.empty() && s.found != schema_state::kind::current && s.found != schema_state::kind::newer) {
    throw tool_error{exit_usage, "this database is not made by SQL", "outbox migrate up creates the outbox."};
  }
  if (s.sql.empty()) to.say("There is nothing to do.");
  to.out(s.sql);
  to.flush();
  return exit_good;
}

int print_status(console& to, target const& from, schema_state const& s) {
  facts f;
  f.add("database", "database", text_cell(from.shown()));
  f.add("schema", "schema", text_cell(name_of(s.found)));
  f.add("version", "version", number_cell(static_cast<std::uint64_t>(s.version)));
  f.add("wanted", "this tool's version", number_cell(static_cast<std::uint64_t>(s.wanted)));
  if (to.chosen() == form::json) {
    to.document(f.json());
  } else {
    f.print(to);
  }
  to.flush();
  if (s.found == schema_state::kind::current) return exit_good;
  if (s.found != schema_state::kind::newer) to.say("outbox migrate up " + from.options() + " makes it current.");
  return exit_schema;
}

int migrate_up(console& to, target const& from, bool keyed) {
  auto const m = from.migrate(keyed);
  for (auto const& w : m.warnings) to.warn(w);
  if (to.chosen() == form::json) {
    to.document(nlohmann::ordered_json{{"change", name_of(m.change)}, {"warnings", m.warnings}});
  } else {
    to.out(to.chosen() == form::plain ? name_of(m.change) + "\n" : sentence_of(m.change) + "\n");
  }
  to.flush();
  return exit_good;
}

int run(migrate_options const& o) {
  console to{o.output};
  target const from{o.table};
  if (o.keyed && (o.sql || o.action != "up")) refuse("--keyed is for `migrate up`");
  if (o.sql) return print_sql(to, from.schema());
  return o.action == "status" ? print_status(to, from, from.schema()) : migrate_up(to, from, o.keyed);
}

}  // namespace

void add_migrate(command_tree& tree) {
  auto const o = std::make_shared<migrate_options>();
  auto& verb = tree.add(
      "migrate",
      {.summary = "create or upgrade the tables of an outbox, or say what they are",
       .details =
           "`up` creates the table and its companions, upgrades an older schema, or adopts a table that was made "
           "by the plain outbox DDL, with its rows. Programs may write meanwhile. `status` only looks. With "
           "--sql it changes nothing and prints the SQL, for a person who runs it. On Redis `up` creates the outbox, "
           "and there is no SQL.\n\nWith --keyed it also makes what keyed nodes need, such as an index, and does not "
           "mark the table: nodes of other modes go on. The first keyed node marks it.",
       .examples = {{"outbox migrate up --db postgresql://owner@db1/shop", "create or upgrade"},
                    {"outbox migrate up --keyed --db postgresql://owner@db1/shop",
                     "before the first keyed node starts"},
                    {"outbox migrate status --db sqlite:shop.db", "which schema is there?"},
                    {"outbox migrate --sql --db mysql://owner@db1/shop > schema.sql", "for review"}},
       .status = "0 success, or the schema is current; 5 status: it is not."},
      [o] { return run(*o); });
  verb.add_option("action", o->action, "up (the default) or status")
      ->type_name("[up|status]")
      ->check(CLI::IsMember({"up", "status"}).description(""));
  verb.add_flag("--sql", o->sql, "print the SQL that is missing, and change nothing");
  verb.add_flag("--keyed", o->keyed, "also make what keyed nodes need, such as an index");
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
