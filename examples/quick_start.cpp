// The quick start: an order service on SQLite. The README shows the central part.
//
//   example_quick_start [more orders]
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <string>
#include <thread>

using namespace std::chrono_literals;

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  using outbox_codec = outbox::json;
  std::string order_id;
  std::int64_t cents = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order_id, cents)

// A carrier that is down once. Listeners are called by several threads at once, so what they share is atomic here.
struct carrier {
  int book(std::string const& order) {
    if (order == "43" && !was_down.exchange(true)) return 503;
    std::printf("carrier booked order %s\n", order.c_str());
    return 200;
  }
  std::atomic<bool> was_down = false;
};

int main(int argc, char** argv) {
  auto const path = std::filesystem::temp_directory_path() / "outbox-quick-start.db";
  for (auto const* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path.string() + suffix);
  carrier carrier;

  outbox::listeners listeners;
  listeners.on<order_placed>(
      [&](order_placed const& e, outbox::delivery const& d) -> outbox::result {
        switch (carrier.book(e.order_id)) {
          case 429: return outbox::defer{30s, "carrier is throttling"};  // tried again later, not counted
          case 503: return outbox::failed{"carrier is down"};            // counted, backs off; so does a throw
          case 422: return outbox::dead{"carrier rejected " + d.id};
          default: return outbox::done;
        }
      },
      {.name = "carrier", .timeout = 30s});

  auto store = outbox::sqlite::open(path);
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners)});
  box.start();

  outbox::sqlite::connection db{path};  // or your own sqlite3*
  db.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)");

  auto const place = [&](std::string const& id, bool commit) {
    outbox::sqlite::transaction tx{db};
    tx.execute("INSERT INTO orders VALUES (?)", id);
    box.writer().write(tx, order_placed{id, 1999}, {.aggregate = {"order", id}});
    if (commit) tx.commit();  // the listener runs microseconds later
  };
  place("42", true);
  place("43", true);   // the carrier is down; the event is tried again
  place("44", false);  // rolled back: no event, no listener call

  int const more = argc > 1 ? std::atoi(argv[1]) : 0;
  for (int i = 0; i < more; ++i) place(std::to_string(100 + i), true);

  while (store->inspect().counts().pending() > 0) std::this_thread::sleep_for(1ms);
  box.stop();
  auto const c = box.counters();
  std::printf("delivered %d, failed once %d, dead %d\n", static_cast<int>(c.delivered), static_cast<int>(c.failed),
              static_cast<int>(c.dead));
}
