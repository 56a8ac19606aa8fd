// Delivering on MariaDB: from commit to DONE, and from commit to the listener.
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>
#include <thread>

#include "cross.hpp"
#include "drain.hpp"
#include "mysql_by_hand.hpp"
#include "mysql_ours.hpp"
#include "pace.hpp"
#include "probes.hpp"
#include "suites.hpp"

namespace bench {
namespace {

// From the start of the node until all are DONE, or gone. Rows a second.
double drain_of_ours(int count, delivery_ledger& ledger, outbox::done_rows done) {
  auto const p = my::new_place("ours");
  my::fill(p, count, payload);
  outbox::multi_node_options o{.store = my::store_of(p, done), .log = nullptr};
  one_worker(o);
  counting_listener all{o, ledger, count};
  auto node = outbox::multi_node(std::move(o));
  my::client const c;
  return count / seconds([&] {
           node.start();
           all.wait();
           my::wait_until_done(c, p);
         });
}

double drain_by_hand(int count, bool erase) {
  auto const p = my::new_place("by_hand");
  my::fill(p, count, payload);
  my::drainer_by_hand const hand{p, erase};
  return count / seconds([&] {
           while (hand.drain_some(1000) > 0) {
           }
         });
}

}  // namespace

rows mysql_end_to_end(settings const& s, delivery_ledger& ledger) {
  auto const each = s.amount(500);
  std::vector<double> per_event;
  auto const ours = [&]() -> std::vector<double> {
    auto const p = my::new_place("ours");
    my::client const c;
    ledger.forget();
    double time = 0;
    double before = 0;
    {
      auto node = my::node_on(my::store_of(p), ledger);
      node.start();
      before = my::commits(c);
      time = seconds([&] {
        on_threads(my::writers, [&](int t) { my::write_of_ours(p, node.writer(), t, each, payload); });
        my::wait_until_done(c, p);
      });
      per_event.push_back((my::commits(c) - before) / (my::writers * each));
    }
    return {my::writers * each / time};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const p = my::new_place("by_hand");
    my::client const c;
    auto const time = seconds([&] { on_threads(my::writers, [&](int t) { my::write_by_hand(p, t, each, payload); }); });
    return {my::writers * each / time};
  };
  auto all = interleave(s,
                        {{"mysql.end_to_end", "events/s", at_least(0.8),
                          "4 writers as in write.1, a listener that does nothing, until every event is DONE; by hand: "
                          "the same writers in four round trips, and nothing delivers"}},
                        ours, by_hand);
  per_event.erase(per_event.begin());  // of the round that does not count
  all.push_back(
      alone({"mysql.commits_per_event", "commits", at_most(1.15),
             "trx_rw_commits of the server over end_to_end, all of it: writers, claims, settlements and heartbeats"},
            per_event));
  return all;
}

rows mysql_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done) {
  bool const erase = done == outbox::done_rows::erase;
  auto const count = s.amount(50'000);
  return interleave(
      s,
      {{erase ? "mysql.cold_drain.erase" : "mysql.cold_drain", "rows/s", erase ? no_bar : std::optional{at_least(1.0)},
        std::string{"50,000 rows without an owner, from the claim to "} + (erase ? "their deletion" : "DONE") +
            ", claims of 1000, one worker; by hand: a loop of a transaction that claims 1000 rows (SELECT … FOR UPDATE "
            "SKIP LOCKED, UPDATE by seq) and a statement that " +
            (erase ? "deletes" : "marks") + " them by seq"}},
      [&]() -> std::vector<double> { return {drain_of_ours(count, ledger, done)}; },
      [&]() -> std::vector<double> { return {drain_by_hand(count, erase)}; });
}

rows mysql_hot_latency(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(300);
  auto const ours = [&]() -> std::vector<double> {
    auto const p = my::new_place("ours");
    arrival listener;
    auto node = my::node_on(my::store_of(p), ledger, [&] { listener.arrived(); });
    node.start();
    ledger.forget();
    outbox::mysql::connection db{p.url};
    std::vector<double> samples;
    paced(count, [&](int i) {
      outbox::mysql::transaction tx{db};
      node.writer().write(tx, "order.placed", payload);
      tx.commit();
      auto const committed = steady::now();
      samples.push_back(std::max(0.0, microseconds(listener.wait_for(i + 1) - committed)));
    });
    return p50_p99(samples);
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const p = my::new_place("by_hand");
    my::writer_by_hand const hand{p};
    bare_hand_off thread;
    std::vector<double> samples;
    paced(count, [&](int i) {
      hand.db().run("START TRANSACTION");
      hand.event(my::id_of(0, i), payload);
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
      s, {{"mysql.hot_latency.p50", "us", at_most(2), what}, {"mysql.hot_latency.p99", "us", at_most(5), what}}, ours,
      by_hand);
}

void mysql_node_probe(std::vector<std::string> const& a) {
  shared_slots const slots{a.at(2), std::stoul(a.at(3))};
  outbox::multi_node_options o{.store = my::store_of({a.at(0), a.at(1)}), .log = nullptr};
  o.listeners.on("order.placed", [&](outbox::delivery const& d) { stamp(slots, d.id); });
  auto node = outbox::multi_node(std::move(o));
  node.start();
  static_cast<void>(tell_and_wait("ready"));
}

// Nothing tells the other process, so that this is half of its polling interval.
rows mysql_cross_latency(settings const& s) {
  auto const count = s.amount(300);
  std::vector<double> p50;
  std::vector<double> p99;
  for (int i = 0; i < std::min(3, s.rounds); ++i) {
    auto const p = my::new_place("ours");
    shared_slots const slots{cross_slots(count)};
    probe const other{"mysql.node", {p.url, p.database, slots.path(), std::to_string(slots.size())}};
    static_cast<void>(other.hear());
    auto node = outbox::writer_only({.store = my::store_of(p), .log = nullptr});
    outbox::mysql::connection db{p.url};
    auto const times = p50_p99(cross_times(slots, count, [&](std::string const& id, auto const& committed) {
      outbox::mysql::transaction tx{db};
      node.writer().write(tx, "order.placed", payload, {.id = id});
      tx.commit();
      committed();
    }));
    p50.push_back(times[0]);
    p99.push_back(times[1]);
  }
  std::string const what =
      "commit() returned in a writer_only until the listener is entered in a multi_node of another process, default "
      "options, 200 a second: the other process finds the events at its next poll";
  return {alone({"mysql.cross_latency.p50", "ms", no_bar, what}, p50),
          alone({"mysql.cross_latency.p99", "ms", no_bar, what}, p99)};
}

}  // namespace bench
