// `outbox bench`: what this database can do, from this machine, now.
#include <cmath>
#include <csignal>
#include <memory>
#include <outbox/error.hpp>
#include <system_error>

#include "bench/measure.hpp"
#include "cli/console.hpp"
#include "cli/report.hpp"
#include "cli/shown_text.hpp"
#include "cli/signals.hpp"
#include "cli/target.hpp"
#include "cli/time_text.hpp"
#include "cli/tool_error.hpp"
#include "verbs/verbs.hpp"

namespace outbox_tool {
namespace {

using nlohmann::ordered_json;

struct bench_options {
  target_options table;
  output_options output;
  std::string time = "30s";
  std::size_t connections = 4, payload = 256;
  bool yes = false;
};

measure_options checked(bench_options const& o) {
  auto const time = parse_duration(o.time);
  if (!time || time->count() < 1000 || *time > std::chrono::minutes{10}) {
    refuse("--time is '" + o.time + "': write a time from 1s to 10min");
  }
  return {.time = *time, .connections = o.connections, .payload = o.payload};
}

void announce(console const& to, target const& from, bench_place const& where, measure_options const& o) {
  to.say("This measures " + shown(from.shown()) + " for " + duration_text(o.time) + "; up to " +
         std::to_string(o.connections) + " connections write.");
  to.say("It writes events to " + shown(where.name()) + ", which it makes and drops; your tables are not touched.");
  to.say("If this process is killed, this drops it: " + shown(where.drop_text()));
}

void confirm(console const& to, bool yes) {
  if (yes) return;
  if (!to.can_ask()) {
    refuse("this would load the database", "There is no terminal to ask on: give --yes to do it.");
  }
  if (!to.ask("Measure now? Other programs on this database will be slower meanwhile.")) {
    throw tool_error{exit_failed, "nothing was done"};
  }
}

[[noreturn]] void cannot_make(bench_place const& where, std::string const& why, bool forbidden) {
  throw tool_error{forbidden ? exit_permission : exit_failed, "cannot make " + where.name() + ": " + why,
                   forbidden ? where.rights() : ""};
}

// The place while it is there. However the measuring ends, it is dropped then.
class existing_place {
 public:
  existing_place(console const& to, bench_place& p) : to_{to}, place_{p} {
    try {
      place_.create();
    } catch (outbox::error const& e) {
      if (e.transient()) drop();  // the answer was lost: it may have been made
      if (status_of(e) != exit_permission) throw;
      cannot_make(place_, e.what(), true);
    } catch (std::system_error const& e) {
      cannot_make(place_, e.code().message(), e.code() == std::errc::permission_denied);
    }
  }
  existing_place(existing_place const&) = delete;
  existing_place& operator=(existing_place const&) = delete;
  ~existing_place() { drop(); }

  /// Returns false if it is still there; then the person was told how to drop it.
  bool drop() noexcept {
    if (dropped_) return true;
    dropped_ = true;
    try {
      place_.drop();
      return true;
    } catch (std::exception const& e) {
      to_.warn("Cannot drop " + shown(place_.name()) + ": " + shown(e.what()));
      to_.warn("This drops it: " + shown(place_.drop_text()));
      return false;
    }
  }

 private:
  console const& to_;
  bench_place& place_;
  bool dropped_ = false;
};

// A closed pipe must not end the process before the place is dropped.
class no_broken_pipe {
 public:
  no_broken_pipe() : before_{std::signal(SIGPIPE, SIG_IGN)} {}
  no_broken_pipe(no_broken_pipe const&) = delete;
  no_broken_pipe& operator=(no_broken_pipe const&) = delete;
  ~no_broken_pipe() { std::signal(SIGPIPE, before_); }

