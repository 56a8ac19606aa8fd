// One event, several listeners: a retry repeats only those that are not done.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/testing.hpp>

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  using outbox_codec = outbox::json;
  std::string order_id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order_id)

int main() {
  int tries = 0;
  outbox::listeners listeners;
  listeners.on(outbox::fan_out<order_placed>{}
                   .to("mail", [](order_placed const& e) { std::printf("mail for %s\n", e.order_id.c_str()); })
                   .to("warehouse", [&](order_placed const& e) -> outbox::result {
                     if (++tries < 3) return outbox::failed{"the warehouse is closed"};
                     std::printf("warehouse packs %s, try %d\n", e.order_id.c_str(), tries);
                     return outbox::done;
                   }));

  auto clock = std::make_shared<outbox::testing::manual_clock>();
  auto store = outbox::memory::open({.clock = clock});
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners), .log = nullptr, .clock = clock});
  {
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, order_placed{"42"}, {.id = "event-1"});
    tx.commit();
  }
  outbox::testing::run_until_done(box, *clock, *store);
  std::printf("the row remembers %s\n", store->inspect().find("event-1")->progress.c_str());
}
