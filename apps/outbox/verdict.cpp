#include "verdict.hpp"

#include <algorithm>
#include <cmath>

#include "cli/shown_text.hpp"
#include "cli/time_text.hpp"

namespace outbox_tool {
namespace {

using outbox::instant;
using outbox::node_mode;
using outbox::node_row;
using outbox::spi::table_overview;
using std::chrono::duration;
using std::chrono::seconds;
using minutes_as_number = duration<double, std::ratio<60>>;

std::string counted(std::uint64_t n, std::uint64_t limit, char const* one, char const* many) {
  return (n >= limit ? "at least " : "") + number_text(n) + " " + (n == 1 ? one : many);
}

bool delivers(node_row const& n) { return n.mode != node_mode::writer_only && n.active; }

delivery_rate rate_of(evidence const& e) {
  if (e.keeps_done_rows) return {static_cast<double>(e.table.done_in_a_minute), false};
  delivery_rate r{.average = true};
  for (auto const& n : e.nodes) {
    if (!n.started_at) continue;
    auto const up = std::max(minutes_as_number{e.table.at - *n.started_at}.count(), 1.0 / 60);
    r.per_minute += static_cast<double>(n.done) / up;
  }
  return r;
}

// How long it takes until nothing that is not delayed waits, if things go on as in the last minute.
std::optional<seconds> drain_of(evidence const& e, delivery_rate const& rate) {
  auto const& t = e.table;
  auto const waiting = static_cast<double>(t.pending > t.delayed ? t.pending - t.delayed : 0);
  auto const less_per_minute = t.growth ? -static_cast<double>(*t.growth) : rate.per_minute;
  if (waiting == 0 || less_per_minute <= 0) return std::nullopt;
  return seconds{std::llround(waiting / less_per_minute * 60)};
}

std::string waiting_text(table_overview const& t) {
  std::string text = counted(t.pending, t.limit, "event waits", "events wait");
  if (t.waiting_since) text += ", the oldest for " + duration_text(t.at - *t.waiting_since);
  if (auto const g = growth_text(t); !g.empty()) text += ", " + g;
  return text;
}

// What nodes say themselves; each reason once.
std::string reasons_of(std::vector<node_row> const& nodes) {
  std::vector<std::string> said;
  for (auto const& n : nodes) {
    auto text = shown(n.name.empty() ? n.incarnation : n.name) + ": " + shown(n.reason);
    if (!n.reason.empty() && std::ranges::find(said, text) == said.end()) said.push_back(std::move(text));
  }
  std::string all;
  for (auto const& s : said) all += (all.empty() ? "" : "; ") + s;
  return all;
}

// Why events that are not due wait for long: some fail, or stand behind an event that is deferred or still running.
std::string slow_text(table_overview const& t) {
  std::string text;
  if (t.retrying > 0) {
    text = counted(t.retrying, t.limit, "event fails and is", "events fail and are") + " tried again";
  }
  if (t.blocked > 0) {
    text += (text.empty() ? "" : "; ") + counted(t.blocked, t.limit, "event waits behind another of its key",
                                                 "events wait behind others of their key");
  }
  return text;
}

void join(std::string& sentence, std::string const& part) {
  if (!part.empty()) sentence += (sentence.empty() ? "" : ". ") + part;
}

}  // namespace

std::string_view name(verdict::level l) noexcept {
  switch (l) {
    case verdict::level::healthy: return "healthy";
    case verdict::level::degraded: return "degraded";
    case verdict::level::stalled: return "stalled";
  }
  return "?";
}

outbox::parked_key const& first_parked(std::vector<outbox::parked_key> const& parked) {
  return *std::ranges::min_element(parked, {},
                                   [](outbox::parked_key const& k) { return k.since.value_or(instant::max()); });
}

std::string growth_text(table_overview const& t) {
  if (!t.growth) return {};
  if (*t.growth > 0) return "growing by " + number_text(static_cast<std::uint64_t>(*t.growth)) + " a minute";
  if (*t.growth < 0) return "getting less by " + number_text(static_cast<std::uint64_t>(-*t.growth)) + " a minute";
  return "steady";
}

verdict judge(evidence const& e, limits const& l) {
  auto const& t = e.table;
  verdict v;
  v.rate = rate_of(e);
  v.time_to_drain = drain_of(e, v.rate);
  bool const late = t.due_since && t.at - *t.due_since > l.lag;
  bool const alone = std::ranges::none_of(e.nodes, delivers);
  auto const reasons = reasons_of(e.nodes);
  std::string problems;
  if (t.due > 0 && alone) {
    v.what = verdict::level::stalled;
    v.time_to_drain.reset();  // what was, before the nodes went
    v.since = t.last_ended && *t.last_ended > *t.due_since ? t.last_ended : t.due_since;
    join(problems, "no live node delivers from this table; " + waiting_text(t));
  } else if (late) {
    v.what = t.done_in_a_minute == 0 && e.keeps_done_rows ? verdict::level::stalled : verdict::level::degraded;
    v.since = t.due_since;
    join(problems, "events are due and not claimed; " + waiting_text(t));
  } else if (t.waiting_since && t.at - *t.waiting_since > l.lag && !slow_text(t).empty()) {
    v.what = verdict::level::degraded;
    v.since = t.waiting_since;
    join(problems, slow_text(t) + "; " + waiting_text(t));
  }
  if (!reasons.empty()) {
    v.what = std::max(v.what, verdict::level::degraded);
    join(problems, reasons);
  }
  if (t.dead > l.dead) {
    v.what = std::max(v.what, verdict::level::degraded);
    if (!v.since) v.since = t.last_dead;
    join(problems, counted(t.dead, t.limit, "event is", "events are") + " DEAD" +
                       (t.last_dead ? ", the last since " + clock_text(*t.last_dead) : ""));
  }
  if (!e.parked.empty()) {
    v.what = std::max(v.what, verdict::level::degraded);
    if (!v.since) v.since = first_parked(e.parked).since;
    join(problems, counted(e.parked.size(), most_parked, "key is parked behind a dead event",
                           "keys are parked behind dead events"));
  }
  if (v.what == verdict::level::healthy) {
    auto const rate = static_cast<std::uint64_t>(std::llround(v.rate.per_minute));
    auto const pending = t.pending == 0 ? std::string{"nothing waits"} : waiting_text(t);
    v.sentence = "HEALTHY: " + pending + "; " + number_text(rate) + " delivered in " +
                 (v.rate.average ? "an average minute" : "the last minute");
  } else {
    v.sentence = (v.what == verdict::level::stalled ? "STALLED" : "DEGRADED") +
                 (v.since ? " since " + clock_text(*v.since) : std::string{}) + ": " + problems;
  }
  if (!e.pauses.empty()) {
    join(v.sentence, counted(e.pauses.size(), UINT64_MAX, "route is", "routes are") + " paused");
  }
  v.sentence += ".";
  return v;
}

}  // namespace outbox_tool
