// `outbox pause` and `outbox resume`: a route, for all nodes.
#include <memory>

#include "cli/console.hpp"
#include "cli/operator_name.hpp"
#include "cli/report.hpp"
#include "cli/shown_text.hpp"
#include "cli/target.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

struct pause_options {
  target_options table;
  output_options output;
  std::string type, aggregate, reason;

  void add_to(CLI::App& verb, char const* type_text) {
    verb.add_option("type", type, type_text)->type_name("[TYPE]");
    verb.add_option("--aggregate", aggregate, "only events of this aggregate type")->type_name("TYPE");
    verb.add_option("--reason", reason, "why, for the audit")->type_name("TEXT");
    table.add_to(verb);
    output.add_to(verb);
  }
};

std::string words_of(outbox::route_pause const& p) {
  return p.event_type + (p.aggregate_type.empty() ? "" : " of " + p.aggregate_type);
}

int list_pauses(console& to, target const& from) {
  report table{{{"type", "TYPE"}, {"aggregate", "AGGREGATE"}}};
  for (auto const& p : from.open(access::read)->backend().settings().pauses) {
    table.add({text_cell(p.event_type), text_cell(p.aggregate_type)});
  }
  if (table.empty()) to.say("Nothing is paused.");
  if (!table.empty() || to.chosen() == form::json) table.print(to);
  return exit_good;
}

int change(pause_options const& o, bool pause) {
  console to{o.output};
  target const from{o.table};
  if (o.type.empty()) {
    if (!o.aggregate.empty() || !pause) refuse("which event type?");
    return list_pauses(to, from);
  }
  auto const s = from.open(access::change);
  auto& b = s->backend();
  outbox::route_pause const what{o.type, o.aggregate};
  auto const id = b.capabilities().audit ? b.begin_audit({.who = operator_name(),
                                                          .verb = pause ? "pause" : "resume",
                                                          .filter = words_of(what),
                                                          .reason = o.reason})
                                         : 0;
  bool const changed = pause ? b.pause(what) : b.resume(what);
  if (id != 0) b.end_audit(id, changed ? 1 : 0);
  b.hint();
  auto const text = shown(words_of(what));
  if (to.chosen() == form::json) {
    to.document(
        nlohmann::ordered_json{{"type", o.type}, {"aggregate", o.aggregate}, {"paused", pause}, {"changed", changed}});
  } else if (to.chosen() == form::plain) {
    to.out(std::string{changed ? "1" : "0"} + "\n");
  } else {
    auto const said =
        pause ? (changed ? " is paused: nodes stop delivering it within a quarter of their lease."
                         : " was paused already.")
              : (changed ? " is delivered again, within a quarter of the nodes' lease." : " was not paused.");
    to.out(text + said + "\n");
  }
  to.flush();
  return exit_good;
}

}  // namespace

void add_pause(command_tree& tree) {
  auto const o = std::make_shared<pause_options>();
  auto& verb = tree.add(
      "pause",
      {.summary = "deliver no more events of a type, on all nodes; or list what is paused",
       .details =
           "The table keeps the pause, so it holds across restarts. Events are still written and wait. Listeners "
           "that run finish. Without a type it lists what is paused.",
       .examples = {{"outbox pause order.placed --reason 'carrier is down' --db sqlite:shop.db", "stop one type"},
                    {"outbox pause --db sqlite:shop.db", "what is paused?"}}},
      [o] { return change(*o, true); });
  o->add_to(verb, "the event type");
}

void add_resume(command_tree& tree) {
  auto const o = std::make_shared<pause_options>();
  auto& verb = tree.add("resume",
                        {.summary = "deliver a paused type again, on all nodes",
                         .examples = {{"outbox resume order.placed --db sqlite:shop.db", "go on"}}},
                        [o] { return change(*o, false); });
  o->add_to(verb, "the event type, as it was paused");
}

}  // namespace outbox_tool
