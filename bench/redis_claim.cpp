// What a claim on Redis costs beside rows that it does not want.
#include <outbox/redis.hpp>

#include "left_out.hpp"
#include "redis_by_hand.hpp"
#include "redis_ours.hpp"
#include "suites.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

// Due rows, and more of another kind.
struct table {
  table(int database, re::rows_to_fill const& others)
      : at{re::new_place(re::fsync::everysec, database)}, store{re::store_of(at)} {
    re::fill(at, others, payload);
    re::fill(at, {.count = 1000}, payload);
  }

  // One claim of 50 in microseconds. The rows are given back, which is not measured.
  double claim() {
    auto const token = "bench/" + std::to_string(++tokens);
    auto const time = seconds([&] {
      if (store->backend().claim({.token = token, .limit = 50, .lease = 30s}).rows.size() != 50) std::abort();
    });
    store->backend().release(std::span{&token, 1}, 30s);
    return time * 1e6;
  }

  re::place at;
  std::shared_ptr<outbox::store> store;
  int tokens = 0;
};

double claims_of(table& t, int count) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i) samples.push_back(t.claim());
  return median(samples);
}

row claim_row(settings const& s, std::string const& name, std::string const& what, re::rows_to_fill const& others) {
  auto const count = std::max(5, s.amount(100));
  table plain{1, {}};
  table full{0, others};
  return interleave(
             s,
             {{"redis.claim." + name, "us", at_most(1.5),
               "a claim of 50 while " + what + "; beside it: the same claim with 1000 due rows only"}},
             [&]() -> std::vector<double> { return {claims_of(full, count)}; },
             [&]() -> std::vector<double> { return {claims_of(plain, count)}; })
      .front();
}

row paused_row(settings const& s) {
  table plain{1, {}};
  table full{0, {.id = "other", .count = s.amount(300'000), .type = slow_type, .inserted_ago = 3600}};
  return left_out_row(s, "redis.claim.paused", full, plain, std::max(5, s.amount(100)), /*crowded=*/false);
}

}  // namespace

rows redis_claims(settings const& s) {
  constexpr long long year = 365LL * 24 * 3600;
  auto const others = s.amount(100'000);
  return {claim_row(s, "delayed", "100,000 rows are not due yet", {.id = "other", .count = others, .delay = year}),
          claim_row(s, "backlog", "100,000 rows are due", {.id = "other", .count = others}), paused_row(s)};
}

}  // namespace bench
