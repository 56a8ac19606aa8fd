// The code of the page about monitoring. No Prometheus is needed: the program reads its own text.
#include <cstdio>
#include <outbox/prometheus.hpp>

#include "support.hpp"

namespace {

using docs::check;
using docs::service;

struct http_reply {
  std::string body;
  std::string content_type;
};

// ---- monitor.md

// For the path /metrics. Any thread may call it.
http_reply scrape(outbox::prometheus::registry const& figures) {
  return {figures.text(), outbox::prometheus::content_type};
}

class waiting_room {
 public:
  [[nodiscard]] std::size_t waiting() const { return 3; }
};

void add_figures_of_the_program(outbox::prometheus::registry& figures, waiting_room const& room) {
  figures.add([&room]() -> std::vector<outbox::prometheus::figure> {
    return {{.name = "shop.waiting",
             .help = "Customers in the waiting room.",
             .labels = {{"floor", "1"}},
             .value = static_cast<double>(room.waiting())}};
  });
}

void monitor() {
  outbox::multi_node_options options;
  auto const figures = std::make_shared<outbox::prometheus::registry>();
  options.metrics = figures->exporter({.table = "orders"});
  waiting_room const room;
  add_figures_of_the_program(*figures, room);
  outbox::listeners listeners;
  listeners.on("order.placed", [](outbox::delivery const&) {});
  service s{std::move(listeners), std::move(options.metrics)};
  s.write("order.placed");
  auto const says = [&](std::string const& line) { return scrape(*figures).body.find(line) != std::string::npos; };
  docs::wait_for(
      [&] {
        return says("outbox_dispatch_success_total{table=\"orders\",route=\"order.placed\"} " +
                    std::to_string(service::many) + "\n");
      },
      "a scrape sees them all");
  check(says("outbox_shop_waiting{floor=\"1\"} 3\n"), "and the figures of the program");
  s.finish();
}

}  // namespace

int main() {
  try {
    monitor();
    std::printf("monitor: scraped while the node runs\n");
    return 0;
  } catch (std::exception const& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
