// How much memory: each figure comes from a process of its own, so that nothing else is in it.
#include <sqlite3.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <latch>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <thread>

#include "probes.hpp"
#include "sqlite_by_hand.hpp"
#include "suites.hpp"
#include "support/temporary_directory.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

double rss_mb() {
  std::ifstream in{"/proc/self/statm"};
  double pages = 0;
  in >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

outbox::node make_node(std::string const& path, std::function<void()> listener) {
  outbox::single_node_options o{.store = outbox::sqlite::open(path), .log = nullptr};
  o.listeners.on("order.placed", [f = std::move(listener)](outbox::delivery const&) { f(); });
  return outbox::single_node(std::move(o));
}

void write(outbox::node const& n, outbox::sqlite::connection& db, int count) {
  for (int written = 0; written < count; written += 100) {
    std::vector<outbox::event> events;
    for (int i = 0; i < 100; ++i) events.push_back(outbox::event::json("order.placed", payload));
    outbox::sqlite::transaction tx{db};
    n.writer().write_all(tx, events);
    tx.commit();
  }
}

double idle(std::string const& path) {
  auto n = make_node(path, [] {});
  n.start();
  while (!n.health().active) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(1s);
  return rss_mb();
}

double overload(std::string const& path) {
  std::latch gate{1};
  auto n = make_node(path, [&] { gate.wait(); });
  n.start();
  while (!n.health().active) std::this_thread::sleep_for(1ms);
  outbox::sqlite::connection db{path, 60s};
  write(n, db, 100);
  auto const before = rss_mb();
  write(n, db, 100'000);
  auto const growth = rss_mb() - before;
  gate.count_down();
  n.stop(0ms);
  return growth;
}

// Another connection holds the database's lock for a minute while events wait to be settled.
double store_away(std::string const& path) {
  std::latch gate{1};
  auto n = make_node(path, [&] { gate.wait(); });
  n.start();
  while (!n.health().active) std::this_thread::sleep_for(1ms);
  outbox::sqlite::connection db{path, 60s};
  write(n, db, 1000);
  auto const before = rss_mb();
  database const other{path};
  other.run("BEGIN IMMEDIATE");
  gate.count_down();
  std::this_thread::sleep_for(60s);
  auto const growth = rss_mb() - before;
  other.run("ROLLBACK");
  return growth;
}

}  // namespace

void memory_probe(std::string const& name, std::string const& directory) {
  outbox::temporary_directory const dir{directory};
  auto const path = dir / "probe.db";
  create_tables(path);
  auto const mb = name == "rss.idle" ? idle(path) : name == "rss.overload" ? overload(path) : store_away(path);
  std::printf("%.2f\n", mb);
}

rows memory_use(settings const& s) {
  struct kind {
    char const* name;
    char const* what;
    int rounds;
  };
  kind const probes[] = {
      {"rss.idle", "the resident memory of a process with a started node and nothing to do", 3},
      {"rss.overload", "its growth while the listener is blocked and 100,000 events are written", 3},
      {"rss.store_away", "its growth while another process holds the database's lock for 60 s, 1000 events unsettled",
       1},
  };
  rows all;
  for (auto const& p : probes) {
    std::vector<double> figures;
    for (int i = 0; i < p.rounds; ++i) figures.push_back(std::stod(probe{p.name, {s.directory}}.hear()));
    all.push_back(alone({p.name, "MB", at_most(20), p.what}, figures));
  }
  return all;
}

}  // namespace bench
