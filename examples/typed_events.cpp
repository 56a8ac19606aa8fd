// Events by struct, by enum and by name, and a custom codec.
//
//   example_typed_events [times]
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <outbox/json.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <thread>

// A struct names its event type, optionally its aggregate type, and its codec.
struct user_registered {
  static constexpr std::string_view event_type = "user.registered";
  static constexpr std::string_view aggregate_type = "user";
  using outbox_codec = outbox::json;
  std::string name;
  int age = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(user_registered, name, age)

// A struct may have its own codec: any bytes, with their content type.
struct temperature {
  static constexpr std::string_view event_type = "temperature";
  double celsius = 0;
};
template <>
struct outbox::codec<temperature> {
  static encoded encode(temperature const& t) {
    return {.payload = std::to_string(t.celsius), .kind = payload_kind::bytes, .content_type = "text/plain"};
  }
  static temperature decode(event const& e) { return {std::stod(e.payload())}; }
};

// An enum names its values through a function that is found by argument-dependent lookup.
enum class order_event { placed, cancelled };
std::string_view outbox_name(order_event e) { return e == order_event::placed ? "order.placed" : "order.cancelled"; }

int main(int argc, char** argv) {
  outbox::listeners listeners;
  listeners.on<user_registered>([](user_registered const& u) { std::printf("%s is %d\n", u.name.c_str(), u.age); });
  listeners.on<temperature>([](temperature const& t) { std::printf("%.1f degrees\n", t.celsius); });
  listeners.on(order_event::placed,
               [](outbox::delivery const& d) { std::printf("an order: %s\n", d.event.payload().c_str()); });
  listeners.on("audit", order_event::placed, [](outbox::delivery const& d) {
    std::printf("an order of aggregate '%s'\n", d.event.aggregate_type().c_str());
  });

  auto store = outbox::memory::open();
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners), .log = nullptr});
  int const times = argc > 1 ? std::atoi(argv[1]) : 1;
  for (int i = 0; i < times; ++i) {
    outbox::memory::transaction tx{*store};
    auto const writer = box.writer();
    writer.write(tx, user_registered{"Ada", 36});
    writer.write(tx, temperature{21.5});
    writer.write(tx, order_event::placed, R"({"id":42})");
    writer.write(tx, order_event::placed, R"({"id":43})", {.aggregate = {"audit", "43"}});
    tx.commit();
  }
  if (argc == 1) {
    box.run_until_idle();  // on this thread, so that the output is in order
  } else {
    box.start();  // as a service does: several threads call listeners at once
    while (store->inspect().counts().pending() > 0) std::this_thread::yield();
    box.stop();
    std::printf("delivered %d\n", static_cast<int>(box.counters().delivered));
  }
}
