// Delivering on PostgreSQL: from commit to DONE, a table full of rows, what it costs the server.
#include <condition_variable>
#include <mutex>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <thread>

#include "pace.hpp"
#include "postgres_by_hand.hpp"
#include "suites.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

constexpr int writers = 4;

std::string id_of(int thread, int i) { return "0000000000000000-" + std::to_string(thread) + "-" + std::to_string(i); }

std::shared_ptr<outbox::store> store_of(pg::place const& p, outbox::done_rows done = outbox::done_rows::keep) {
  outbox::postgres::options o;
  o.schema = p.schema;
  o.log = nullptr;
  o.done_rows = done;
  return outbox::postgres::open(p.connection, o);
}

void wait_until_done(pg::client const& c, pg::place const& p) {
  auto const sql = "SELECT EXISTS (SELECT 1 FROM " + p.table() + " WHERE status IN (0, 2) AND blocked IS NOT TRUE)";
  while (c.ask(sql) == "t") std::this_thread::sleep_for(500us);
}

// What the server counts: commits of the database, and bytes of its log.
struct server_counters {
  double commits, wal_bytes;
  static server_counters of(pg::client const& c) {
    c.run("SELECT pg_stat_force_next_flush()");
    return {std::stod(c.ask("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")),
            std::stod(c.ask("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))};
  }
};

// Sessions report what they did when they end, and at leisure otherwise: until only this one is left.
void wait_for_reports(pg::client const& c) {
  while (c.ask("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'") != "1") {
    std::this_thread::sleep_for(1ms);
  }
}

outbox::node node_on(pg::place const& p, delivery_ledger& ledger, std::function<void()> seen = {}) {
  outbox::multi_node_options o{.store = store_of(p), .log = nullptr};
  o.listeners.on("order.placed", [&ledger, seen](outbox::delivery const& d) {
    ledger.saw(d.id);
    if (seen) seen();
  });
  return outbox::multi_node(std::move(o));
}

void write_of_ours(pg::place const& p, outbox::writer const& w, int thread, int each) {
  outbox::postgres::connection db{p.connection};
  pg::prepared_insert const order{db.handle(), pg::insert_order_sql(p)};
  for (int i = 0; i < each; ++i) {
    auto const id = id_of(thread, i);
    outbox::postgres::transaction tx{db};
    order.run(id);
    w.write(tx, "order.placed", payload, {.id = id});
    tx.commit();
  }
}

void write_by_hand(pg::place const& p, int thread, int each) {
  pg::writer_by_hand const hand{p};
  for (int i = 0; i < each; ++i) hand.write(id_of(thread, i), payload);
}

}  // namespace

rows postgres_end_to_end(settings const& s, delivery_ledger& ledger) {
  auto const each = static_cast<int>(500 * s.scale);
  std::vector<double> commits;
  auto const ours = [&]() -> std::vector<double> {
    auto const p = pg::new_place("ours");
    pg::client const c{p.connection};
    ledger.forget();
    wait_for_reports(c);
    auto const before = server_counters::of(c);
    double time = 0;
    {
      auto node = node_on(p, ledger);
      node.start();
      time = seconds([&] {
        on_threads(writers, [&](int t) { write_of_ours(p, node.writer(), t, each); });
        wait_until_done(c, p);
      });
    }
    wait_for_reports(c);
    commits.push_back((server_counters::of(c).commits - before.commits) / (writers * each));
    return {writers * each / time};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const p = pg::new_place("by_hand");
    auto const time = seconds([&] { on_threads(writers, [&](int t) { write_by_hand(p, t, each); }); });
    return {writers * each / time};
  };
  auto all =
      interleave(s,
                 {{"postgres.end_to_end", "events/s", at_least(0.8),
                   "4 writers as in write.1, a listener that does nothing, until every event is DONE; by hand: the "
                   "same writers in four round trips, and nothing delivers"}},
                 ours, by_hand);
  all.push_back(
      alone({"postgres.commits_per_event", "commits", at_most(1.15),
             "pg_stat_database over end_to_end, all of it: writers, claims, settlements, and the benchmark's own "
             "questions"},
            commits));
  return all;
}

rows postgres_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done) {
  bool const erase = done == outbox::done_rows::erase;
  std::vector<double> wal_of_ours;
  std::vector<double> wal_by_hand;
  auto const count = static_cast<int>(100'000 * s.scale);
  auto const ours = [&]() -> std::vector<double> {
    auto const p = pg::new_place("ours");
    pg::fill(p, count, payload);
    std::mutex mutex;
    std::condition_variable all;
    int seen = 0;
    outbox::multi_node_options o{.store = store_of(p, done), .workers = 1, .log = nullptr};
    o.poll.batch = 1000;
    o.queue.cold = 4000;
    o.listeners.on("order.placed", [&](outbox::delivery const& d) {
      ledger.saw(d.id);
      std::lock_guard const lock{mutex};
      if (++seen == count) all.notify_one();
    });
    ledger.forget();
    auto node = outbox::multi_node(std::move(o));
    pg::client const c{p.connection};
    auto const before = server_counters::of(c).wal_bytes;
    auto const time = seconds([&] {
      node.start();
      {
        std::unique_lock lock{mutex};
        all.wait(lock, [&] { return seen == count; });
      }
      wait_until_done(c, p);
    });
    wal_of_ours.push_back((server_counters::of(c).wal_bytes - before) / count);
    return {count / time};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const p = pg::new_place("by_hand");
    pg::fill(p, count, payload);
    pg::drainer_by_hand const hand{p, erase};
    pg::client const c{p.connection};
    auto const before = server_counters::of(c).wal_bytes;
    auto const time = seconds([&] {
      while (hand.drain_some(1000) > 0) {
      }
    });
    wal_by_hand.push_back((server_counters::of(c).wal_bytes - before) / count);
    return {count / time};
  };
  if (erase) {
    auto all = interleave(
        s,
        {{"postgres.cold_drain.erase", "rows/s", at_least(0.85),
          "as cold_drain, but a delivered row is deleted; by hand: a loop of a statement that claims 1000 rows and one "
          "that deletes them, both prepared"}},
        ours, by_hand);
    auto wal = alone({"postgres.cold_drain.erase.wal", "bytes", at_most(1.6),
                      "bytes of the server's log per event over cold_drain.erase, from the claim to the deletion; by "
                      "hand: the same"},
                     wal_of_ours);
    wal.by_hand = median(wal_by_hand);
    wal.ratio = wal.ours / *wal.by_hand;
    all.push_back(std::move(wal));
    return all;
  }
  return interleave(
      s,
      {{"postgres.cold_drain", "rows/s", at_least(0.85),
        "100,000 rows without an owner, from the claim to DONE, claims of 1000, one worker; by hand: a loop of "
        "a statement that claims 1000 rows and one that marks them, both prepared"}},
      ours, by_hand);
}

rows postgres_hot_latency(settings const& s, delivery_ledger& ledger) {
  auto const count = static_cast<int>(300 * s.scale);
  auto const ours = [&]() -> std::vector<double> {
    auto const p = pg::new_place("ours");
    arrival listener;
    auto node = node_on(p, ledger, [&] { listener.arrived(); });
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
      hand.event(id_of(0, i), payload);
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

rows postgres_wal(settings const& s, delivery_ledger& ledger) {
  auto const each = static_cast<int>(500 * s.scale);
  auto const bytes = [](pg::client const& c, auto&& work) {
    c.run("CHECKPOINT");  // so that each side writes its full pages
    auto const before = server_counters::of(c).wal_bytes;
    work();
    return server_counters::of(c).wal_bytes - before;
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const p = pg::new_place("by_hand");
    pg::client const c{p.connection};
    auto const total = bytes(c, [&] {
      on_threads(writers, [&](int t) { write_by_hand(p, t, each); });
      for (int at = 0; at < writers * each; at += 100) {
        c.run("UPDATE " + p.table() + " SET status = 1, done_at = now() WHERE event_id IN (SELECT event_id FROM " +
              p.table() + " WHERE status = 0 LIMIT 100)");
      }
    });
    auto const per_event = total / (writers * each);
    return {per_event, per_event};
  };
  auto const through_node = [&](bool hot) {
    auto const p = pg::new_place("ours");
    pg::client const c{p.connection};
    auto node = node_on(p, ledger);
    auto only = outbox::writer_only({.store = store_of(p), .log = nullptr});
    ledger.forget();
    if (hot) node.start();
    auto const total = bytes(c, [&] {
      on_threads(writers, [&](int t) { write_of_ours(p, hot ? node.writer() : only.writer(), t, each); });
      if (!hot) node.start();
      wait_until_done(c, p);
    });
    return total / (writers * each);
  };
  auto const ours = [&]() -> std::vector<double> { return {through_node(true), through_node(false)}; };
  std::string const beside = "; by hand: the same inserts, marked DONE a hundred at a time without a claim";
  return interleave(s,
                    {{"postgres.wal_bytes_per_event.hot", "bytes", at_most(1.2),
                      "bytes of the server's log from the insert to DONE, business row and commit included" + beside},
                     {"postgres.wal_bytes_per_event.cold", "bytes", at_most(1.6),
                      "the same, by a poller that claims what another process has written" + beside}},
                    ours, by_hand);
}

}  // namespace bench
