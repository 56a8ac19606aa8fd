// The library on the benchmark's Redis.
#pragma once

#include <chrono>
#include <outbox/outbox.hpp>
#include <outbox/redis.hpp>
#include <string>
#include <thread>

#include "delivery_ledger.hpp"
#include "redis_by_hand.hpp"
#include "rounds.hpp"

namespace bench::re {

/// With default options.
[[nodiscard]] inline std::shared_ptr<outbox::store> store_of(place const& p) {
  return outbox::redis::open(p.url(), {.log = nullptr});
}

inline void wait_until_done(client const& c) {
  auto const command = "ZCARD " + std::string{prefix} + "open";
  while (c.ask(command) != "0") std::this_thread::sleep_for(std::chrono::microseconds{500});
}

/// Four writers, and each of their ids.
inline constexpr int writers = 4;
[[nodiscard]] inline std::string id_of(int thread, int i) {
  return "0000000000000000-" + std::to_string(thread) + "-" + std::to_string(i);
}

/// A node with default options, one listener, and a ledger.
[[nodiscard]] inline outbox::node node_on(std::shared_ptr<outbox::store> store, delivery_ledger& ledger,
                                          std::function<void()> seen = {}) {
  outbox::multi_node_options o{.store = std::move(store), .log = nullptr};
  o.listeners.on("order.placed", [&ledger, seen = std::move(seen)](outbox::delivery const& d) {
    ledger.saw(d.id);
    if (seen) seen();
  });
  return outbox::multi_node(std::move(o));
}

/// What the name of a row ends with.
[[nodiscard]] inline std::string suffix(fsync when) { return when == fsync::always ? ".always" : ""; }

/// Where the data goes to the disk before each answer, the disk decides: such rows have no bar.
[[nodiscard]] inline std::optional<bar> bar_of(fsync when, bar b) {
  return when == fsync::always ? no_bar : std::optional{b};
}

}  // namespace bench::re
