// outbox_bench [--only NAME] [--rounds N] [--scale X] [--report FILE] [--directory DIR]
// outbox_bench --plot FILE [--directory DIR]
//
// Prints a table, writes the report and draws its pictures into the directory; --plot draws them again. The exit code
// is 0 also where a bar is missed: it measures, and others judge.
// --only takes a whole name, such as sqlite.cold_drain, or a part that ends before a dot: sqlite, sqlite.cold_drain.*.
// The database may be left out: keyed, cold_drain.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "about.hpp"
#include "plot.hpp"
#include "probes.hpp"
#include "report.hpp"
#include "suites.hpp"

namespace {

struct arguments {
  std::string only, report = "report.json", plot;
  bench::settings settings{.directory = "."};
};

[[noreturn]] void usage(char const* program) {
  std::fprintf(stderr,
               "usage: %s [--only NAME] [--rounds N] [--scale X] [--report FILE] [--directory DIR]\n"
               "       %s --plot REPORT [--directory DIR]\n",
               program, program);
  std::exit(2);
}

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; i += 2) {
    std::string const flag = argv[i];
    if (i + 1 == argc) usage(argv[0]);
    std::string const value = argv[i + 1];
    if (flag == "--only") {
      a.only = value;
    } else if (flag == "--rounds") {
      a.settings.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (flag == "--scale") {
      a.settings.scale = std::strtod(value.c_str(), nullptr);
    } else if (flag == "--report") {
      a.report = value;
    } else if (flag == "--plot") {
      a.plot = value;
    } else if (flag == "--directory") {
      a.settings.directory = value;
    } else {
      usage(argv[0]);
    }
  }
  return a;
}

// A suite whose row has this very name runs alone; otherwise those that begin with it, with or without the database.
bool wanted(bench::suite const& s, std::string const& only, bool exact) {
  auto const matches = [&](std::string const& name) { return name.starts_with(only) || only.starts_with(name + "."); };
  for (auto const& name : s.names) {
    if (exact ? name == only : matches(name) || matches(name.substr(name.find('.') + 1))) return true;
  }
  return false;
}

bench::report run(std::vector<bench::suite> const& suites, std::string const& only) {
  bool exact = false;
  for (auto const& s : suites) exact = exact || wanted(s, only, true);
  bench::report all;
  for (auto const& s : suites) {
    if (!wanted(s, only, exact)) continue;
    auto const time = bench::seconds([&] {
      for (auto& r : s.run()) all.rows.push_back(std::move(r));
    });
    all.seconds[s.database()] += time;
    std::fprintf(stderr, "%-32s %5.0f s\n", s.names.front().c_str(), time);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc > 2 && std::string{argv[1]} == "--probe") return bench::run_probe(argv[2], {argv + 3, argv + argc});
  auto const a = parse(argc, argv);
  bench::delivery_ledger on_sqlite, on_postgres, on_mysql, on_redis;
  auto all = a.plot.empty() ? run(bench::all_suites(a.settings, on_sqlite, on_postgres, on_mysql, on_redis), a.only)
                            : bench::read_json(a.plot);
  if (a.plot.empty()) {
    all.about = bench::about_this_run(a.settings, {all.seconds.contains("postgres") || all.seconds.contains("kafka"),
                                                   all.seconds.contains("mysql"), all.seconds.contains("redis")});
    bench::print(all);
    bench::write_json(all, a.report);
    std::printf("\n%s\n", a.report.c_str());
  }
  for (auto const& path : bench::write_plots(all, a.settings.directory)) std::printf("%s\n", path.c_str());
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "outbox_bench: %s\n", e.what());
  return 1;
}
