#include "cli/bulk.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <outbox/error.hpp>

#include "cli/operator_name.hpp"
#include "cli/rows.hpp"
#include "cli/shown_text.hpp"
#include "cli/signals.hpp"
#include "cli/time_text.hpp"
#include "cli/tool_error.hpp"

namespace outbox_tool {
namespace {

using nlohmann::ordered_json;
using clock = std::chrono::steady_clock;

constexpr std::size_t sample_size = 5;

// Draws a line on standard error while the batches run.
class progress {
 public:
  progress(console const& to, std::string past, std::uint64_t expected)
      : to_{to}, past_{std::move(past)}, expected_{expected} {}
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress() {
    if (drawn_) to_.redraw("");
  }

  void show(std::uint64_t changed) {
    auto const now = clock::now();
    if (now - last_ < std::chrono::milliseconds{100}) return;
    last_ = now;
    drawn_ = true;
    auto const seconds = std::chrono::duration<double>{now - began_}.count();
    auto const rate = seconds > 0 ? static_cast<double>(changed) / seconds : 0;
    std::string line;
    if (expected_ > 0) {
      constexpr std::uint64_t width = 30;
      auto const full = std::min(width, changed * width / expected_);
      for (std::uint64_t i = 0; i < width; ++i) line += i < full ? "█" : "░";
      line += " ";
    }
    line += number_text(changed) + (expected_ > 0 ? " of " + number_text(expected_) : "") + " " + past_ + ", " +
            number_text(static_cast<std::uint64_t>(std::llround(rate))) + " a second";
    if (expected_ > changed && rate > 0) {
      line += ", " +
              duration_text(std::chrono::seconds{std::llround(static_cast<double>(expected_ - changed) / rate)}) +
              " left";
    }
    to_.redraw(line);
  }

 private:
  console const& to_;
  std::string past_;
  std::uint64_t expected_;
  clock::time_point began_ = clock::now(), last_{};
  bool drawn_ = false;
};

struct preview {
  std::uint64_t matched = 0;
  bool at_least = false;  ///< There are this many or more.

  [[nodiscard]] std::string text() const {
    return (at_least ? "at least " : "") + number_text(matched) + (matched == 1 ? " event" : " events");
  }
};

preview preview_of(console& to, outbox::store& s, outbox::event_filter const& f, bulk_options const& o) {
  auto& b = s.backend();
  preview p{.matched = b.count(f, most_rows)};
  p.at_least = p.matched >= most_rows;
  if (o.limit > 0 && p.matched > o.limit) p = {.matched = o.limit};
  if (p.matched == 0 || o.yes || to.chosen() == form::json) return p;
  auto const now = s.now();
  auto table = event_table();
  for (auto const& r : b.list(f, outbox::spi::list_order::oldest_first, sample_size)) add_event(table, r, now);
  if (o.dry_run) {
    table.print(to);
  } else {
    to.warn("The oldest of " + p.text() + ":");
    for (auto const& row : table.json()) {
      to.warn("  " + shown(row.value("id", "")) + "  " + shown(row.value("type", "")) + "  " +
              row.value("inserted_at", ""));
    }
  }
  return p;
}

void confirm(console const& to, bulk_options const& o, bulk_change const& what, preview const& p,
             std::string const& where) {
  if (o.yes) return;
  auto name = what.verb;
  name.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(name.front())));
  if (!to.can_ask()) {
    refuse("this would " + what.verb + " " + p.text() + " (" + shown(o.filter.words()) + ")",
           "There is no terminal to ask on: give --yes to do it, or --dry-run to look.");
  }
  if (!to.ask(name + " " + p.text() + " in " + shown(where) + "?"))
    throw tool_error{exit_failed, "nothing was changed"};
}

// What begin_audit() and end_audit() need, for tables that have an audit.
class audit_entry {
 public:
  audit_entry(outbox::spi::store& s, bulk_options const& o, bulk_change const& what, preview const& p,
              console const& to)
      : store_{s} {
    if (!s.capabilities().audit) {
      to.say("The table has no audit: this is not recorded.");
      return;
    }
    id_ = s.begin_audit({.who = operator_name(),
                         .verb = what.verb,
                         .filter = o.filter.words() + (o.limit > 0 ? " limit=" + std::to_string(o.limit) : ""),
                         .reason = o.reason,
                         .matched = p.matched});
  }
  void end(std::uint64_t changed) {
    if (id_ != 0) store_.end_audit(id_, changed);
  }
  [[nodiscard]] std::int64_t id() const noexcept { return id_; }

