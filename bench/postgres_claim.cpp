// What a claim on PostgreSQL costs beside rows that it does not want.
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>

#include "postgres_by_hand.hpp"
#include "suites.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

// 1000 due rows, and more of another kind.
struct table {
  table(std::string const& name, int others, std::string const& values) : at{pg::new_place(name)}, c{at.connection} {
    auto const fill = [&](char const* id, int count, std::string const& rest) {
      c.run("INSERT INTO " + at.table() +
            " (event_id, event_type, aggregate_type, payload, created_at, inserted_at, available_at, status, done_at, "
            "locked_by, lease_until) SELECT '" +
            id + "-' || i, 'order.placed', 'order', '" + payload + "', now(), now(), " + rest +
            " FROM generate_series(1, " + std::to_string(count) + ") i");
    };
    fill("other", others, values);
    fill("due", 1000, "now(), 0, NULL, NULL, NULL");
    vacuum();
    outbox::postgres::options o;
    o.schema = name;
    o.log = nullptr;
    store = outbox::postgres::open(at.connection, o);
  }

  void vacuum() const { c.run("VACUUM ANALYZE " + at.table()); }

  // One claim of 50 in microseconds; then the rows are given back, which is not measured.
  double claim() {
    auto const token = "bench/" + std::to_string(++claims);
    auto const time = seconds([&] {
      if (store->claim({.token = token, .limit = 50, .lease = 30s}).rows.size() != 50) std::abort();
    });
    store->release(std::span{&token, 1}, 30s);
    return time * 1e6;
  }

  pg::place at;
  pg::client c;
  std::shared_ptr<outbox::store> store;
  int claims = 0;
};

double claims_of(table& t, int count) {
  t.vacuum();
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(t.claim());
  return median(samples);
}

}  // namespace

rows postgres_claims(settings const& s) {
  auto const amount = [&](int n) { return static_cast<int>(n * s.scale); };
  auto const count = std::max(5, static_cast<int>(24 * s.scale));
  table plain{"plain", 0, "now(), 0, NULL, NULL, NULL"};
  struct kind {
    std::string name, values, what;
    int others;
  };
  kind const kinds[] = {
      {"done", "now(), 1, now(), NULL, NULL", "1,000,000 rows are DONE", amount(1'000'000)},
      {"delayed", "now() + interval '1 year', 0, NULL, NULL, NULL", "100,000 rows are not due yet", amount(100'000)},
      {"leased", "now(), 0, NULL, 'other/1', now() + interval '1 day'", "10,000 rows are leased", amount(10'000)},
      {"backlog", "now(), 0, NULL, NULL, NULL", "100,000 rows are due", amount(100'000)},
  };
  rows all;
  for (auto const& k : kinds) {
    table full{k.name, k.others, k.values};
    auto const ours = [&]() -> std::vector<double> { return {claims_of(full, count)}; };
    auto const by_hand = [&]() -> std::vector<double> { return {claims_of(plain, count)}; };
    all.push_back(
        interleave(s,
                   {{"postgres.claim." + k.name, "us", at_most(1.5),
                     "a claim of 50 while " + k.what +
                         ", plan_cache_mode=force_generic_plan as always; beside it: the same claim with 1000 due "
                         "rows only"}},
                   ours, by_hand)
            .front());
  }
  return all;
}

}  // namespace bench
