// The configuration of a producer: ours, and what the application adds.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <outbox/sinks/kafka.hpp>

namespace outbox::inline v0::kafka {

struct destroy_configuration {
  void operator()(rd_kafka_conf_t* c) const noexcept { rd_kafka_conf_destroy(c); }
};
using configuration = std::unique_ptr<rd_kafka_conf_t, destroy_configuration>;

/// Throws `error` (invalid_option) that names the option or the property.
[[nodiscard]] configuration configuration_of(options const& o);

}  // namespace outbox::inline v0::kafka
