// One event, one publisher and two handlers: a retry repeats only those that are not done.
//
//   example_fan_out [orders]
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sinks/json_lines.hpp>
#include <set>
#include <thread>

#include "example_files.hpp"

using namespace std::chrono_literals;

struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  using outbox_codec = outbox::json;
  std::string order_id;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order_id)

int main(int argc, char** argv) {
  int const orders = argc > 1 ? std::atoi(argv[1]) : 1;
  auto const lines = fresh_file("fan-out.jsonl");
  // A publisher sends to a system outside, here a file; outbox::kafka::open returns another such sink.
  auto const broker = outbox::publish(outbox::json_lines::open({.path = lines}), {.topic = "orders"});

  outbox::listeners listeners;
  listeners.on(outbox::fan_out<order_placed>{}
                   .to("broker", [broker](order_placed const&, outbox::delivery const& d,
                                          outbox::completion answer) { broker(d, std::move(answer)); })
                   .to("mail", [](order_placed const& e) { std::printf("mail for %s\n", e.order_id.c_str()); })
                   .to("warehouse", [](order_placed const& e, outbox::delivery const& d) -> outbox::result {
                     if (d.attempt < 3) return outbox::failed{"the warehouse is closed", 10ms};
                     std::printf("warehouse packs %s, attempt %d\n", e.order_id.c_str(), d.attempt);
                     return outbox::done;
                   }));

  auto store = outbox::memory::open();
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners), .log = nullptr});
  box.start();
  for (int i = 0; i < orders; ++i) {
    outbox::memory::transaction tx{*store};
    box.writer().write(tx, order_placed{std::to_string(42 + i)}, {.id = "event-" + std::to_string(i)});
    tx.commit();
  }
  while (store->inspect().counts().pending() > 0) std::this_thread::sleep_for(1ms);
  box.stop();

  // The publisher was done the first time, so its two retries published nothing again.
  std::multiset<std::string> published;
  std::ifstream in{lines};
  for (std::string line; std::getline(in, line);) published.insert(nlohmann::json::parse(line).at("id"));
  for (int i = 0; i < orders; ++i)
    must(published.count("event-" + std::to_string(i)) == 1, "each order is published once");

  std::printf("the row remembers %s\n", store->inspect().find("event-0")->progress.c_str());
  std::printf("delivered %d, failed %d, published %d\n", static_cast<int>(box.counters().delivered),
              static_cast<int>(box.counters().failed), static_cast<int>(published.size()));
}
