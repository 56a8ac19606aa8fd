// The quick start on PostgreSQL. It works in its own schema, and leaves it behind for inspection.
//
//   example_postgres_quick_start "host=localhost dbname=shop" [more orders]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <string>
#include <thread>

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  using outbox_codec = outbox::json;
  std::string order_id;
  std::int64_t cents = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order_id, cents)

int main(int argc, char** argv) try {
  if (argc < 2) throw outbox::error{outbox::errc::invalid_option, "the first argument is a libpq connection string"};
  outbox::listeners listeners;
  listeners.on<order_placed>([](order_placed const& e, outbox::delivery const& d) -> outbox::result {
    if (e.order_id == "43" && d.attempt == 1) return outbox::failed{"carrier is down"};  // tried again
    std::printf("carrier booked order %s\n", e.order_id.c_str());
    return outbox::done;
  });

  outbox::postgres::connection db{argv[1]};  // or your own PGconn* or pqxx::connection
  db.execute("DROP SCHEMA IF EXISTS outbox_quick_start CASCADE; CREATE SCHEMA outbox_quick_start");
  db.execute("SET search_path = outbox_quick_start; CREATE TABLE orders (id text PRIMARY KEY)");

  auto store = outbox::postgres::open(argv[1], {.schema = "outbox_quick_start"});
  auto box = outbox::multi_node({.store = store, .listeners = std::move(listeners)});
  box.start();

  auto const place = [&](std::string const& id, bool commit) {
    outbox::postgres::transaction tx{db};
    tx.execute("INSERT INTO orders VALUES ($1)", id);
    box.writer().write(tx, order_placed{id, 1999}, {.aggregate = {"order", id}});
    if (commit) tx.commit();  // the event is sent with COMMIT, and the listener runs microseconds later
  };
  place("42", true);
  place("43", true);
  place("44", false);  // rolled back: no event, no listener call

  int const more = argc > 2 ? std::atoi(argv[2]) : 0;
  for (int i = 0; i < more; ++i) place(std::to_string(100 + i), true);

  while (store->inspect().counts().pending() > 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  box.stop();
  auto const c = box.counters();
  std::printf("delivered %d, failed once %d, dead %d\n", static_cast<int>(c.delivered), static_cast<int>(c.failed),
              static_cast<int>(c.dead));
} catch (outbox::error const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
