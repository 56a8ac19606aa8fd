// A table full of rows with keys on PostgreSQL: drained with their order and without it, and one key alone.
#include "drain.hpp"
#include "postgres_keyed.hpp"

namespace bench {
namespace {

// From the start of the node until all are DONE. Rows a second.
double drain(pg::place const& p, outbox::node node, pg::keyed_listener& all, int count) {
  pg::client const c{p.connection};
  return count / seconds([&] {
           node.start();
           all.wait_for(count);
           pg::wait_until_done(c, p);  // none is blocked: each of them was taken
         });
}

double drain_keys(int count, int keys, delivery_ledger& ledger, pg::order kind, tuning how) {
  auto const p = pg::new_place(kind == pg::order::of_keys ? "keyed" : "unkeyed");
  if (kind == pg::order::of_keys) pg::mark_keyed(p);
  pg::fill_keys(p, count, keys);
  outbox::multi_node_options o{.store = pg::store_of(p), .log = nullptr};
  how(o);
  pg::keyed_listener all{o.listeners, ledger, kind};
  return drain(p, pg::node_of(kind, std::move(o)), all, count);
}

// One event at a time, with the index that such nodes should have.
double drain_in_order(int count, delivery_ledger& ledger) {
  auto const p = pg::new_place("ordered");
  outbox::postgres::options with_index;
  with_index.schema = p.schema;
  with_index.ordered = true;
  with_index.log = nullptr;
  auto store = outbox::postgres::open(p.connection, with_index);
  pg::fill_keys(p, count, 1);
  outbox::ordered_options o{.store = std::move(store), .log = nullptr};
  pg::keyed_listener all{o.listeners, ledger, pg::order::of_keys};
  return drain(p, outbox::ordered(std::move(o)), all, count);
}

}  // namespace

rows postgres_keyed_drain_many(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(100'000);
  auto const with = [&](pg::order kind) {
    return [&, kind]() -> std::vector<double> {
      return {drain_keys(count, std::max(1, count / 10), ledger, kind, one_worker)};
    };
  };
  return interleave(
      s,
      {{"postgres.keyed.cold_drain.many", "rows/s", at_least(0.6),
        "100,000 rows of 10,000 keys, ten of each in an order without a pattern, without an owner, from the start of a "
        "keyed node to DONE, claims of 1000, one worker; beside it: the same rows on a table without the index of "
        "keys, drained by a multi_node with the same options"}},
      with(pg::order::of_keys), with(pg::order::none));
}

rows postgres_keyed_drain_one(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(20'000);
  return interleave(
      s,
      {{"postgres.keyed.cold_drain.one", "rows/s", at_least(3),
        "20,000 rows of one key, by a keyed node with default options; beside it: the same rows by an ordered node "
        "with default options on a table with the index by seq"}},
      [&]() -> std::vector<double> { return {drain_keys(count, 1, ledger, pg::order::of_keys, as_it_comes)}; },
      [&]() -> std::vector<double> { return {drain_in_order(count, ledger)}; });
}

}  // namespace bench
