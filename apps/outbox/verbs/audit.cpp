// `outbox audit`: what operators did.
#include <memory>

#include "cli/console.hpp"
#include "cli/report.hpp"
#include "cli/target.hpp"
#include "exit_status.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

struct audit_options {
  target_options table;
  output_options output;
  std::size_t limit = 20;
};

int run(audit_options const& o) {
  console to{o.output};
  target const from{o.table};
  auto const s = from.open(access::read);
  report table{{{"id", "NO", true},
                {"at", "AT"},
                {"who", "WHO"},
                {"verb", "VERB"},
                {"matched", "MATCHED", true},
                {"changed", "CHANGED", true},
                {"filter", "WHICH"},
                {"reason", "REASON", false, true}}};
  for (auto const& e : s->backend().audit(o.limit)) {
    auto const unknown = cell{"not ended", {}, look::warning};
    table.add({{std::to_string(e.id), e.id},
               time_cell(e.at),
               text_cell(e.who),
               text_cell(e.verb),
               number_cell(e.matched),
               e.changed ? number_cell(*e.changed) : unknown,
               text_cell(e.filter),
               text_cell(e.reason)});
  }
  if (table.empty()) to.say("No operator has changed anything.");
  if (!table.empty() || to.chosen() == form::json) table.print(to);
  return exit_good;
}

}  // namespace

void add_audit(command_tree& tree) {
  auto const o = std::make_shared<audit_options>();
  auto& verb =
      tree.add("audit",
               {.summary = "list what operators did: who, when, which events, why",
                .details = "The newest are first. An entry that has not ended belongs to a command that runs, or "
                           "that was killed.",
                .examples = {{"outbox audit --db sqlite:shop.db", "who did that?"}}},
               [o] { return run(*o); });
  verb.add_option("-n,--limit", o->limit, "at most this many (20)")->type_name("N")->check(CLI::Range(1, 100'000));
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
