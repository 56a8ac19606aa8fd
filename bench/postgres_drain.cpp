// A table full of rows that wait for delivery, on PostgreSQL.
#include "drain.hpp"
#include "postgres_by_hand.hpp"
#include "postgres_ours.hpp"
#include "suites.hpp"

namespace bench {
namespace {

struct outcome {
  double rate;       ///< Rows a second.
  double wal_bytes;  ///< Of the server's log, per row.
};

// `work` is what is measured.
outcome measure(pg::place const& p, int count, std::function<void(pg::client const&)> const& work) {
  pg::client const c{p.connection};
  auto const before = pg::server_counters::of(c).wal_bytes;
  auto const time = seconds([&] { work(c); });
  return {count / time, (pg::server_counters::of(c).wal_bytes - before) / count};
}

// From the start of the node until all are DONE, or gone.
outcome drain_of_ours(int count, delivery_ledger& ledger, tuning how,
                      outbox::done_rows done = outbox::done_rows::keep) {
  auto const p = pg::new_place("ours");
  pg::fill(p, count, payload);
  outbox::multi_node_options o{.store = pg::store_of(p, done), .log = nullptr};
  how(o);
  counting_listener all{o, ledger, count};
  auto node = outbox::multi_node(std::move(o));
  return measure(p, count, [&](pg::client const& c) {
    node.start();
    all.wait();
    pg::wait_until_done(c, p);
  });
}

outcome drain_by_hand(int count, pg::drainer_by_hand::kind how) {
  auto const p = pg::new_place("by_hand");
  pg::fill(p, count, payload);
  pg::drainer_by_hand const hand{p, how};
  return measure(p, count, [&](pg::client const&) {
    while (hand.drain_some(1000) > 0) {
    }
  });
}

constexpr int drained = 100'000;
constexpr int drained_slowly = 60'000;  // where the version by hand takes most of the time

}  // namespace

rows postgres_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done) {
  using kind = pg::drainer_by_hand::kind;
  bool const erase = done == outbox::done_rows::erase;
  auto const count = s.amount(drained_slowly);
  auto const figures = [&](outcome const& o) {
    return erase ? std::vector<double>{o.rate, o.wal_bytes} : std::vector<double>{o.rate};
  };
  auto const ours = [&] { return figures(drain_of_ours(count, ledger, one_worker, done)); };
  auto const by_hand = [&] { return figures(drain_by_hand(count, erase ? kind::erase : kind::mark)); };
  if (erase) {
    return interleave(
        s,
        {{"postgres.cold_drain.erase", "rows/s", at_least(0.85),
          "as cold_drain, but a delivered row is deleted; by hand: a loop of a statement that claims 1000 "
          "rows and one that deletes them, both prepared"},
         {"postgres.cold_drain.erase.wal", "bytes", at_most(1.6),
          "bytes of the server's log per event over cold_drain.erase, from the claim to the deletion; by "
          "hand: the same"}},
        ours, by_hand);
  }
  return interleave(
      s,
      {{"postgres.cold_drain", "rows/s", at_least(0.85),
        "60,000 rows without an owner, from the claim to DONE, claims of 1000, one worker; by hand: a loop of a "
        "statement that claims 1000 rows and one that marks them, both prepared"}},
      ours, by_hand);
}

rows postgres_cold_drain_one_tx(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(drained);
  auto const ours = [&]() -> std::vector<double> { return {drain_of_ours(count, ledger, four_workers).rate}; };
  auto const by_hand = [&]() -> std::vector<double> {
    return {drain_by_hand(count, pg::drainer_by_hand::kind::one_transaction).rate};
  };
  return interleave(
      s,
      {{"postgres.cold_drain.one_tx", "rows/s", at_least(0.6),
        "as cold_drain, but 100,000 rows, with queue.cold 10,000 and 4 workers; by hand, on the same table and without "
        "a "
        "lease, so each row is updated once and the transaction stays open while it is handled: a loop of "
        "BEGIN, SELECT … FOR UPDATE SKIP LOCKED of 1000 rows, UPDATE to DONE by ids, COMMIT, prepared"}},
      ours, by_hand);
}

rows postgres_cold_drain_defaults(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(drained);
  auto const with = [&](tuning how) {
    return [&, how]() -> std::vector<double> { return {drain_of_ours(count, ledger, how).rate}; };
  };
  return interleave(
      s,
      {{"postgres.cold_drain.defaults", "rows/s", at_least(0.9),
        "as cold_drain, but 100,000 rows, by a node with default options; beside it: our own with poll.batch 1000, "
        "queue.cold 10,000, 4 workers"}},
      with(as_it_comes), with(four_workers));
}

}  // namespace bench
