// The library on the benchmark's server, and what the server counts meanwhile.
#pragma once

#include <chrono>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <string>
#include <thread>

#include "delivery_ledger.hpp"
#include "postgres_by_hand.hpp"

namespace bench::pg {

[[nodiscard]] inline std::shared_ptr<outbox::store> store_of(place const& p,
                                                             outbox::done_rows done = outbox::done_rows::keep,
                                                             bool notify = false) {
  outbox::postgres::options o;
  o.schema = p.schema;
  o.log = nullptr;
  o.done_rows = done;
  o.notify = notify;
  return outbox::postgres::open(p.connection, o);
}

inline void wait_until_done(client const& c, place const& p) {
  auto const sql = "SELECT EXISTS (SELECT 1 FROM " + p.table() + " WHERE status IN (0, 2) AND blocked IS NOT TRUE)";
  while (c.ask(sql) == "t") std::this_thread::sleep_for(std::chrono::microseconds{500});
}

/// Commits of the database, and bytes of the server's log.
struct server_counters {
  double commits, wal_bytes;
  static server_counters of(client const& c) {
    c.run("SELECT pg_stat_force_next_flush()");
    return {std::stod(c.ask("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")),
            std::stod(c.ask("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"))};
  }
};

/// Four writers, and each of their ids.
inline constexpr int writers = 4;
[[nodiscard]] inline std::string id_of(int thread, int i) {
  return "0000000000000000-" + std::to_string(thread) + "-" + std::to_string(i);
}

/// Business row and event in a transaction of ours, `each` times.
inline void write_of_ours(place const& p, outbox::writer const& w, int thread, int each, std::string const& payload) {
  outbox::postgres::connection db{p.connection};
  prepared_insert const order{db.handle(), insert_order_sql(p)};
  for (int i = 0; i < each; ++i) {
    auto const id = id_of(thread, i);
    outbox::postgres::transaction tx{db};
    order.run(id);
    w.write(tx, "order.placed", payload, {.id = id});
    tx.commit();
  }
}

inline void write_by_hand(place const& p, int thread, int each, std::string const& payload) {
  writer_by_hand const hand{p};
  for (int i = 0; i < each; ++i) hand.write(id_of(thread, i), payload);
}

/// A node with default options, one listener, and a ledger.
[[nodiscard]] inline outbox::node node_on(std::shared_ptr<outbox::store> store, delivery_ledger& ledger,
                                          std::function<void()> seen = {}) {
  outbox::multi_node_options o{.store = std::move(store), .log = nullptr};
  o.listeners.on("order.placed", [&ledger, seen = std::move(seen)](outbox::delivery const& d) {
    ledger.saw(d.id);
    if (seen) seen();
  });
  return outbox::multi_node(std::move(o));
}

}  // namespace bench::pg
