// The library on the benchmark's server, and what the server counts meanwhile.
#pragma once

#include <chrono>
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>
#include <string>
#include <thread>

#include "delivery_ledger.hpp"
#include "mysql_by_hand.hpp"

namespace bench::my {

[[nodiscard]] inline std::shared_ptr<outbox::store> store_of(place const& p,
                                                             outbox::done_rows done = outbox::done_rows::keep) {
  outbox::mysql::options o;
  o.log = nullptr;
  o.done_rows = done;
  return outbox::mysql::open(p.url, o);
}

inline void wait_until_done(client const& c, place const& p) {
  auto const sql = "SELECT EXISTS (SELECT 1 FROM " + p.table() + " WHERE due_at IS NOT NULL)";
  while (c.ask(sql) == "1") std::this_thread::sleep_for(std::chrono::microseconds{500});
}

/// Transactions that changed something, of the whole server.
inline double commits(client const& c) {
  return std::stod(c.ask("SELECT count FROM information_schema.innodb_metrics WHERE name = 'trx_rw_commits'"));
}

/// Four writers, and each of their ids.
inline constexpr int writers = 4;
[[nodiscard]] inline std::string id_of(int thread, int i) {
  return "0000000000000000-" + std::to_string(thread) + "-" + std::to_string(i);
}

/// Business row and event in a transaction of ours, `each` times.
inline void write_of_ours(place const& p, outbox::writer const& w, int thread, int each, std::string const& payload) {
  outbox::mysql::connection db{p.url};
  prepared const order{db.handle(), insert_order_sql(p, "?")};
  for (int i = 0; i < each; ++i) {
    auto const id = id_of(thread, i);
    outbox::mysql::transaction tx{db};
    order.run({&id});
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

}  // namespace bench::my
