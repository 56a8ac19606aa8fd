// The sink for Kafka, on librdkafka.
/// \file
///
///     auto kafka = outbox::kafka::open({.bootstrap_servers = "kafka-1:9092,kafka-2:9092"});
///     listeners.on_any(outbox::publish(kafka, {.topic = "shop.{aggregate_type}"}));
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <outbox/detail/kafka_export.hpp>
#include <outbox/log.hpp>
#include <outbox/sink.hpp>
#include <string>

namespace outbox::inline v0::kafka {

/// How the producer works.
struct options {
  /// Where the cluster is found: "host:port", several with commas between them. Required.
  std::string bootstrap_servers{};

  /// How long a message may take to be stored, retries of the producer included. Then it is unavailable, or unsure if
  /// it may have been stored. Default 30 s. 1 s … 15 min. The timeout of a route that publishes must be 5 s longer at
  /// least.
  ///
  /// 0: without end. Messages of one key then keep their order whatever the brokers do, because none is overtaken when
  /// its time is up: routes with `keeps_order` need it. The route may have no timeout then. While the brokers are away
  /// its events wait in the node, which renews their leases.
  std::chrono::milliseconds message_timeout{30'000};

  /// Properties of librdkafka, as in {"compression.type", "zstd"}. Default: none beyond ours. Refused, because they
  /// would weaken a promise: `acks` other than all, `enable.idempotence` other than true, `transactional.id`,
  /// `delivery.report.only.error`, `message.timeout.ms` (see `message_timeout`), `bootstrap.servers` and
  /// `metadata.broker.list` (see `bootstrap_servers`), and `test.mock.num.brokers`. Ours: `partitioner` is
  /// "murmur2_random", which puts keys where Java's clients put them.
  std::map<std::string, std::string> properties{};

  /// What the log and `health()` call it. Default "kafka".
  std::string name = "kafka";

  /// Where librdkafka's log lines go. Default: `log_to_stderr`. Null: nowhere.
  log_function log = log_to_stderr;
};

/// Returns a sink with an idempotent producer. Does not wait for the cluster: one that is away is `unavailable`.
///
/// It has one thread of its own beside those of librdkafka. A producer that reports a fatal error is replaced by a new
/// one; the messages that it held are unavailable or unsure. A full queue of the producer makes `publish` wait. Its
/// destructor gives the messages up that have no report yet.
///
/// Throws `error` (invalid_option) that names the option or the property.
[[nodiscard]] OUTBOX_KAFKA_EXPORT std::shared_ptr<sink> open(options o);

/// Throws what `open` would throw about the options, and opens nothing.
OUTBOX_KAFKA_EXPORT void check(options const& o);

}  // namespace outbox::inline v0::kafka
