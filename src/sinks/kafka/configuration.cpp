#include "sinks/kafka/configuration.hpp"

#include <algorithm>
#include <outbox/error.hpp>

namespace outbox::inline v0::kafka {
namespace {

using std::chrono::milliseconds;

[[noreturn]] void refuse(std::string const& field, std::string const& problem) {
  throw error::about(errc::invalid_option, field, problem);
}

/// A property that the application may not set, or may set to one of two values only, and why.
struct guarded {
  std::string_view name;
  std::string_view allowed, also;
  std::string_view why;
};
constexpr guarded all_guarded[] = {
    {"acks", "all", "-1", "an event is DONE when all in-sync replicas have it"},
    {"request.required.acks", "all", "-1", "an event is DONE when all in-sync replicas have it"},
    {"enable.idempotence", "true", "1", "without it the producer's own retries duplicate and reorder messages"},
    {"transactional.id", {}, {}, "an event is a message of its own, and not a part of a transaction of Kafka"},
    {"delivery.report.only.error", "false", "0", "an event is DONE when its message is reported as stored"},
    {"message.timeout.ms", {}, {}, "set message_timeout, which the timeouts of routes are compared with"},
    {"delivery.timeout.ms", {}, {}, "set message_timeout, which the timeouts of routes are compared with"},
    {"bootstrap.servers", {}, {}, "set bootstrap_servers"},
    {"metadata.broker.list", {}, {}, "set bootstrap_servers"},
    {"test.mock.num.brokers", {}, {}, "a mock forgets what it has acknowledged"},
};

void check(std::string const& name, std::string const& value) {
  auto const* const g = std::ranges::find(all_guarded, name, &guarded::name);
  if (g == std::end(all_guarded)) return;
  if (!g->allowed.empty() && (value == g->allowed || value == g->also)) return;
  refuse("properties." + name,
         "cannot be set" + (g->allowed.empty() ? "" : " to '" + value + "'") + ": " + std::string{g->why});
}

/// What librdkafka made of the value: it ignores white space before it.
std::string taken(rd_kafka_conf_t* c, char const* name) {
  char value[512];
  auto size = sizeof value;
  return rd_kafka_conf_get(c, name, value, &size) == RD_KAFKA_CONF_OK ? value : "";
}

/// With a limit, or spread over partitions, a message is overtaken by later ones of its key. The partitioners that are
/// called random too spread only messages without a key. librdkafka itself refuses `queuing.strategy = lifo` and more
/// than five requests under way: its producer is idempotent.
void check_order(rd_kafka_conf_t* c, std::map<std::string, std::string> const& properties) {
  for (auto const* const name : {"retries", "message.send.max.retries"}) {
    if (!properties.contains(name)) continue;
    refuse(std::string{"properties."} + name,
           "cannot be set beside message_timeout = 0: a message that is given up is overtaken");
  }
  if (taken(c, "partitioner") == "random") {
    refuse("properties.partitioner",
           "cannot be set to 'random' beside message_timeout = 0: all messages of a key must share a partition");
  }
}

void set(rd_kafka_conf_t* c, std::string const& field, std::string const& name, std::string const& value) {
  char problem[512];
  if (rd_kafka_conf_set(c, name.c_str(), value.c_str(), problem, sizeof problem) == RD_KAFKA_CONF_OK) return;
  // The text repeats the value, which may be a password.
  bool const unknown = std::string_view{problem}.starts_with("No such configuration property");
  refuse(field, unknown ? "is not a property of librdkafka" : "has a value that librdkafka does not take");
}

}  // namespace

configuration configuration_of(options const& o) {
  if (o.bootstrap_servers.empty()) refuse("bootstrap_servers", "is empty: write host:port");
  bool const endless = o.message_timeout == milliseconds{0};
  if (!endless && (o.message_timeout < milliseconds{1000} || o.message_timeout > std::chrono::minutes{15})) {
    refuse("message_timeout", "must be 1 s to 15 min, or 0: without end");
  }
  configuration c{rd_kafka_conf_new()};
  auto const ours = [&](char const* name, std::string const& value) { set(c.get(), name, name, value); };
  ours("enable.idempotence", "true");
  ours("acks", "all");
  ours("partitioner", "murmur2_random");
  ours("log.queue", "true");
  ours("client.id", "outbox");
  for (auto const& [name, value] : o.properties) {
    check(name, value);
    set(c.get(), "properties." + name, name, value);
  }
  if (endless) check_order(c.get(), o.properties);
  set(c.get(), "bootstrap_servers", "bootstrap.servers", o.bootstrap_servers);
  ours("message.timeout.ms", std::to_string(o.message_timeout.count()));
  return c;
}

}  // namespace outbox::inline v0::kafka
