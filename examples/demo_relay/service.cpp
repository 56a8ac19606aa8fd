// The order service of the demo: each order and its event are written in one transaction on PostgreSQL. It delivers
// nothing itself; the relay does.
//
//   demo_relay_service URL ORDERS
#include <chrono>
#include <iostream>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::string const url = argv[1];
  int const orders = std::stoi(argv[2]);
  auto const box = outbox::writer_only({.store = outbox::postgres::open(url)});
  auto const writer = box.writer();
  outbox::postgres::connection db{url};
  db.execute("CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, cents integer NOT NULL)");
  for (int i = 1; i <= orders; ++i) {
    auto const id = std::to_string(i);
    outbox::postgres::transaction tx{db};
    tx.execute("INSERT INTO orders VALUES ($1, $2)", id, 1000 + i);
    writer.write(tx, "order.placed", R"({"order":")" + id + R"("})", {.aggregate = {"order", id}});
    if (i % 10 == 0) continue;  // the customer changed their mind: order and event are rolled back together
    tx.commit();
    if (i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds{20});  // customers take their time
  }
  std::cout << "service: " << orders - orders / 10 << " orders committed, " << orders / 10 << " rolled back\n";
}
