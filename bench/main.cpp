// outbox_bench [--only PREFIX] [--rounds N] [--scale X] [--report FILE] [--directory DIR]
//
// Prints a table and writes the report; the exit code is 0 also where a bar is missed: it measures, and others judge.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "report.hpp"
#include "suites.hpp"

namespace {

struct arguments {
  std::string only, report = "report.json", probe;
  bench::settings settings{.directory = "."};
};

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string const flag = argv[i];
    std::string const value = argv[i + 1];
    if (flag == "--only") {
      a.only = value;
    } else if (flag == "--rounds") {
      a.settings.rounds = std::max(1, std::atoi(value.c_str()));
    } else if (flag == "--scale") {
      a.settings.scale = std::strtod(value.c_str(), nullptr);
    } else if (flag == "--report") {
      a.report = value;
    } else if (flag == "--directory") {
      a.settings.directory = value;
    } else if (flag == "--probe") {
      a.probe = value;
    } else {
      std::fprintf(stderr, "usage: %s [--only PREFIX] [--rounds N] [--scale X] [--report FILE] [--directory DIR]\n",
                   argv[0]);
      std::exit(2);
    }
  }
  return a;
}

}  // namespace

int main(int argc, char** argv) try {
  auto const a = parse(argc, argv);
  if (!a.probe.empty()) return bench::run_probe(a.probe, a.settings.directory) ? 0 : 2;
  bench::delivery_ledger ledger;
  bench::rows all;
  auto const wanted = [&](std::string const& name) { return name.starts_with(a.only) || a.only.starts_with(name); };
  auto const run = [&](std::string const& name, auto&& suite) {
    if (!wanted(name)) return;
    for (auto& r : suite()) all.push_back(std::move(r));
  };
  auto const& s = a.settings;
  run("sqlite.write.1", [&] { return bench::sqlite_write(s); });
  run("sqlite.write_all", [&] { return bench::sqlite_write_all(s); });
  run("sqlite.end_to_end", [&] { return bench::sqlite_end_to_end(s, ledger); });
  run("sqlite.cold_drain", [&] { return bench::sqlite_cold_drain(s, ledger, outbox::done_rows::keep); });
  run("sqlite.cold_drain.erase", [&] { return bench::sqlite_cold_drain(s, ledger, outbox::done_rows::erase); });
  run("sqlite.hot_latency", [&] { return bench::sqlite_hot_latency(s, ledger); });
  run("sqlite.claim", [&] { return bench::sqlite_claims(s); });
  run("sqlite.retry_lateness", [&] { return bench::sqlite_retry_lateness(s); });
  run("rss", [&] { return bench::memory_use(s, argv[0]); });
  run("sqlite.duplicates", [&]() -> bench::rows {
    return {bench::alone({"sqlite.duplicates", "events", bench::at_most(0),
                          "deliveries beyond the first of an event, over end_to_end, cold_drain and hot_latency"},
                         {static_cast<double>(ledger.duplicates())})};
  });
  bench::delivery_ledger on_postgres;
  run("postgres.write.", [&] { return bench::postgres_write(s); });
  run("postgres.write_all", [&] { return bench::postgres_write_all(s); });
  run("postgres.end_to_end", [&] { return bench::postgres_end_to_end(s, on_postgres); });
  run("postgres.cold_drain", [&] { return bench::postgres_cold_drain(s, on_postgres, outbox::done_rows::keep); });
  run("postgres.cold_drain.erase",
      [&] { return bench::postgres_cold_drain(s, on_postgres, outbox::done_rows::erase); });
  run("postgres.hot_latency", [&] { return bench::postgres_hot_latency(s, on_postgres); });
  run("postgres.claim", [&] { return bench::postgres_claims(s); });
  run("postgres.wal", [&] { return bench::postgres_wal(s, on_postgres); });
  run("postgres.duplicates", [&]() -> bench::rows {
    return {bench::alone({"postgres.duplicates", "events", bench::at_most(0),
                          "deliveries beyond the first of an event, over end_to_end, cold_drain, hot_latency and wal"},
                         {static_cast<double>(on_postgres.duplicates())})};
  });
  bench::print(all);
  bench::write_json(all, a.report);
  std::printf("\n%s\n", a.report.c_str());
  return 0;
} catch (std::exception const& e) {
  std::fprintf(stderr, "outbox_bench: %s\n", e.what());
  return 1;
}
