// `outbox nodes`: the nodes that work on a table.
#include <algorithm>
#include <memory>

#include "cli/console.hpp"
#include "cli/report.hpp"
#include "cli/target.hpp"
#include "cli/time_text.hpp"
#include "exit_status.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

struct nodes_options {
  target_options table;
  output_options output;
};

cell state_of(outbox::node_row const& n) {
  if (!n.reason.empty()) return {"unwell", "unwell", look::bad};
  if (n.mode == outbox::node_mode::writer_only) return {"writes", "writes"};
  return n.active ? cell{"delivers", "delivers", look::good} : cell{"stands by", "stands by", look::faint};
}

int run(nodes_options const& o) {
  console to{o.output};
  target const from{o.table};
  auto const s = from.open(access::read);
  auto const now = s->now();
  report table{{{"node", "NODE"},
                {"incarnation", "INCARNATION"},
                {"mode", "MODE"},
                {"state", "STATE"},
                {"version", "VERSION"},
                {"started_at", "STARTED"},
                {"held", "HELD", true},
                {"done", "DONE", true},
                {"failed", "FAILED", true},
                {"dead", "DEAD", true},
                {"reason", "REASON", false, true}}};
  for (auto const& n : s->inspect().nodes()) {
    table.add({text_cell(n.name), text_cell(n.incarnation), text_cell(outbox::name(n.mode)), state_of(n),
               text_cell(n.version), age_cell(n.started_at, now), number_cell(n.held), number_cell(n.done),
               number_cell(n.failed), number_cell(n.dead), text_cell(n.reason, look::bad)});
  }
  if (table.empty()) to.say("No node is live on this table.");
  if (!table.empty() || to.chosen() == form::json) table.print(to);
  return exit_good;
}

}  // namespace

void add_nodes(command_tree& tree) {
  auto const o = std::make_shared<nodes_options>();
  auto& verb =
      tree.add("nodes",
               {.summary = "list the live nodes of a table and what they do",
                .details = "A node is live until its lease ends: one that has crashed is listed for a while. DONE, "
                           "FAILED and DEAD count since it started; they are as old as its last heartbeat.",
                .examples = {{"outbox nodes --db postgresql://ops@db1/shop", "who delivers?"}}},
               [o] { return run(*o); });
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
