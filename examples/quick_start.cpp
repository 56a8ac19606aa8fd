// The quick start: an order service on the memory store.
#include <chrono>
#include <cstdio>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
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

int main() {
  std::mutex mutex;
  std::map<std::string, int> booked;

  // What a listener returns is what happens to the event.
  outbox::listeners listeners;
  listeners.on<order_placed>(
      [&](order_placed const& e, outbox::delivery const& d) -> outbox::result {
        if (e.order_id == "43" && d.attempt == 1) return outbox::failed{"the carrier is down"};
        std::lock_guard const lock{mutex};
        booked[e.order_id] += 1;
        std::printf("carrier booked order %s%s\n", e.order_id.c_str(), d.attempt > 1 ? " at the second try" : "");
        return outbox::done;
      },
      {.name = "carrier", .timeout = 30s});

  auto store = outbox::memory::open();
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners)});
  box.start();

  auto place = [&](std::string const& id, bool commit) {
    outbox::memory::transaction tx{*store};  // your database transaction: the order would be inserted here
    box.writer().write(tx, order_placed{id, 1999}, {.aggregate = {"order", id}});
    if (commit) tx.commit();  // the listener runs microseconds later
  };
  place("42", true);
  place("43", true);
  place("44", false);  // rolled back when tx goes out of scope

  while (store->inspect().counts().done < 2) std::this_thread::sleep_for(1ms);
  box.stop();
  std::printf("order 44 was rolled back, and nobody heard of it\n");
  std::printf("lost: %zu\nphantoms: %zu\n", 2 - booked.count("42") - booked.count("43"), booked.count("44"));
  return booked.count("44") == 0 && booked.size() == 2 ? 0 : 1;
}
