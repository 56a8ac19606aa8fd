#include "sinks/kafka/outcome.hpp"

#include <algorithm>
#include <iterator>

namespace outbox::inline v0::kafka {
namespace {

std::string text_of(rd_kafka_resp_err_t code) {
  return std::string{rd_kafka_err2str(code)} + " (" + rd_kafka_err2name(code) + ")";
}

}  // namespace

bool concerns_the_message(rd_kafka_resp_err_t code) noexcept {
  static constexpr rd_kafka_resp_err_t codes[] = {
      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_RESP_ERR_INVALID_MSG,
      RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE,   RD_KAFKA_RESP_ERR_INVALID_RECORD,
      RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,  RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE,
      RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION,    RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT,
      RD_KAFKA_RESP_ERR__BAD_MSG,           RD_KAFKA_RESP_ERR__INVALID_ARG};
  return std::ranges::find(codes, code) != std::end(codes);
}

// Whatever is not the fault of the message is that of the environment: the topic, the rights, the brokers, the network.
// It would hit the next message too, so nothing is counted against this one.
published outcome_of(rd_kafka_resp_err_t code, rd_kafka_msg_status_t status) {
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return {published::how::stored, {}};
  if (concerns_the_message(code)) return {published::how::rejected, text_of(code)};
  if (status == RD_KAFKA_MSG_STATUS_NOT_PERSISTED) return {published::how::unavailable, text_of(code)};
  if (status == RD_KAFKA_MSG_STATUS_PERSISTED) return {published::how::stored, {}};
  return {published::how::unsure, "it may have been stored: " + text_of(code)};
}

published outcome_of_refusal(rd_kafka_resp_err_t code, std::string const& text) {
  auto const how = concerns_the_message(code) ? published::how::rejected : published::how::unavailable;
  return {how, text + " (" + rd_kafka_err2name(code) + ")"};
}

}  // namespace outbox::inline v0::kafka
