// Two data sources in one process, and a workflow across both without a distributed transaction: orders are in one
// database, the stock is in the other. Each database has its own outbox and its own node; there is no global state.
//
//   order.placed    is written with the order; its listener reserves stock in the other database
//   stock.reserved  is written with the reservation; its listener confirms the order in the first one
//
//   example_multi_ds_demo [orders]
#include <optional>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <thread>

#include "example_files.hpp"

namespace {

// A database with its outbox.
struct data_source {
  data_source(std::string const& name, std::string const& schema)
      : path{fresh_database(name)}, store{outbox::sqlite::open(path)}, db{path} {
    db.execute(schema);
  }

  void run(std::string const& name, outbox::listeners l) {
    box.emplace(outbox::single_node({.store = store, .listeners = std::move(l), .name = name}));
    box->start();
  }

  std::string path;
  std::shared_ptr<outbox::store> store;
  outbox::sqlite::connection db;  // of the main thread; a listener opens its own
  std::optional<outbox::node> box;
};

// Several threads call these listeners at once, and an event may come twice: so each change is keyed by what it is for.
outbox::listeners reserve_stock(data_source const& stock) {
  outbox::listeners l;
  l.on("order.placed", [&stock, writer = stock.box->writer()](outbox::delivery const& d) {
    outbox::sqlite::connection db{stock.path};
    outbox::sqlite::transaction tx{db};
    auto const id = d.event.aggregate_id();
    if (tx.execute("INSERT INTO reservations VALUES (?) ON CONFLICT DO NOTHING", id) == 0) return;  // done before
    writer.write(tx, "stock.reserved", "{}", {.aggregate = {"order", id}});
    tx.commit();
  });
  return l;
}

outbox::listeners confirm_orders(data_source const& orders) {
  outbox::listeners l;
  l.on("stock.reserved", [&orders](outbox::delivery const& d) {
    outbox::sqlite::connection db{orders.path};
    db.execute("UPDATE orders SET confirmed = 1 WHERE id = ?", d.event.aggregate_id());
  });
  return l;
}

void place(data_source& orders, std::string const& id, bool commit) {
  outbox::sqlite::transaction tx{orders.db};
  tx.execute("INSERT INTO orders (id) VALUES (?)", id);
  orders.box->writer().write(tx, "order.placed", "{}", {.aggregate = {"order", id}});
  if (commit) tx.commit();
}

}  // namespace

int main(int argc, char** argv) {
  int const count = argc > 1 ? std::atoi(argv[1]) : 3;
  data_source orders{"orders", "CREATE TABLE orders (id TEXT PRIMARY KEY, confirmed INTEGER NOT NULL DEFAULT 0)"};
  data_source stock{"stock", "CREATE TABLE reservations (order_id TEXT PRIMARY KEY)"};
  stock.run("stock", confirm_orders(orders));
  orders.run("orders", reserve_stock(stock));

  for (int i = 1; i <= count; ++i) place(orders, std::to_string(i), true);
  place(orders, "withdrawn", false);  // rolled back: no stock is reserved for it

  // The writer of one node refuses a transaction on the other database before anything is written.
  try {
    outbox::sqlite::transaction tx{stock.db};
    orders.box->writer().write(tx, "order.placed", "{}");
    must(false, "a transaction on the other database is refused");
  } catch (outbox::error const& e) {
    must(e.code() == outbox::errc::wrong_transaction, e.what());
    std::printf("refused: wrong transaction\n");
  }

  // A listener has written what follows before its own event is settled: so the orders are waited for first.
  for (auto* source : {&orders, &stock}) {
    while (source->store->inspect().counts().pending() > 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  must(orders.box->stop() && stock.box->stop(), "both nodes stop");
  auto const confirmed = orders.db.query_one<int>("SELECT count(*) FROM orders WHERE confirmed = 1");
  auto const reserved = stock.db.query_one<int>("SELECT count(*) FROM reservations");
  std::printf("placed %d, reserved %d, confirmed %d\n", count, reserved, confirmed);
  must(reserved == count && confirmed == count, "every order is reserved and confirmed, once");
}
