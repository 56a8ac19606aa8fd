// The quick start on Redis. It makes the outbox "outbox" on the server of the URL, and leaves it there.
//
//   example_redis_quick_start redis://localhost [more orders]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/outbox.hpp>
#include <outbox/redis.hpp>
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
  if (argc < 2) throw outbox::error{outbox::errc::invalid_option, "the first argument is a URL: redis://localhost"};
  outbox::listeners listeners;
  listeners.on<order_placed>([](order_placed const& e, outbox::delivery const& d) -> outbox::result {
    if (e.order_id == "43" && d.attempt == 1) return outbox::failed{"carrier is down"};  // tried again
    std::printf("carrier booked order %s\n", e.order_id.c_str());
    return outbox::done;
  });

  outbox::redis::connection db{argv[1]};  // or your own redisContext*

  auto store = outbox::redis::open(argv[1]);  // "redis://localhost"
  auto box = outbox::multi_node({.store = store, .listeners = std::move(listeners)});
  box.start();

  // On its own: the event is in Redis when write() returns, and the listener runs microseconds later.
  box.writer().write(outbox::no_transaction, order_placed{"42", 1999}, {.aggregate = {"order", "42"}});

  // Together with other keys: all of it or nothing.
  auto const place = [&](std::string const& id, bool commit) {
    outbox::redis::transaction tx{db};
    tx.command("HSET", "order:" + id, "cents", 1999);
    box.writer().write(tx, order_placed{id, 1999}, {.aggregate = {"order", id}});
    if (commit) tx.commit();
  };
  place("43", true);
  place("44", false);  // never sent: no order, no event, no listener call

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
