// `outbox unkey`: a table keeps no order of keys any more.
#include <memory>

#include "cli/console.hpp"
#include "cli/filter_options.hpp"
#include "cli/operator_name.hpp"
#include "cli/report.hpp"
#include "cli/shown_text.hpp"
#include "cli/target.hpp"
#include "cli/time_text.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

struct unkey_options {
  target_options table;
  output_options output;
  std::string reason;
  bool yes = false, dry_run = false;
};

std::string live_keyed_nodes(outbox::store& s) {
  std::string live;
  for (auto const& n : s.inspect().nodes()) {
    if (n.mode == outbox::node_mode::keyed) live += (live.empty() ? "" : ", ") + n.name + " (" + n.incarnation + ")";
  }
  return live;
}

void refuse_while_keyed_nodes_live(outbox::store& s, target const& from) {
  auto const live = live_keyed_nodes(s);
  if (live.empty()) return;
  throw tool_error{
      exit_failed, "keyed nodes are live on this table: " + shown(live),
      "Stop them first. One that has crashed is live until its lease ends: outbox nodes " + from.options()};
}

// It finds at its next renewal that the mark is gone. A note that it sent beside the end of the mark may be left.
void say_if_a_keyed_node_came(outbox::store& s, target const& from) {
  auto const live = live_keyed_nodes(s);
  if (live.empty()) return;
  throw tool_error{exit_failed, "a keyed node started meanwhile: " + shown(live),
                   "Events may still wait for others. Stop it, and do this again: outbox unkey " + from.options()};
}

// How many rows wait for another one, as far as the store counts them.
std::string notes_text(outbox::spi::table_overview const& t) {
  return (t.blocked >= t.limit ? "at least " : "") + number_text(t.blocked) +
         (t.blocked == 1 ? " event that waited for another one" : " events that waited for others");
}

void print(console& to, bool was_keyed, outbox::spi::table_overview const& before) {
  if (to.chosen() == form::json) {
    to.document(nlohmann::ordered_json{
        {"verb", "unkey"}, {"was_keyed", was_keyed}, {"unblocked", before.blocked}, {"counts_stop_at", before.limit}});
  } else if (to.chosen() == form::plain) {
    to.out(std::to_string(before.blocked) + "\n");
  } else {
    to.out(std::string{was_keyed ? "The table is not keyed any more." : "The table was not keyed."} +
           (before.blocked > 0 ? " " + notes_text(before) + " can be delivered now, in any order." : "") + "\n");
  }
  to.flush();
}

int run(unkey_options const& o) {
  console to{o.output};
  target const from{o.table};
  auto const s = from.open(o.dry_run ? access::read : access::change);
  auto const can = s->capabilities();
  if (!can.keys) {
    throw tool_error{exit_failed, "this table cannot keep an order of keys",
                     "A table of another shape has no column for it."};
  }
  auto& b = s->backend();
  bool const was_keyed = b.settings().keyed;
  refuse_while_keyed_nodes_live(*s, from);
  auto const before = can.overview ? b.overview(most_rows) : outbox::spi::table_overview{.limit = most_rows};
  if (o.dry_run) {
    to.say(std::string{was_keyed ? "It would remove the mark" : "The table is not keyed"} +
           (before.blocked > 0 ? (was_keyed ? " and free " : "; it would free ") + notes_text(before) : "") +
           ". Nothing was changed.");
    if (to.chosen() == form::json) {
      to.document(nlohmann::ordered_json{{"verb", "unkey"},
                                         {"was_keyed", was_keyed},
                                         {"unblocked", 0},
                                         {"would_unblock", before.blocked},
                                         {"counts_stop_at", before.limit}});
      to.flush();
    }
    return exit_good;
  }
  if (!o.yes) {
    if (!to.can_ask()) {
      refuse("this would end the order of keys in this table",
             "There is no terminal to ask on: give --yes to do it, or --dry-run to look.");
    }
    if (!to.ask("End the order of keys in " + shown(from.shown()) + "?")) {
      throw tool_error{exit_failed, "nothing was changed"};
    }
    refuse_while_keyed_nodes_live(*s, from);  // one may have started while the question stood
  }
  auto const id = can.audit ? b.begin_audit({.who = operator_name(),
                                             .verb = "unkey",
                                             .filter = "everything",
                                             .reason = o.reason,
                                             .matched = before.blocked})
                            : 0;
  b.set_keyed(false);  // also without a mark: an earlier run may have ended before it was done
  if (id != 0) b.end_audit(id, before.blocked);
  b.hint();
  print(to, was_keyed, before);
  say_if_a_keyed_node_came(*s, from);
  return exit_good;
}

}  // namespace

void add_unkey(command_tree& tree) {
  auto const o = std::make_shared<unkey_options>();
  auto& verb = tree.add(
      "unkey",
      {.summary = "end the order of keys in a table, so that nodes of other modes may deliver from it",
       .details =
           "The first keyed node marks its table, and nodes of other modes refuse it from then on. This removes the "
           "mark and every note that an event waits for another one of its key. What waited, also behind dead events, "
           "is then delivered in any order. It is refused while a keyed node is live. What it clears it cannot bring "
           "back: a keyed node that starts later makes the notes again, but not the order of what was delivered "
           "meanwhile.",
       .examples = {{"outbox unkey --db postgresql://ops@db1/shop --dry-run", "what would change?"},
                    {"outbox unkey --db postgresql://ops@db1/shop --reason 'back to multi_node' --yes", "do it"}},
       .status = "0 success; 1 a keyed node is live, or the table cannot be keyed."},
      [o] { return run(*o); });
  verb.add_flag("-y,--yes", o->yes, "do not ask");
  verb.add_flag("--dry-run", o->dry_run, "say what it would do, and change nothing");
  verb.add_option("--reason", o->reason, "why, for the audit")->type_name("TEXT");
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