 private:
  void (*before_)(int);
};

double rounded(double v) { return std::round(v * 10) / 10; }

/// One figure: its name for scripts, its name for people, its value and what limits it.
struct figure {
  std::string key, title;
  cell value;
  std::string limit{};
};

figure time_figure(std::string key, std::string title, double us, std::string limit = {}) {
  return {std::move(key), std::move(title), {microseconds_text(us), rounded(us)}, std::move(limit)};
}

figure rate_figure(std::string key, std::string title, double per_second, std::string limit) {
  auto const whole = static_cast<std::uint64_t>(std::llround(per_second));
  return {std::move(key), std::move(title), {number_text(whole) + " /s", rounded(per_second)}, std::move(limit)};
}

std::vector<figure> figures_of(measurements const& m, measure_options const& o, int round_trips) {
  auto const why = explain(m, o, round_trips);
  auto const n = std::to_string(o.connections) + (o.connections == 1 ? " connection" : " connections");
  return {
      time_figure("round_trip_p50_us", "smallest statement, p50", m.round_trip.percentile(0.5), why.round_trip),
      time_figure("round_trip_p99_us", "smallest statement, p99", m.round_trip.percentile(0.99)),
      rate_figure("write_one_per_second", "writes, 1 connection", m.one.per_second(), why.one),
      time_figure("write_one_p50_us", "  one write, p50", m.write_one.percentile(0.5)),
      time_figure("write_one_p99_us", "  one write, p99", m.write_one.percentile(0.99)),
      rate_figure("write_several_per_second", "writes, " + n, m.several.per_second(), why.several),
      time_figure("write_several_p50_us", "  one write, p50", m.write_several.percentile(0.5)),
      time_figure("write_several_p99_us", "  one write, p99", m.write_several.percentile(0.99)),
      time_figure("hot_p50_us", "commit to listener, p50", m.hot.percentile(0.5), why.hot),
      time_figure("hot_p99_us", "commit to listener, p99", m.hot.percentile(0.99)),
      rate_figure("cold_per_second", "delivered from the table", m.cold.per_second(), why.cold),
  };
}

ordered_json histogram_of(samples const& s) {
  auto buckets = ordered_json::array();
  for (auto const& b : s.buckets()) buckets.push_back({{"from_us", b.from}, {"to_us", b.to}, {"count", b.count}});
  return {{"count", s.size()}, {"buckets", std::move(buckets)}};
}

void print_json(console& to, target const& from, measurements const& m, measure_options const& o,
                std::vector<figure> const& figures) {
  auto values = ordered_json::object(), limits = ordered_json::object();
  for (auto const& f : figures) {
    values[f.key] = f.value.value;
    if (!f.limit.empty()) limits[f.key] = f.limit;
  }
  to.document({{"database", from.shown()},
               {"product", m.product},
               {"seconds", static_cast<double>(o.time.count()) / 1000},
               {"connections", o.connections},
               {"payload_bytes", o.payload},
               {"figures", std::move(values)},
               {"limits", std::move(limits)},
               {"counts",
                {{"round_trip", m.round_trip.size()},
                 {"write_one", m.one.count},
                 {"write_several", m.several.count},
                 {"hot", m.hot.size()},
                 {"hot_late", m.hot_late},
                 {"cold", m.cold.count},
                 {"conflicts", m.conflicts}}},
               {"histograms",
                {{"write_one", histogram_of(m.write_one)},
                 {"write_several", histogram_of(m.write_several)},
                 {"hot", histogram_of(m.hot)}}},
               {"notes", m.notes}});
}

void print_plot(console& to, std::string const& title, samples const& s) {
  if (to.chosen() != form::pretty || s.empty()) return;
  to.out("\n" + to.painted(title, look::bold) + ", " + number_text(s.size()) + " of them\n" + plot(s, to.width()));
}

void print(console& to, target const& from, measurements const& m, measure_options const& o, int round_trips) {
  auto const figures = figures_of(m, o, round_trips);
  if (to.chosen() == form::json) {
    print_json(to, from, m, o, figures);
    to.flush();
    return;
  }
  report table{{{.key = "figure", .title = "figure"},
                {.key = "value", .title = "value", .right = true},
                {.key = "limit", .title = "what limits it", .wide = true}}};
  for (auto const& f : figures) {
    bool const pretty = to.chosen() == form::pretty;
    table.add({{pretty ? f.title : f.key, f.key}, f.value, text_cell(f.limit, look::faint)});
  }
  if (to.chosen() == form::pretty) to.out(to.painted(shown(m.product), look::bold) + "\n");
  table.print(to);
  print_plot(to, "one write on one connection", m.write_one);
  print_plot(to, "commit to listener", m.hot);
  to.flush();
  for (auto const& n : m.notes) to.say(shown(n));
  to.say("These figures are of this machine and this moment: they promise nothing.");
}

int run(bench_options const& o) {
  console to{o.output};
  auto const how = checked(o);
  target const from{o.table};
  auto const where = choose_place(store_url::parse(from.url(), "bench"), from.timeout());
  announce(to, from, *where, how);
  confirm(to, o.yes);
  measurements found;
  bool clean = false, interrupted = false;
  {
    no_broken_pipe const pipes;
    interruption const stop;
    existing_place there{to, *where};
    found = measure(*where, how, to, stop);
    clean = there.drop();
    interrupted = stop.came();
  }
  if (interrupted) {
    to.warn(clean ? "Interrupted: nothing is left behind." : "Interrupted.");
    return exit_interrupted;
  }
  print(to, from, found, how, where->round_trips());
  return clean ? exit_good : exit_failed;
}

}  // namespace

void add_bench(command_tree& tree) {
  auto const o = std::make_shared<bench_options>();
  auto& verb = tree.add(
      "bench",
      {.summary = "measure what a database can do, from this machine, in half a minute",
       .details =
           "Writes and delivers events as an application does, and says how many a second and how long each takes: "
           "writes on one connection and on several, delivery right after the commit, delivery of what waits in the "
           "table, and the smallest statement beside them. It says what limits a figure where that can be told.\n\nIt "
           "works in a place of its own, which it asks about, makes and drops: a schema on PostgreSQL, a database on "
           "MariaDB and MySQL, an outbox on Redis, a file beside the database on SQLite. Your tables are not touched, "
           "but "
           "other programs on the same database are slower meanwhile. The figures are of this machine and this moment: "
           "they promise "
           "nothing.",
       .examples = {{"outbox bench --db postgresql://bench@db1/shop", "half a minute, after a question"},
                    {"outbox bench --db sqlite:shop.db --time 10s --yes", "without a question"},
                    {"outbox bench --config /etc/outbox/relay.toml --yes --json > before.json", "to compare later"}},
       .status = "0 measured; 1 the place could not be dropped, and how to drop it was printed; 2 not confirmed; 6 "
                 "the user may not make the place; 130 interrupted, nothing is left behind."},
      [o] { return run(*o); });
  verb.add_option("--time", o->time, "how long all of it takes (30s)")->type_name("TIME");
  verb.add_option("--connections", o->connections, "how many write at the same time (4)")
      ->type_name("N")
      ->check(CLI::Range(1, 64).description(""));
  verb.add_option("--payload", o->payload, "bytes of an event's payload (256)")
      ->type_name("N")
      ->check(CLI::Range(2, 1'000'000).description(""));
  verb.add_flag("-y,--yes", o->yes, "do not ask");
  o->table.add_to(verb);
  o->output.add_to(verb);
}

}  // namespace outbox_tool
