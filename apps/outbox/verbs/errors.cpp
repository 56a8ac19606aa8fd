// `outbox errors`: the texts of errors, each once.
#include <algorithm>
#include <cctype>
#include <map>
#include <memory>

#include "cli/console.hpp"
#include "cli/error_kind.hpp"
#include "cli/filter_options.hpp"
#include "cli/report.hpp"
#include "cli/shown_text.hpp"
#include "cli/target.hpp"
#include "cli/time_text.hpp"
#include "exit_status.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

using outbox::event_status;
using outbox::spi::error_group;

struct errors_options {
  target_options table;
  output_options output;
  filter_options filter;
  std::size_t limit = 20;
};

void merge(error_group& into, error_group const& from) {
  into.rows += from.rows;
  into.dead += from.dead;
  into.event_types = std::max(into.event_types, from.event_types) + (into.event_type == from.event_type ? 0 : 1);
  if (from.first) into.first = std::min(into.first.value_or(*from.first), *from.first);
  if (from.last) into.last = std::max(into.last.value_or(*from.last), *from.last);
}

// Texts that differ only in ids are one kind.
std::vector<error_group> by_kind(std::vector<error_group> const& groups) {
  std::map<std::string, error_group> kinds;
  for (auto const& g : groups) {
    auto const kind = kind_of_error(g.error);
    auto const [at, is_new] = kinds.emplace(kind, g);
    if (is_new) {
      at->second.error = kind;
    } else {
      merge(at->second, g);
    }
  }
  std::vector<error_group> all;
  all.reserve(kinds.size());
  for (auto& [text, g] : kinds) all.push_back(std::move(g));
  std::ranges::stable_sort(all, std::greater{}, &error_group::rows);
  return all;
}

int run(errors_options const& o) {
  console to{o.output};
  target const from{o.table};
  auto f = o.filter.filter();
  if (f.statuses.empty()) f.statuses = {event_status::created, event_status::retry, event_status::dead};
  f.newest = most_rows;
  auto const s = from.open(access::read);
  constexpr std::size_t most_texts = 10'000;
  auto groups = by_kind(s->backend().errors(f, most_texts));
  auto const now = s->now();
  bool const more = groups.size() > o.limit;
  if (more) groups.resize(o.limit);
  report table{{{"events", "EVENTS", true},
                {"dead", "DEAD", true},
                {"first", "FIRST"},
                {"last", "LAST"},
                {"type", "TYPE"},
                {"example", "FOR EXAMPLE"},
                {"error", "ERROR", false, true}}};
  for (auto const& g : groups) {
    auto type = text_cell(g.event_type);
    if (g.event_types > 1) type.text += " and others";
    table.add({number_cell(g.rows), number_cell(g.dead, g.dead > 0 ? look::bad : look::normal), age_cell(g.first, now),
               age_cell(g.last, now), type, text_cell(g.id), text_cell(g.error)});
  }
  if (table.empty()) to.say("No event has an error.");
  if (!table.empty() || to.chosen() == form::json) table.print(to);
  if (more) to.say("There are more: --limit is " + std::to_string(o.limit) + ".");
  return exit_good;
}

}  // namespace

void add_errors(command_tree& tree) {
  auto const o = std::make_shared<errors_options>();
  auto& verb = tree.add(
      "errors",
      {.summary = "list the errors of events, each text once, the most frequent first",
       .details = "Ids and long numbers in a text are shown as …, so that a thousand events with one cause are one "
                  "line. FIRST and LAST are when a dead event died, and when a pending one was written. Reads pending "
                  "and dead events among the newest 100,000.",
       .examples = {{"outbox errors --db sqlite:shop.db", "what goes wrong?"},
                    {"outbox errors --state dead --type order.placed", "why events of one type died"}}},
      [o] { return run(*o); });
  o->filter.add_to(verb, false);
  verb.add_option("-n,--limit", o->limit, "at most this many lines (20)")->type_name("N")->check(CLI::Range(1, 10'000));
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
