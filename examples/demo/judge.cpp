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

// The entries of the ledger about one order.
struct story {
  bool written = false;
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
    if (what == "written") s.written = true;
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

// The committed orders: each was written in the transaction of its event.
std::set<int> committed_orders(std::string const& database) {
  outbox::sqlite::connection db{database};
  auto const ids = db.query<int>("SELECT id FROM orders");
  return {ids.begin(), ids.end()};
}

double microseconds_at(std::vector<std::int64_t> const& sorted, double share) {
  if (sorted.empty()) return 0;
  return static_cast<double>(sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))]) / 1000;
}

void print(char const* name, std::size_t value, char const* remark = "") {
  std::printf("  %-24s %6zu   %s\n", name, value, remark);
}

struct tally {
  std::size_t written = 0, committed = 0, rolled_back = 0;
  std::size_t hot = 0, cold = 0, deliveries = 0, retried = 0, dead = 0, replayed = 0;
  std::size_t lost = 0, phantoms = 0;
  std::vector<std::int64_t> latencies{};
};

tally count(std::map<int, story> const& stories, std::set<int> const& orders) {
  tally t{.committed = orders.size()};
  for (auto const& [order, s] : stories) {
    t.written += s.written ? 1U : 0U;
    t.rolled_back += s.written && rolls_back(order) ? 1U : 0U;
    t.dead += s.dead > 0 ? 1U : 0U;
    t.replayed += s.replayed > 0 ? 1U : 0U;
    if (s.delivered == 0) continue;
    (s.hot ? t.hot : t.cold) += 1;
    t.deliveries += static_cast<std::size_t>(s.delivered);
    t.retried += s.failed > 0 ? 1U : 0U;
    t.phantoms += orders.contains(order) ? 0U : 1U;
    if (s.hot && s.committed_at != 0) t.latencies.push_back(std::max<std::int64_t>(0, s.delivered_at - s.committed_at));
  }
  for (auto const order : orders) {
    auto const s = stories.find(order);
    t.lost += s == stories.end() || s->second.delivered == 0 ? 1U : 0U;
  }
  std::ranges::sort(t.latencies);
  return t;
}

void show(tally const& t) {
  print("written", t.written, "orders, each with an event in its transaction");
  print("  committed", t.committed, "these must be delivered");
  print("  rolled back", t.rolled_back, "by the service: no order, no event");
  print("  cut off by the kill", t.written - t.rolled_back - t.committed, "before the commit: no order, no event");
  print("delivered hot", t.hot, "handed over by the commit, microseconds later");
  print("delivered cold", t.cold, "found in the table: retries, delays, replays, what the killed process left");
  print("retried", t.retried, "the carrier was closed the first time");
  print("dead", t.dead, "no such address");
  print("replayed", t.replayed, "after the address was repaired; all delivered");
  std::printf("  %-24s %6.0f / %.0f us   p50 / p99 on the hot path; 0: before commit() had returned\n",
              "commit to listener", microseconds_at(t.latencies, 0.5), microseconds_at(t.latencies, 0.99));
  auto const again = t.deliveries - t.hot - t.cold;
  std::printf("  %-24s %6zu   of %zu deliveries, %.1f %%: at least once, not exactly once\n\n", "delivered again",
              again, t.deliveries,
              100.0 * static_cast<double>(again) / static_cast<double>(std::max<std::size_t>(t.deliveries, 1)));
  if (again > 0) {
    std::printf(
        "  A busy node notes what is done every 5 to 50 ms, for many events in one commit. The kill took the last of\n"
        "  these notes, so those events were delivered again; a receiver recognises them by the event's id.\n\n");
  }
}

}  // namespace

int judge(files const& f) {
  auto const orders = committed_orders(f.database);
  auto const t = count(read_ledger(f.ledger), orders);
  auto const counts = outbox::sqlite::open(f.database)->inspect().counts();
  bool const settled = counts.pending() == 0 && counts.dead == 0 && counts.done == orders.size();
  show(t);
  if (!settled) std::printf("the table and the orders do not agree\n");
  std::printf("lost: %zu\nphantoms: %zu\n", t.lost, t.phantoms);
  return t.lost == 0 && t.phantoms == 0 && settled && !orders.empty() && t.replayed == t.dead ? 0 : 1;
}

}  // namespace demo