 private:
  outbox::spi::store& store_;
  std::int64_t id_ = 0;
};

void print(console& to, bulk_change const& what, preview const& p, std::uint64_t changed, std::int64_t audit) {
  if (to.chosen() == form::json) {
    ordered_json j{{"verb", what.verb}, {"matched", p.matched}, {"changed", changed}};
    j["audit"] = audit == 0 ? ordered_json{} : ordered_json(audit);
    to.document(j);
  } else if (to.chosen() == form::plain) {
    to.out(std::to_string(changed) + "\n");
  } else {
    to.out(number_text(changed) + (changed == 1 ? " event was " : " events were ") + what.past + ".\n");
  }
  to.flush();
}

}  // namespace

void bulk_options::add_to(CLI::App& verb) {
  filter.add_to(verb, true);
  verb.add_flag("--all", all, "all of them; needed if nothing else says which");
  verb.add_flag("-y,--yes", yes, "do not ask");
  verb.add_flag("--dry-run", dry_run, "show how many there are and the oldest, and change nothing");
  verb.add_option("--reason", reason, "why, for the audit")->type_name("TEXT");
  verb.add_option("--limit", limit, "at most this many; the oldest first")->type_name("N");
  verb.add_option("--batch", batch, "rows in a transaction (500)")->type_name("N")->check(CLI::Range(1, 10'000));
  verb.add_option("--rate", rate, "at most so many rows a second")->type_name("N")->check(CLI::NonNegativeNumber);
  verb.add_flag("--fail-if-empty", fail_if_empty, "exit with 3 if nothing matches");
  table.add_to(verb);
  output.add_to(verb);
}

int run_bulk(bulk_options const& o, bulk_change const& what, narrowing const& narrow) {
  console to{o.output};
  target const from{o.table};
  if (o.filter.empty() && !o.all) refuse("which events? Give ids, a filter, or --all", "--dry-run shows them first.");
  auto f = o.filter.filter();
  auto const s = from.open(o.dry_run ? access::read : access::change);
  narrow(f, s->now());
  auto const p = preview_of(to, *s, f, o);
  if (p.matched == 0) {
    to.say("No event matches.");
    print(to, what, p, 0, 0);
    return o.fail_if_empty ? exit_nothing : exit_good;
  }
  if (o.dry_run) {
    to.say("It would be " + p.text() + ". Nothing was changed." + (what.left.empty() ? "" : " " + what.left));
    if (to.chosen() == form::json) print(to, what, p, 0, 0);
    return exit_good;
  }
  confirm(to, o, what, p, from.shown());

  audit_entry audit{s->backend(), o, what, p, to};
  interruption const stop;
  std::uint64_t changed = 0;
  std::string problem;
  {
    progress line{to, what.past, p.at_least ? 0 : p.matched};
    auto const began = clock::now();
    try {
      while (!stop.came() && (p.at_least || changed < p.matched)) {
        auto const most = p.at_least ? o.batch : std::min<std::uint64_t>(o.batch, p.matched - changed);
        auto const n = what.change(s->backend(), f, most);
        if (n == 0) break;
        changed += n;
        line.show(changed);
        if (o.rate <= 0) continue;
        auto const due = began + std::chrono::duration_cast<clock::duration>(
                                     std::chrono::duration<double>{static_cast<double>(changed) / o.rate});
        static_cast<void>(stop.wait(std::chrono::duration_cast<std::chrono::milliseconds>(due - clock::now())));
      }
      audit.end(changed);
    } catch (outbox::error const& e) {
      problem = e.what();
    }
  }
  s->backend().hint();
  print(to, what, p, changed, audit.id());
  if (!problem.empty()) {
    throw tool_error{
        exit_partial, "it ended early: " + problem,
        number_text(changed) + " events were " + what.past + " and stay so. The same command goes on with the rest."};
  }
  if (!stop.came() && changed < p.matched && !what.left.empty()) to.say(what.left);
  if (!stop.came()) return exit_good;
  to.warn("Interrupted: the same command goes on with the rest.");
  return exit_interrupted;
}

}  // namespace outbox_tool
