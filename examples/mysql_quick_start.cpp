// The quick start on MariaDB or MySQL. It makes its tables in the database of the URL, and leaves them there.
//
//   example_mysql_quick_start mysql://user:password@localhost/shop [more orders]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>
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
  if (argc < 2)
    throw outbox::error{outbox::errc::invalid_option, "the first argument is a URL: mysql://user@host/shop"};
  outbox::listeners listeners;
  listeners.on<order_placed>([](order_placed const& e, outbox::delivery const& d) -> outbox::result {
    if (e.order_id == "43" && d.attempt == 1) return outbox::failed{"carrier is down"};  // tried again
    std::printf("carrier booked order %s\n", e.order_id.c_str());
    return outbox::done;
  });

  outbox::mysql::connection db{argv[1]};  // or your own MYSQL*
  db.execute("DROP TABLE IF EXISTS orders");
  db.execute("CREATE TABLE orders (id varchar(32) PRIMARY KEY)");

  auto store = outbox::mysql::open(argv[1]);  // "mysql://user@host/shop"
  auto box = outbox::multi_node({.store = store, .listeners = std::move(listeners)});
  box.start();

  auto const place = [&](std::string const& id, bool commit) {
    outbox::mysql::transaction tx{db};
    tx.execute("INSERT INTO orders VALUES (?)", id);
    box.writer().write(tx, order_placed{id, 1999}, {.aggregate = {"order", id}});
    if (commit) tx.commit();  // the listener runs microseconds later
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
