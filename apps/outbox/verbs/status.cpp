// `outbox status`: a verdict in words, then the figures behind it.
#include <cmath>
#include <csignal>
#include <ctime>
#include <memory>

#include "cli/console.hpp"
#include "cli/filter_options.hpp"
#include "cli/report.hpp"
#include "cli/rows.hpp"
#include "cli/signals.hpp"
#include "cli/target.hpp"
#include "cli/time_text.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"
#include "verdict.hpp"

namespace outbox_tool {
namespace {

using nlohmann::ordered_json;
using outbox::event_status;

struct status_options {
  target_options table;
  output_options output;
  bool watch = false;
  std::string every = "2s", max_lag = "1min";
  std::uint64_t max_dead = 0;
};

std::chrono::milliseconds duration_of(char const* option, std::string const& text) {
  if (auto const d = parse_duration(text)) return *d;
  refuse(std::string{option} + " is '" + text + "': write a time, as in 500ms, 30s or 2min");
}

// A table of another shape has no indexes that this tool knows: it gives counts only.
evidence gather(outbox::store& s) {
  auto const can = s.capabilities();
  auto& b = s.backend();
  evidence e{.keeps_done_rows = can.keeps_done_rows};
  if (can.overview) {
    e.table = b.overview(most_rows);
  } else {
    e.table.at = s.now();
    e.table.limit = most_rows;
    e.table.pending = b.count({.statuses = {event_status::created, event_status::retry}}, most_rows);
    e.table.dead = b.count({.statuses = {event_status::dead}}, most_rows);
  }
  e.nodes = s.inspect().nodes();
  auto settings = b.settings();
  e.pauses = std::move(settings.pauses);
  e.keyed = can.keys && settings.keyed;
  if (e.keyed) e.parked = b.parked_keys(most_parked);
  return e;
}

// Which key was parked first, since when, and behind which event.
void add_parked(facts& f, evidence const& e) {
  auto const n = e.parked.size();
  f.add("parked_keys", "parked keys",
        e.keyed ? count_cell(n, most_parked, n > 0 ? look::bad : look::normal) : cell{"", n});
  auto const first = n > 0 ? first_parked(e.parked) : outbox::parked_key{};
  f.add("parked_since", "  since", age_cell(first.since, e.table.at));
  f.add("parked_key", "  the first", text_cell(key_text(first.key)));
  f.add("parked_behind", "  behind event", text_cell(first.id));
}

facts facts_of(evidence const& e, verdict const& v) {
  auto const& t = e.table;
  facts f;
  auto const count = [&](std::uint64_t n, look how = look::normal) { return count_cell(n, t.limit, how); };
  f.add("pending", "pending", count(t.pending));
  f.add("due", "  due now", count(t.due));
  f.add("held", "  held by nodes", count(t.held));
  f.add("retrying", "  tried before", count(t.retrying, t.retrying > 0 ? look::warning : look::normal));
  f.add("delayed", "  delayed", count(t.delayed));
  f.add("keyed", "", {"", e.keyed});
  f.add("blocked", "  behind others of their key", e.keyed ? count(t.blocked) : cell{"", t.blocked});
  f.add("dead", "dead", count(t.dead, t.dead > 0 ? look::bad : look::normal));
  add_parked(f, e);
  auto const age = [&](std::optional<outbox::instant> since) -> cell {
    if (!since) return {};
    auto const seconds = std::chrono::duration<double>{t.at - *since}.count();
    return {duration_text(t.at - *since), std::round(seconds * 1000) / 1000};
  };
  f.add("oldest_seconds", "oldest waits for", age(t.waiting_since));
  f.add("lag_seconds", "due for", age(t.due_since));
  auto const rate = std::round(v.rate.per_minute * 10) / 10;
  auto const whole = static_cast<std::uint64_t>(std::llround(v.rate.per_minute));
  f.add("done_per_minute", "delivered a minute",
        {number_text(whole) + (v.rate.average ? " (average since the nodes started)" : ""), rate});
  f.add("growth_per_minute", "trend", {growth_text(t), t.growth ? ordered_json(*t.growth) : ordered_json{}});
  f.add("drain_seconds", "drained in",
        v.time_to_drain ? cell{duration_text(*v.time_to_drain), v.time_to_drain->count()} : cell{});
  f.add("nodes", "live nodes", number_cell(e.nodes.size()));
  std::string paused;
  auto list = ordered_json::array();
  for (auto const& p : e.pauses) {
    auto const text = (p.aggregate_type.empty() ? "" : p.aggregate_type + "/") + p.event_type;
    paused += (paused.empty() ? "" : ", ") + text;
    list.push_back(text);
  }
  f.add("paused", "paused", {text_cell(paused).text, list, look::warning});
  return f;
}

int print(console& to, target const& from, evidence const& e, verdict const& v) {
  auto const f = facts_of(e, v);
  bool const good = v.what == verdict::level::healthy;
  if (to.chosen() == form::json) {
    ordered_json j{{"verdict", name(v.what)},
                   {"sentence", v.sentence},
                   {"database", from.shown()},
                   {"at", rfc3339(e.table.at)},
                   {"since", v.since ? ordered_json(rfc3339(*v.since)) : ordered_json{}}};
    j.update(f.json());
    j["counts_stop_at"] = e.table.limit;
    to.document(j);
  } else {
    auto const how = good ? look::good : v.what == verdict::level::degraded ? look::warning : look::bad;
    to.out(to.chosen() == form::plain ? "verdict\t" + std::string{name(v.what)} + "\nsentence\t" + v.sentence + "\n"
                                      : to.painted(v.sentence, how) + "\n");
    f.print(to);
  }
  to.flush();
  return good ? exit_good : exit_failed;
}

int watch(console& to, target const& from, status_options const& o, limits const& l) {
  auto const every = duration_of("--every", o.every);
  interruption const until;
  int status = exit_good;
  std::shared_ptr<outbox::store> s;
  do {
    std::string problem;
    try {
      if (!s) s = from.open(access::read);
      auto const e = gather(*s);
      auto const v = judge(e, l);
      if (to.out_is_terminal() && to.chosen() == form::pretty) to.out("\033[H\033[2J");
      status = print(to, from, e, v);
    } catch (outbox::error const& x) {
      if (!x.transient()) throw;
      to.warn(std::string{"the database does not answer: "} + x.what());
      status = exit_unreachable;
      s.reset();
    }
  } while (!until.wait(every));
  return status;
}

int run(status_options const& o) {
  console to{o.output};
  target const from{o.table};
  limits const l{.lag = duration_of("--max-lag", o.max_lag), .dead = o.max_dead};
  if (o.watch) return watch(to, from, o, l);
  auto const s = from.open(access::read);
  auto const e = gather(*s);
  return print(to, from, e, judge(e, l));
}

}  // namespace

void add_status(command_tree& tree) {
  auto const o = std::make_shared<status_options>();
  auto& verb = tree.add(
      "status",
      {.summary = "say whether events are delivered, and if not, what is wrong and since when",
       .details =
           "The first line is the verdict: HEALTHY, DEGRADED or STALLED, in a sentence. STALLED: events are due, and "
           "no node delivers, or nothing was delivered in the last minute. DEGRADED: events are late, fail, wait "
           "long behind others of their key, or are DEAD, a key is parked, or a node says that it is not well.\n\nThe "
           "figures come from indexes, so they cost little on a large table. Counts stop at 100,000 and are shown with "
           "a ≥ then. It only reads.",
       .examples = {{"outbox status --db sqlite:shop.db", "is everything delivered?"},
                    {"outbox status --config /etc/outbox/relay.toml --watch",
                     "the same, drawn again every two seconds"},
                    {"outbox status --max-lag 5min --max-dead 10 --json",
                     "for monitoring: the database is in OUTBOX_DB"}},
       .status = "0 healthy; 1 degraded or stalled; 4 the database does not answer; 5 no outbox table."},
      [o] { return run(*o); });
  verb.add_flag("-w,--watch", o->watch, "draw it again and again until it is interrupted");
  verb.add_option("--every", o->every, "with --watch: how often (2s)")->type_name("TIME");
  verb.add_option("--max-lag", o->max_lag, "an event that is due for longer is late (1min)")->type_name("TIME");
  verb.add_option("--max-dead", o->max_dead, "more dead events than this are wrong (0)")->type_name("N");
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
