// `outbox tail`: events as they are written.
#include <algorithm>
#include <limits>
#include <memory>

#include "cli/console.hpp"
#include "cli/filter_options.hpp"
#include "cli/rows.hpp"
#include "cli/shown_text.hpp"
#include "cli/signals.hpp"
#include "cli/target.hpp"
#include "cli/time_text.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

using outbox::row_view;
using outbox::spi::list_order;

// How many rows a look reads: more than are written between two looks, one hopes. If not, the verb says so.
constexpr std::size_t window = 1000;

struct tail_options {
  target_options table;
  output_options output;
  filter_options filter;
  std::size_t lines = 10;
  bool no_follow = false;
  std::string every = "1s";
};

void print(console& to, row_view const& r, outbox::instant now) {
  auto const& e = r.event;
  if (to.chosen() == form::pretty) {
    auto const state = state_cell(r, now);
    auto const about = aggregate_text(e);
    to.out(to.painted(clock_text(r.inserted_at), look::faint) + "  " + shown(e.id()) + "  " + shown(e.type()) +
           (about.empty() ? "" : "  " + shown(about)) + "  " + to.painted(state.text, state.how) + "\n");
    return;
  }
  auto one = event_table();
  add_event(one, r, now);
  if (to.chosen() == form::json) {
    to.document(one.json().front());
  } else {
    one.print(to, false);
  }
}

class follower {
 public:
  follower(console& to, outbox::store& s, outbox::event_filter f) : to_{to}, store_{s}, filter_{std::move(f)} {
    filter_.newest = window;
  }

  /// Prints what is new, at most `most` of it, the oldest first.
  void look(std::size_t most) {
    auto rows = store_.backend().list(filter_, list_order::newest_first, window);
    std::erase_if(rows, [&](row_view const& r) { return r.seq <= last_; });
    if (began_ && rows.size() == window) to_.say("Some events were left out: more were written than one look reads.");
    if (rows.size() > most) rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(most), rows.end());
    std::ranges::reverse(rows);
    auto const now = store_.now();
    for (auto const& r : rows) {
      print(to_, r, now);
      last_ = std::max(last_, r.seq);
    }
    to_.flush();
    began_ = true;
  }

 private:
  console& to_;
  outbox::store& store_;
  outbox::event_filter filter_;
  std::int64_t last_ = std::numeric_limits<std::int64_t>::min();
  bool began_ = false;
};

int run(tail_options const& o) {
  console to{o.output};
  target const from{o.table};
  auto const every = parse_duration(o.every);
  if (!every || every->count() < 10) refuse("--every is '" + o.every + "': write a time from 10ms on");
  auto const f = o.filter.filter();
  auto const s = from.open(access::read);
  interruption const until;
  follower all{to, *s, f};
  all.look(o.lines);
  if (o.no_follow) return exit_good;
  while (!until.wait(*every)) {
    try {
      all.look(window);
    } catch (outbox::error const& e) {
      if (!e.transient()) throw;
      to.warn(std::string{"the database does not answer: "} + e.what());
    }
  }
  return exit_good;
}

}  // namespace

void add_tail(command_tree& tree) {
  auto const o = std::make_shared<tail_options>();
  auto& verb = tree.add(
      "tail",
      {.summary = "print events as they are written, until it is interrupted",
       .details =
           "Prints the last events first, then looks for new ones every second. An event is printed once, with the "
           "state that it has then. With --json it prints one object a line. It only reads.",
       .examples = {{"outbox tail --db sqlite:shop.db", "what is written?"},
                    {"outbox tail --type order.placed --json", "one type, for a program"},
                    {"outbox tail -n 100 --no-follow", "the last hundred"}}},
      [o] { return run(*o); });
  o->filter.add_to(verb, false);
  verb.add_option("-n,--lines", o->lines, "how many of the last events (10)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000));
  verb.add_flag("--no-follow", o->no_follow, "end after the last events");
  verb.add_option("--every", o->every, "how often it looks (1s)")->type_name("TIME");
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
