// One producer of librdkafka and the thread that takes its reports.
#pragma once

#include <librdkafka/rdkafka.h>

#include <atomic>
#include <functional>
#include <memory>
#include <outbox/sink.hpp>
#include <string>
#include <thread>

#include "sinks/kafka/configuration.hpp"
#include "sinks/kafka/topics.hpp"

namespace outbox::inline v0::kafka {

/// What a producer tells its sink. Called by the producer's thread.
class producer_observer {
 public:
  producer_observer() = default;
  producer_observer(producer_observer const&) = delete;
  producer_observer& operator=(producer_observer const&) = delete;
  virtual ~producer_observer() = default;
  virtual void reported(published::how what) noexcept = 0;
  virtual void troubled(rd_kafka_resp_err_t code, char const* text) noexcept = 0;
  virtual void said(int level, char const* facility, char const* text) noexcept = 0;
};

/// A message that has no report yet. The event keeps the payload alive, which librdkafka does not copy.
struct pending {
  event kept;
  publish_report report;
};

class producer {
 public:
  /// `observer` must outlive it. Throws `error` (invalid_option) if the properties do not fit each other.
  producer(configuration c, producer_observer& observer);
  producer(producer const&) = delete;
  producer& operator=(producer const&) = delete;

  /// Gives up what has no report: each is reported as unavailable or unsure before this returns.
  ~producer();

  /// Takes over the message and its report, unless it returns an error; then both stay.
  struct refusal {
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    std::string text{};
  };
  [[nodiscard]] refusal produce(message const& m, std::unique_ptr<pending>& p);

  /// It had a fatal error: it takes no more messages, and reports those that it has.
  [[nodiscard]] bool broken() const noexcept { return broken_; }

  /// No message is without a report, and none is being handed over.
  [[nodiscard]] bool empty() const noexcept { return entering_ == 0 && rd_kafka_outq_len(rk_.get()) == 0; }

 private:
  struct destroy {
    void operator()(rd_kafka_t* rk) const noexcept { rd_kafka_destroy(rk); }
  };
  static void on_report(rd_kafka_t* rk, rd_kafka_message_t const* m, void* self);
  static void on_error(rd_kafka_t* rk, int code, char const* text, void* self);
  static void on_log(rd_kafka_t const* rk, int level, char const* facility, char const* text);
  void serve(std::stop_token const& stop);
  void give_up() noexcept;

  producer_observer& observer_;
  std::atomic<bool> broken_ = false;
  std::atomic<int> entering_ = 0;  ///< Calls of produce().
  std::unique_ptr<rd_kafka_t, destroy> rk_;
  topics topics_;  ///< After the producer: they end before it.
  std::jthread thread_;
};

}  // namespace outbox::inline v0::kafka
