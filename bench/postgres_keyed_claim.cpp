// What a claim that keeps the order of keys costs on PostgreSQL: beside a key that stands still, and over many keys.
#include <cstdlib>

#include "postgres_keyed.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

class table {
 public:
  explicit table(std::string const& name, pg::order kind)
      : kind_{kind}, at_{pg::new_place(name)}, c_{at_.connection}, store_{pg::store_of(at_)} {
    if (keyed()) store_->backend().set_keyed(true);
  }

  // Rows with ids that begin with `id`. `key` and `values` are SQL; `i` is the number of the row.
  void fill(std::string const& id, int count, std::string const& key, std::string const& values) {
    c_.run("INSERT INTO " + at_.table() +
           " (event_id, event_type, aggregate_type, aggregate_id, payload, created_at, inserted_at, available_at, "
           "status, last_error) SELECT '" +
           id + "-' || i, 'order.placed', 'order', " + key + ", '" + payload + "', now(), now(), " + values +
           " FROM generate_series(1, " + std::to_string(count) + ") i");
  }
  void vacuum() const { c_.run("VACUUM ANALYZE " + at_.table()); }

  // Claims until nothing is left to be noted. Returns the number of rows a second.
  double note_all(int rows) {
    auto const time = seconds([&] {
      std::size_t noted = 0;
      while (noted < static_cast<std::size_t>(rows)) {
        auto const reply = claim(1000);
        if (!reply.rows.empty() || reply.noted == 0) std::abort();
        noted += reply.noted;
      }
    });
    return rows / time;
  }

  // The median of some claims in microseconds. The rows are given back, which is not measured.
  double claims(int count, std::size_t limit) {
    vacuum();
    std::vector<double> samples;
    for (int i = 0; i < count; ++i) {
      spi_reply reply;
      samples.push_back(1e6 * seconds([&] { reply = claim(limit); }));
      if (reply.rows.size() != limit) std::abort();
      store_->backend().release(std::span{&token_, 1}, 30s);
    }
    return median(samples);
  }

 private:
  using spi_reply = outbox::spi::claim_reply;

  [[nodiscard]] bool keyed() const noexcept { return kind_ == pg::order::of_keys; }
  spi_reply claim(std::size_t limit) {
    token_ = "bench/" + std::to_string(++tokens_);
    return store_->backend().claim({.token = token_, .limit = limit, .lease = 30s, .keyed = keyed()});
  }

  pg::order kind_;
  pg::place at_;
  pg::client c_;
  std::shared_ptr<outbox::store> store_;
  std::string token_;
  int tokens_ = 0;
};

constexpr char const* due = "now(), 0, NULL";
constexpr char const* own_key = "'d' || i";

row beside(settings const& s, measured const& m, table& one, table& other, int count, std::size_t limit) {
  return interleave(
             s, {m}, [&]() -> std::vector<double> { return {one.claims(count, limit)}; },
             [&]() -> std::vector<double> { return {other.claims(count, limit)}; })
      .front();
}

rows failing_key(settings const& s, int count) {
  auto const followers = s.amount(100'000);
  table full{"failing", pg::order::of_keys};
  table plain{"plain", pg::order::of_keys};
  full.fill("head", 1, "'failing'", "now() + interval '1 year', 2, 'it failed'");
  full.fill("behind", followers, "'failing'", "now() - interval '1 hour', 0, NULL");
  full.vacuum();
  auto const rate = full.note_all(followers);
  for (auto* t : {&full, &plain}) t->fill("due", 1000, own_key, due);
  auto const one = beside(s,
                          {"postgres.keyed.claim.failing_key", "us", at_most(2),
                           "a keyed claim of 50 while 100,000 rows wait behind a failing one of their key and are "
                           "noted; beside it: the same claim with 1000 due rows of as many keys only"},
                          full, plain, count, 50);
  return {one, alone({"postgres.keyed.claim.noting", "rows/s", no_bar,
                      "how fast claims of 1000 note those 100,000 rows, once: so long do others wait"},
                     {rate})};
}

rows many_keys(settings const& s, int count) {
  auto const keys = std::max(1000, s.amount(100'000));
  table keyed{"keyed", pg::order::of_keys};
  table unkeyed{"unkeyed", pg::order::none};
  for (auto* t : {&keyed, &unkeyed}) t->fill("due", keys, own_key, due);
  std::string const name = "postgres.keyed.claim.many_keys";
  std::string const what =
      " over 100,000 due rows, each of a key of its own; beside it: the claim of a multi_node on the same rows, "
      "without the index of keys";
  return {beside(s, {name, "us", at_most(3), "a keyed claim of 50" + what}, keyed, unkeyed, count, 50),
          beside(s, {name + ".1000", "us", at_most(3), "a keyed claim of 1000" + what}, keyed, unkeyed,
                 std::max(2, count / 4), 1000)};
}

}  // namespace

rows postgres_keyed_claims(settings const& s) {
  auto const count = std::max(5, s.amount(24));
  auto all = failing_key(s, count);
  for (auto& r : many_keys(s, count)) all.push_back(std::move(r));
  return all;
}

}  // namespace bench
