// Delivering in the order of keys on PostgreSQL: from commit to DONE, and from commit to the listener.
#include "pace.hpp"
#include "postgres_keyed.hpp"

namespace bench {
namespace {

void write_keyed(pg::place const& p, outbox::writer const& w, int thread, int each) {
  outbox::postgres::connection db{p.connection};
  pg::prepared_insert const order{db.handle(), pg::insert_order_sql(p)};
  for (int i = 0; i < each; ++i) {
    auto event = pg::keyed_event(thread, i);
    outbox::postgres::transaction tx{db};
    order.run(event.id);
    w.write(tx, "order.placed", payload, std::move(event));
    tx.commit();
  }
}

double events_a_second(pg::order kind, int each, delivery_ledger& ledger) {
  auto const p = pg::new_place(kind == pg::order::of_keys ? "keyed" : "unkeyed");
  pg::client const c{p.connection};
  outbox::multi_node_options o{.store = pg::store_of(p), .log = nullptr};
  pg::keyed_listener all{o.listeners, ledger, kind};
  auto node = pg::node_of(kind, std::move(o));
  node.start();
  auto const time = seconds([&] {
    on_threads(pg::writers, [&](int t) { write_keyed(p, node.writer(), t, each); });
    all.wait_for(pg::writers * each);
    pg::wait_until_done(c, p);
  });
  return pg::writers * each / time;
}

// From commit() returned until the listener is entered.
std::vector<double> hand_over(pg::order kind, int count, delivery_ledger& ledger) {
  auto const p = pg::new_place(kind == pg::order::of_keys ? "keyed" : "unkeyed");
  arrival listener;
  outbox::multi_node_options o{.store = pg::store_of(p), .log = nullptr};
  pg::keyed_listener all{o.listeners, ledger, kind, [&] { listener.arrived(); }};
  auto node = pg::node_of(kind, std::move(o));
  node.start();
  outbox::postgres::connection db{p.connection};
  std::vector<double> samples;
  paced(count, [&](int i) {
    outbox::postgres::transaction tx{db};
    node.writer().write(tx, "order.placed", payload, pg::keyed_event(0, i));
    tx.commit();
    auto const committed = steady::now();
    samples.push_back(std::max(0.0, microseconds(listener.wait_for(i + 1) - committed)));
  });
  return p50_p99(samples);
}

}  // namespace

rows postgres_keyed_end_to_end(settings const& s, delivery_ledger& ledger) {
  auto const each = s.amount(500);
  auto const with = [&](pg::order kind) {
    return [&, kind]() -> std::vector<double> { return {events_a_second(kind, each, ledger)}; };
  };
  return interleave(s,
                    {{"postgres.keyed.end_to_end", "events/s", at_least(0.8),
                      "4 writers as in keyed.write.1, each with 100 keys of its own, a listener that does nothing, "
                      "until every event is DONE; beside it: the same with a multi_node"}},
                    with(pg::order::of_keys), with(pg::order::none));
}

rows postgres_keyed_hot_latency(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(300);
  auto const with = [&](pg::order kind) {
    return [&, kind]() -> std::vector<double> { return hand_over(kind, count, ledger); };
  };
  std::string const what =
      "commit() returned until the listener is entered, 200 a second, 100 keys by turns; beside it: the same with a "
      "multi_node";
  return interleave(s,
                    {{"postgres.keyed.hot_latency.p50", "us", at_most(2), what},
                     {"postgres.keyed.hot_latency.p99", "us", at_most(5), what}},
                    with(pg::order::of_keys), with(pg::order::none));
}

rows postgres_keyed_order() {
  return {alone({"postgres.keyed.inversions", "events", at_most(0),
                 "events that came after a later one of their key, over every row of this run whose node keeps the "
                 "order of keys"},
                {static_cast<double>(pg::keyed_listener::inversions())})};
}

}  // namespace bench
