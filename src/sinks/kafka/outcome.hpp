// What an error of librdkafka means to an event.
#pragma once

#include <librdkafka/rdkafka.h>

#include <outbox/sink.hpp>

namespace outbox::inline v0::kafka {

/// What became of a message whose delivery report says this.
[[nodiscard]] published outcome_of(rd_kafka_resp_err_t code, rd_kafka_msg_status_t status);

/// The same for a message that the producer did not take. It was not sent.
[[nodiscard]] published outcome_of_refusal(rd_kafka_resp_err_t code, std::string const& text);

/// True if the broker, or the producer, will never take this message, whatever happens.
[[nodiscard]] bool concerns_the_message(rd_kafka_resp_err_t code) noexcept;

}  // namespace outbox::inline v0::kafka
