#include <sqlite3.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <outbox/sqlite.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "shop.hpp"

namespace demo {
namespace {

// What the ledger says about one order.
struct story {
  std::int64_t committed_at = 0;
  int delivered = 0, failed = 0, dead = 0, replayed = 0;
  bool hot = false;
  int attempt = 0;
  std::int64_t delivered_at = 0;
};

std::map<int, story> read_ledger(std::string const& path) {
  std::map<int, story> stories;
  std::ifstream in{path};
  for (std::string line; std::getline(in, line);) {
    std::istringstream words{line};
    std::string what;
    std::string source;
    int order = 0;
    std::int64_t at = 0;
    words >> what >> order >> at;
    auto& s = stories[order];
    if (what == "committed") s.committed_at = at;
    if (what == "failed") s.failed += 1;
    if (what == "dead") s.dead += 1;
    if (what == "replayed") s.replayed += 1;
    if (what == "delivered" && s.delivered++ == 0) {
      words >> source >> s.attempt;
      s.hot = source == "hot";
      s.delivered_at = at;
    }
  }
  return stories;
}

// The orders that are there: they share their transactions with the events.
std::set<int> committed_orders(std::string const& database) {
  std::set<int> ids;
  outbox::sqlite::connection db{database};
  auto const add = [](void* to, int, char** v, char**) {
    static_cast<std::set<int>*>(to)->insert(std::atoi(v[0]));
    return 0;
  };
  sqlite3_exec(db.handle(), "SELECT id FROM orders", add, &ids, nullptr);
  return ids;
}

double microseconds_at(std::vector<std::int64_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  return static_cast<double>(sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))]) / 1000;
}

void print(char const* name, std::size_t value, char const* remark = "") {
  std::printf("  %-24s %6zu   %s\n", name, value, remark);
}

}  // namespace

int judge(files const& f, int placed) {
  auto const orders = committed_orders(f.database);
  auto const stories = read_ledger(f.ledger);
  std::size_t hot = 0, cold = 0, retried = 0, dead = 0, replayed = 0, duplicates = 0, lost = 0, phantoms = 0;
  std::vector<std::int64_t> latencies;
  for (auto const& [order, s] : stories) {
    if (s.delivered == 0) continue;
    (s.hot ? hot : cold) += 1;
    retried += s.failed > 0 ? 1U : 0U;
    duplicates += static_cast<std::size_t>(s.delivered - 1);
    phantoms += orders.contains(order) ? 0U : 1U;
    if (s.hot && s.committed_at != 0) latencies.push_back(std::max<std::int64_t>(0, s.delivered_at - s.committed_at));
  }
  for (auto const& [order, s] : stories) {
    dead += s.dead > 0 ? 1U : 0U;
    replayed += s.replayed > 0 ? 1U : 0U;
  }
  for (auto const order : orders) {
    auto const s = stories.find(order);
    lost += s == stories.end() || s->second.delivered == 0 ? 1U : 0U;
  }
  std::ranges::sort(latencies);
  auto const counts = outbox::sqlite::open(f.database)->inspect().counts();
  bool const settled = counts.pending() == 0 && counts.dead == 0 && counts.done == orders.size();

  print("written", static_cast<std::size_t>(placed), "orders, each with an event in its transaction");
  print("rolled back", static_cast<std::size_t>(placed) - orders.size(), "or cut off by the kill: no order, no event");
  print("delivered hot", hot, "handed over by the commit, microseconds later");
  print("delivered cold", cold, "found in the table: retries, delays, replays, what the killed process left");
  print("retried", retried, "the carrier was closed the first time");
  print("dead", dead, "no such address");
  print("replayed", replayed, "after the address was repaired; all delivered");
  print("duplicates", duplicates, "the kill came between the delivery and the note that it was done");
  std::printf("  %-24s %6.0f / %.0f us   p50 / p99 of the hot ones\n\n", "commit to listener",
              microseconds_at(latencies, 0.5), microseconds_at(latencies, 0.99));
  if (!settled) std::printf("the table and the orders do not agree\n");
  std::printf("lost: %zu\nphantoms: %zu\n", lost, phantoms);
  return lost == 0 && phantoms == 0 && settled && !orders.empty() && replayed == dead ? 0 : 1;
}

}  // namespace demo
