// Bytes that an event adds to PostgreSQL's log.
#include "pace.hpp"
#include "postgres_by_hand.hpp"
#include "postgres_ours.hpp"
#include "suites.hpp"

namespace bench {
namespace {

using outbox::done_rows;

// Per event, of `work` that handles `count`.
double bytes_of(pg::client const& c, int count, std::function<void()> const& work) {
  c.run("CHECKPOINT");  // so that each side writes its full pages
  auto const before = pg::server_counters::of(c).wal_bytes;
  work();
  return (pg::server_counters::of(c).wal_bytes - before) / count;
}

double through_node(bool hot, int each, delivery_ledger& ledger, done_rows done) {
  auto const p = pg::new_place("ours");
  pg::client const c{p.connection};
  auto node = pg::node_on(pg::store_of(p, done), ledger);
  auto only = outbox::writer_only({.store = pg::store_of(p, done), .log = nullptr});
  ledger.forget();
  if (hot) node.start();
  return bytes_of(c, pg::writers * each, [&] {
    on_threads(pg::writers,
               [&](int t) { pg::write_of_ours(p, hot ? node.writer() : only.writer(), t, each, payload); });
    if (!hot) node.start();
    pg::wait_until_done(c, p);
  });
}

double by_hand(int each) {
  auto const p = pg::new_place("by_hand");
  pg::client const c{p.connection};
  auto const count = pg::writers * each;
  return bytes_of(c, count, [&] {
    on_threads(pg::writers, [&](int t) { pg::write_by_hand(p, t, each, payload); });
    for (int at = 0; at < count; at += 100) {
      c.run("UPDATE " + p.table() + " SET status = 1, done_at = now() WHERE event_id IN (SELECT event_id FROM " +
            p.table() + " WHERE status = 0 LIMIT 100)");
    }
  });
}

}  // namespace

rows postgres_wal(settings const& s, delivery_ledger& ledger) {
  auto const each = s.amount(500);
  std::string const hot = "bytes of the server's log from the insert to DONE, business row and commit included";
  std::string const cold = "the same, by a poller that claims what another process has written";
  std::string const beside = "; by hand: the same inserts, marked DONE a hundred at a time without a claim";
  auto all = interleave(
      s,
      {{"postgres.wal_bytes_per_event.hot", "bytes", at_most(1.2), hot + beside},
       {"postgres.wal_bytes_per_event.cold", "bytes", at_most(1.6), cold + beside}},
      [&]() -> std::vector<double> {
        return {through_node(true, each, ledger, done_rows::keep), through_node(false, each, ledger, done_rows::keep)};
      },
      [&]() -> std::vector<double> {
        auto const bytes = by_hand(each);
        return {bytes, bytes};
      });
  all.push_back(alone({"postgres.wal_bytes_per_event.cold.bytes", "bytes", at_most(1450), cold + "; the bytes alone"},
                      all.back().ours));
  std::vector<double> erased_hot, erased_cold;
  for (int i = 0; i < s.rounds; ++i) {
    erased_hot.push_back(through_node(true, each, ledger, done_rows::erase));
    erased_cold.push_back(through_node(false, each, ledger, done_rows::erase));
  }
  all.push_back(alone({"postgres.wal_bytes_per_event.erase.hot.bytes", "bytes", at_most(900),
                       hot + ", with done_rows::erase; the bytes alone"},
                      erased_hot));
  all.push_back(alone({"postgres.wal_bytes_per_event.erase.cold.bytes", "bytes", at_most(1250),
                       cold + ", with done_rows::erase; the bytes alone"},
                      erased_cold));
  return all;
}

}  // namespace bench
