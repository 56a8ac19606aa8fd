// The code of the pages about sinks and configurations. No cluster is needed: a sink does not wait for one.
#include <fstream>
#include <iostream>
#include <outbox/config.hpp>
#include <outbox/outbox.hpp>
#include <outbox/sinks/kafka.hpp>

namespace {

outbox::listeners to_one_cluster() {
  outbox::listeners listeners;
  auto kafka = outbox::kafka::open({.bootstrap_servers = "kafka-1:9092"});
  listeners.on("order.placed", outbox::publish(kafka, {.topic = "orders"}));
  listeners.on_any(outbox::publish(kafka, {.topic = "events.{aggregate_type}"}));
  return listeners;
}

outbox::listeners to_everything() {
  outbox::listeners listeners;
  auto kafka = outbox::kafka::open({.bootstrap_servers = "kafka-1:9092,kafka-2:9092"});
  listeners.on_any(outbox::publish(kafka, {.topic = "shop.{aggregate_type}"}));
  return listeners;
}

void from_a_file() {
  std::ofstream{"relay.toml"} << R"(mode = "multi_node"

[store]
url = "memory:"

[[routes]]
event_type = "*"
sink = "out"

[sinks.out]
type = "json_lines"
)";
  auto box = outbox::node_from_config("relay.toml");
  box.start();
  std::cout << (box.health().running ? "a node from a file runs\n" : "it does not run\n");
  box.stop();
}

}  // namespace

int main() {
  static_cast<void>(to_one_cluster());
  static_cast<void>(to_everything());
  from_a_file();
  std::cout << "sinks: made without a cluster\n";
}
