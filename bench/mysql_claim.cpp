// What a claim on MariaDB costs beside rows that it does not want.
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>

#include "left_out.hpp"
#include "mysql_by_hand.hpp"
#include "mysql_ours.hpp"
#include "suites.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

// Due rows, and more of another kind.
struct table {
  table(std::string const& name, int others, std::string const& values, bool in_order = false,
        char const* type = "order.placed")
      : ordered{in_order}, at{my::new_place(name)}, store{my::store_of(at)} {
    fill("other", others, values, type);
    fill("due", 1000, "utc_timestamp(6), 0, NULL, NULL, NULL", "order.placed");
    c.run("ANALYZE TABLE " + at.table());
  }

  void fill(char const* id, int count, std::string const& rest, char const* type) const {
    if (count == 0) return;
    c.run("INSERT INTO " + at.table() +
          " (event_id, event_type, aggregate_type, payload, created_at, available_at, status, done_at, locked_by, "
          "lease_until) SELECT concat('" +
          id + "-', seq), '" + type + "', 'order', " + c.quoted(payload) + ", utc_timestamp(6), " + rest + " FROM " +
          at.database + ".seq_1_to_" + std::to_string(count));
  }

  // One claim of 50 in microseconds. The rows are given back, which is not measured.
  double claim() {
    auto const token = "bench/" + std::to_string(++tokens);
    auto const time = seconds([&] {
      if (store->backend().claim({.token = token, .limit = 50, .lease = 30s, .in_order = ordered}).rows.size() != 50)
        std::abort();
    });
    store->backend().release(std::span{&token, 1}, 30s);
    return time * 1e6;
  }

  bool ordered;
  my::place at;
  my::client c;
  std::shared_ptr<outbox::store> store;
  int tokens = 0;
};

double claims_of(table& t, int count) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(t.claim());
  return median(samples);
}

}  // namespace

rows mysql_claims(settings const& s) {
  auto const amount = [&](int n) { return s.amount(n); };
  auto const count = std::max(5, s.amount(24));
  struct kind {
    std::string name, values, what;
    int others;
    bool in_order = false;
  };
  std::string const due = "utc_timestamp(6), 0, NULL, NULL, NULL";
  kind const kinds[] = {
      {"done", "utc_timestamp(6), 1, utc_timestamp(6), NULL, NULL", "1,000,000 rows are DONE", amount(1'000'000)},
      {"delayed", "utc_timestamp(6) + INTERVAL 1 YEAR, 0, NULL, NULL, NULL", "100,000 rows are not due yet",
       amount(100'000)},
      {"leased", "utc_timestamp(6), 0, NULL, 'other/1', utc_timestamp(6) + INTERVAL 1 DAY", "10,000 rows are leased",
       amount(10'000)},
      {"backlog", due, "100,000 rows are due", amount(100'000)},
      {"in_order", due, "100,000 rows are due, in order", amount(100'000), true},
  };
  rows all;
  for (auto const& k : kinds) {
    table plain{"plain", 0, due, k.in_order};
    table full{"beside_" + k.name, k.others, k.values, k.in_order};
    all.push_back(interleave(
                      s,
                      {{"mysql.claim." + k.name, "us", at_most(1.5),
                        "a claim of 50 while " + k.what + "; beside it: the same claim with 1000 due rows only"}},
                      [&]() -> std::vector<double> { return {claims_of(full, count)}; },
                      [&]() -> std::vector<double> { return {claims_of(plain, count)}; })
                      .front());
  }
  table plain{"plain", 0, due};
  table full{"beside_paused", amount(300'000),
             "utc_timestamp(6) - INTERVAL 1 HOUR + INTERVAL seq * 1000 MICROSECOND, 0, NULL, NULL, NULL", false,
             slow_type};
  all.push_back(left_out_row(s, "mysql.claim.paused", full, plain, count, /*crowded=*/false));
  return all;
}

}  // namespace bench
