// What a claim on PostgreSQL costs beside rows that it does not want.
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>

#include <optional>

#include "left_out.hpp"
#include "postgres_by_hand.hpp"
#include "suites.hpp"
#include "support/free_port.hpp"
#include "support/pgbouncer.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

// How the store is asked.
struct manner {
  bool in_order = false;
  bool pooled = false;         ///< Through PgBouncer: nothing is prepared, and plans know their parameters.
  bool slow = false;           ///< The others are of `slow_type`.
  bool snapshot_held = false;  ///< The others are delivered first, while a transaction of the database stays open.
};

// Due rows, and more of another kind.
struct table {
  /// `claims`: the number of claims that will follow.
  table(std::string const& name, int others, std::string const& values, manner m, int claims)
      : how{m},
        at{pg::new_place(name, m.snapshot_held ? "held" : "postgres")},
        c{at.connection},
        reader{at.connection} {
    outbox::postgres::options o;
    o.schema = name;
    o.ordered = how.in_order;
    o.log = nullptr;
    if (how.pooled) pooler.emplace(pg::server(), outbox::free_port());
    store = outbox::postgres::open(pooler ? pooler->connection() : at.connection, o);
    auto const fill = [&](char const* id, int count, std::string const& rest, char const* type = "order.placed") {
      c.run("INSERT INTO " + at.table() +
            " (event_id, event_type, aggregate_type, payload, created_at, inserted_at, available_at, status, done_at, "
            "locked_by, lease_until) SELECT '" +
            id + "-' || i, '" + type + "', 'order', '" + payload + "', now(), now(), " + rest +
            " FROM generate_series(1, " + std::to_string(count) + ") i");
    };
    fill("other", others, values, m.slow ? slow_type : "order.placed");
    vacuum();
    if (how.snapshot_held) {
      reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
      static_cast<void>(reader.ask("SELECT count(*) FROM " + at.table()));
      while (claim_and_deliver(1000) > 0) {
      }
      fill("due", 50 * claims, "now() - interval '30 min' + i * interval '1 ms', 0, NULL, NULL, NULL");
    } else {
      fill("due", 1000, "now(), 0, NULL, NULL, NULL");
    }
    vacuum();
  }

  void vacuum() const { c.run("VACUUM ANALYZE " + at.table()); }

  // One claim of 50 in microseconds. What is done with the rows is not measured: they are given back; or delivered,
  // where no vacuum could remove the traces of that.
  double claim() {
    if (how.snapshot_held) {
      double time = 0;
      if (claim_and_deliver(50, &time) != 50) std::abort();
      return time * 1e6;
    }
    auto const token = "bench/" + std::to_string(++tokens);
    auto const time = seconds([&] {
      if (store->backend().claim({.token = token, .limit = 50, .lease = 30s, .in_order = how.in_order}).rows.size() !=
          50)
        std::abort();
    });
    store->backend().release(std::span{&token, 1}, 30s);
    return time * 1e6;
  }

  // As the engine does between two sweeps: the next claim begins where this one ended.
  std::size_t claim_and_deliver(std::size_t limit, double* time = nullptr) {
    outbox::spi::claim_request const r{
        .token = "bench/" + std::to_string(++tokens), .limit = limit, .lease = 30s, .floor = floor};
    outbox::spi::claim_reply reply;
    auto const took = seconds([&] { reply = store->backend().claim(r); });
    if (time != nullptr) *time = took;
    std::vector<outbox::spi::settlement> done;
    for (auto const& row : reply.rows) done.push_back({.row = row.handle});
    static_cast<void>(store->backend().settle(done));
    if (reply.floor) floor = reply.floor;
    return reply.rows.size();
  }

  manner how;
  pg::place at;
  pg::client c;
  pg::client reader;
  std::optional<outbox::pgbouncer> pooler;
  std::shared_ptr<outbox::store> store;
  std::optional<outbox::instant> floor;
  int tokens = 0;
};

double claims_of(table& t, int count) {
  t.vacuum();
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(t.claim());
  return median(samples);
}

}  // namespace

rows postgres_claims(settings const& s) {
  auto const amount = [&](int n) { return s.amount(n); };
  auto const count = std::max(5, s.amount(24));
  struct kind {
    std::string name, values, what;
    int others;
    manner how = {};
  };
  kind const kinds[] = {
      {"done", "now(), 1, now(), NULL, NULL", "1,000,000 rows are DONE", amount(1'000'000)},
      {"delayed", "now() + interval '1 year', 0, NULL, NULL, NULL", "100,000 rows are not due yet", amount(100'000)},
      {"leased", "now(), 0, NULL, 'other/1', now() + interval '1 day'", "10,000 rows are leased", amount(10'000)},
      {"backlog", "now(), 0, NULL, NULL, NULL", "100,000 rows are due", amount(100'000)},
      {"pooled",
       "now(), 0, NULL, NULL, NULL",
       "100,000 rows are due, through PgBouncer, so with custom plans",
       amount(100'000),
       {.pooled = true}},
      {"in_order", "now(), 0, NULL, NULL, NULL", "100,000 rows are due, in order", amount(100'000), {.in_order = true}},
      {"held",
       "now() - interval '1 hour', 0, NULL, NULL, NULL",
       "100,000 rows were delivered since some transaction began, which is still open",
       amount(100'000),
       {.snapshot_held = true}},
  };
  rows all;
  for (auto const& k : kinds) {
    auto const claims = count * (s.rounds + 2);
    table plain{"plain", 0, "now(), 0, NULL, NULL, NULL", {.in_order = k.how.in_order, .pooled = k.how.pooled}, claims};
    table full{k.name, k.others, k.values, k.how, claims};
    auto const ours = [&]() -> std::vector<double> { return {claims_of(full, count)}; };
    auto const by_hand = [&]() -> std::vector<double> { return {claims_of(plain, count)}; };
    all.push_back(
        interleave(s,
                   {{"postgres.claim." + k.name, "us", at_most(1.5),
                     "a claim of 50 while " + k.what + "; beside it: the same claim with 1000 due rows only"}},
                   ours, by_hand)
            .front());
  }
  for (bool const crowded : {false, true}) {
    std::string const name = crowded ? "crowded" : "paused";
    table plain{"plain", 0, "now(), 0, NULL, NULL, NULL", {}, 0};
    table full{name,
               amount(300'000),
               "now() - interval '1 hour' + i * interval '1 ms', 0, NULL, NULL, NULL",
               {.slow = true},
               0};
    all.push_back(left_out_row(s, "postgres.claim." + name, full, plain, count, crowded));
  }
  return all;
}

}  // namespace bench
