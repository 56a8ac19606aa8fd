// Delivering on PostgreSQL: from commit to DONE, and from commit to the listener.
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <thread>

#include "pace.hpp"
#include "postgres_by_hand.hpp"
#include "postgres_ours.hpp"
#include "suites.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

// Sessions report what they did when they end, and at leisure otherwise: until only this one is left.
void wait_for_reports(pg::client const& c) {
  while (c.ask("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'") != "1") {
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace

rows postgres_end_to_end(settings const& s, delivery_ledger& ledger) {
  auto const each = s.amount(500);
  std::vector<double> commits;
  auto const ours = [&]() -> std::vector<double> {
    auto const p = pg::new_place("ours");
    pg::client const c{p.connection};
    ledger.forget();
    wait_for_reports(c);
    auto const before = pg::server_counters::of(c);
    double time = 0;
    {
      auto node = pg::node_on(pg::store_of(p), ledger);
      node.start();
      time = seconds([&] {
        on_threads(pg::writers, [&](int t) { pg::write_of_ours(p, node.writer(), t, each, payload); });
        pg::wait_until_done(c, p);
      });
    }
    wait_for_reports(c);
    commits.push_back((pg::server_counters::of(c).commits - before.commits) / (pg::writers * each));
    return {pg::writers * each / time};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const p = pg::new_place("by_hand");
    auto const time = seconds([&] { on_threads(pg::writers, [&](int t) { pg::write_by_hand(p, t, each, payload); }); });
    return {pg::writers * each / time};
  };
  auto all =
      interleave(s,
                 {{"postgres.end_to_end", "events/s", at_least(0.8),
                   "4 writers as in write.1, a listener that does nothing, until every event is DONE; by hand: the "
                   "same writers in four round trips, and nothing delivers"}},
                 ours, by_hand);
  commits.erase(commits.begin());  // of the round that does not count
  all.push_back(
      alone({"postgres.commits_per_event", "commits", at_most(1.15),
             "pg_stat_database over end_to_end, all of it: writers, claims, settlements, and the benchmark's own "
             "questions"},
            commits));
  return all;
}

rows postgres_hot_latency(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(300);
  auto const ours = [&]() -> std::vector<double> {
    auto const p = pg::new_place("ours");
    arrival listener;
    auto node = pg::node_on(pg::store_of(p), ledger, [&] { listener.arrived(); });
    node.start();
    ledger.forget();
    outbox::postgres::connection db{p.connection};
    std::vector<double> samples;
    paced(count, [&](int i) {
      outbox::postgres::transaction tx{db};
      node.writer().write(tx, "order.placed", payload);
      tx.commit();
      auto const committed = steady::now();
      samples.push_back(std::max(0.0, microseconds(listener.wait_for(i + 1) - committed)));
    });
    return p50_p99(samples);
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const p = pg::new_place("by_hand");
    pg::writer_by_hand const hand{p};
    bare_hand_off thread;
    std::vector<double> samples;
    paced(count, [&](int i) {
      hand.db().run("BEGIN");
      hand.event(pg::id_of(0, i), payload);
      hand.db().run("COMMIT");
      auto const committed = steady::now();
      thread.give();
      samples.push_back(microseconds(thread.wait() - committed));
    });
    return p50_p99(samples);
  };
  std::string const what =
      "commit() returned until the listener is entered, 200 a second; by hand: the same commit, then a mutex and a "
      "condition variable to a waiting thread";
  return interleave(
      s, {{"postgres.hot_latency.p50", "us", at_most(2), what}, {"postgres.hot_latency.p99", "us", at_most(5), what}},
      ours, by_hand);
}

}  // namespace bench
