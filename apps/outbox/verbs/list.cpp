// `outbox list`: events by a filter.
#include <memory>

#include "cli/console.hpp"
#include "cli/filter_options.hpp"
#include "cli/rows.hpp"
#include "cli/target.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

using outbox::spi::list_order;

struct list_options {
  target_options table;
  output_options output;
  filter_options filter;
  std::size_t limit = 50;
  bool oldest = false, fail_if_empty = false;
};

int run(list_options const& o) {
  console to{o.output};
  target const from{o.table};
  auto f = o.filter.filter();
  auto const s = from.open(access::read);
  auto& b = s->backend();
  if (f.ids.empty()) f.newest = most_rows;
  // Before the list, so that the note is not among its lines.
  if (f.ids.empty() && b.count({.statuses = f.statuses}, most_rows + 1) > most_rows) {
    to.say("Only the newest 100,000 rows were read: no index serves this filter.");
  }
  auto const rows = b.list(f, o.oldest ? list_order::oldest_first : list_order::newest_first, o.limit);
  auto const now = s->now();
  auto table = event_table();
  for (auto const& r : rows) add_event(table, r, now);
  if (table.empty()) to.say("No event matches.");
  if (!table.empty() || to.chosen() == form::json) table.print(to);
  if (rows.size() == o.limit) to.say("There may be more: --limit is " + std::to_string(o.limit) + ".");
  return rows.empty() && o.fail_if_empty ? exit_nothing : exit_good;
}

}  // namespace

void add_list(command_tree& tree) {
  auto const o = std::make_shared<list_options>();
  auto& verb = tree.add(
      "list",
      {.summary = "list events by state, type, aggregate, tenant or age",
       .details = "The newest are first. No index serves a type, an aggregate, a tenant or an age: such a filter reads "
                  "the newest 100,000 rows, and the verb says so if there are more. It only reads. In a pipe it prints "
                  "id, type, aggregate, state, tries, written at and error, divided by tabs.",
       .examples = {{"outbox list --state dead --db sqlite:shop.db", "dead events, the newest first"},
                    {"outbox list --type order.placed --older-than 15min --state pending", "what waits for long"},
                    {"outbox list --aggregate order/42 --json", "all events of one order"}}},
      [o] { return run(*o); });
  o->filter.add_to(verb, false);
  verb.add_option("-n,--limit", o->limit, "at most this many (50)")->type_name("N")->check(CLI::Range(1, 100'000));
  verb.add_flag("--oldest", o->oldest, "the oldest first");
  verb.add_flag("--fail-if-empty", o->fail_if_empty, "exit with 3 if nothing matches");
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
