#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/sinks/kafka.hpp>

#include "core/base/log_book.hpp"
#include "sinks/kafka/outcome.hpp"
#include "sinks/kafka/producer.hpp"

namespace outbox::inline v0::kafka {
namespace {

using std::chrono::milliseconds;

// A message times out at the next look of librdkafka, which is up to a second later; a request that is under way then
// has some more.
constexpr milliseconds grace{4000};

log_level level_of(int syslog_level) noexcept {
  constexpr int last_error = 3, warning = 4, last_notice = 6;
  if (syslog_level <= last_error) return log_level::error;
  if (syslog_level == warning) return log_level::warning;
  return syslog_level <= last_notice ? log_level::info : log_level::debug;
}

options with_limited_log(options o) {
  o.log = core::limited(std::move(o.log), o.name, {{"sink", o.name}});
  return o;
}

class kafka_sink final : public sink, private producer_observer {
 public:
  explicit kafka_sink(options o) : options_{with_limited_log(std::move(o))} { producer_ = new_producer(); }
  ~kafka_sink() override = default;

  [[nodiscard]] std::string_view name() const noexcept override { return options_.name; }
  [[nodiscard]] milliseconds patience() const noexcept override {
    return keeps_order() ? milliseconds::max() : options_.message_timeout + grace;
  }
  // A message that times out in the queue of the producer is overtaken by those behind it.
  [[nodiscard]] bool keeps_order() const noexcept override { return options_.message_timeout.count() == 0; }
  void publish(message m, publish_report report, steady_time give_up) noexcept override;
  bool flush(steady_time deadline) noexcept override;
  [[nodiscard]] sink_health health() const override;

 private:
  [[nodiscard]] std::shared_ptr<producer> new_producer() {
    return std::make_shared<producer>(configuration_of(options_), static_cast<producer_observer&>(*this));
  }
  [[nodiscard]] std::shared_ptr<producer> working_producer();
  [[nodiscard]] bool hand_over(message const& m, std::unique_ptr<pending>& p, steady_time give_up);

  void reported(published::how what) noexcept override;
  void troubled(rd_kafka_resp_err_t code, char const* text) noexcept override;
  void said(int level, char const* facility, char const* text) noexcept override;

  options const options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  ///< A message has its report.
  std::uint64_t in_flight_ = 0, stored_ = 0, unsure_ = 0;
  std::string trouble_;  ///< The last one; empty again as soon as a message is stored.
  std::mutex replacing_;
  std::list<std::shared_ptr<producer>> broken_;  ///< Those that still have reports to give.
  std::shared_ptr<producer> producer_;           ///< Last: its end makes reports.
};

// A producer with a fatal error is replaced. It has one thread, which ends here at the latest when the next one fails.
// Returns null in a sink that keeps order while the broken one has reports to give: what it gives up is tried again,
// and must not be overtaken by then.
std::shared_ptr<producer> kafka_sink::working_producer() {
  std::lock_guard const lock{replacing_};
  if (producer_->broken()) {
    if (keeps_order() && !producer_->empty()) return nullptr;
    std::erase_if(broken_, [](auto const& p) { return p->empty(); });
    auto fresh = new_producer();
    broken_.push_back(std::exchange(producer_, std::move(fresh)));
  }
  return producer_;
}

// Returns false if the message was refused and reported.
bool kafka_sink::hand_over(message const& m, std::unique_ptr<pending>& p, steady_time give_up) {
  std::shared_ptr<producer> first;
  while (true) {
    auto const to = working_producer();
    // Nor may one go to the next producer that has waited for room in the broken one.
    if (!to || (keeps_order() && first && first != to)) {
      p->report({published::how::unavailable, "the producer had a fatal error, and is replaced"});
      return false;
    }
    first = to;
    auto const refused = to->produce(m, p);
    if (refused.code == RD_KAFKA_RESP_ERR_NO_ERROR) return true;
    bool const full = refused.code == RD_KAFKA_RESP_ERR__QUEUE_FULL;
    if (full && std::chrono::steady_clock::now() < give_up) {
      std::unique_lock lock{mutex_};
      changed_.wait_for(lock, milliseconds{50});
      continue;
    }
    p->report(outcome_of_refusal(refused.code, refused.text));
    return false;
  }
}

void kafka_sink::publish(message m, publish_report report, steady_time give_up) noexcept {
  std::unique_ptr<pending> p;
  try {
    p = std::make_unique<pending>(m.event, std::move(report));
    {
      std::lock_guard const lock{mutex_};
      ++in_flight_;
    }
    if (hand_over(m, p, give_up)) return;
  } catch (std::exception const& e) {
    if (!p) return;  // no memory; the report says so when it is destroyed
    p->report({published::how::failed, e.what()});
  }
  std::lock_guard const lock{mutex_};
  --in_flight_;
  changed_.notify_all();
}

void kafka_sink::reported(published::how what) noexcept {
  std::lock_guard const lock{mutex_};
  --in_flight_;
  if (what == published::how::stored) {
    ++stored_;
    trouble_.clear();
  }
  if (what == published::how::unsure) ++unsure_;
  changed_.notify_all();
}

void kafka_sink::troubled(rd_kafka_resp_err_t code, char const* text) noexcept {
  try {
    std::lock_guard const lock{mutex_};
    trouble_ = std::string{text} + " (" + rd_kafka_err2name(code) + ")";
  } catch (...) {  // NOLINT(bugprone-empty-catch): no memory; the log has it
  }
}

void kafka_sink::said(int level, char const* facility, char const* text) noexcept {
  if (!options_.log) return;
  try {
    auto const message = std::string{facility} + ": " + text;
    log_field const field{"facility", facility};
    options_.log({.level = level_of(level), .message = message, .fields = {&field, 1}});
  } catch (...) {  // NOLINT(bugprone-empty-catch): as for a node, exceptions of the function are ignored
  }
}

bool kafka_sink::flush(steady_time deadline) noexcept {
  std::unique_lock lock{mutex_};
  return changed_.wait_until(lock, deadline, [&] { return in_flight_ == 0; });
}

sink_health kafka_sink::health() const {
  std::lock_guard const lock{mutex_};
  return {trouble_.empty(), trouble_, in_flight_, stored_, unsure_};
}

}  // namespace

std::shared_ptr<sink> open(options o) { return std::make_shared<kafka_sink>(std::move(o)); }

void check(options const& o) { static_cast<void>(configuration_of(o)); }

}  // namespace outbox::inline v0::kafka
