// Sinks: receivers outside of the process, such as a broker, and the listener that publishes events to one.
/// \file
///
///     auto kafka = outbox::kafka::open({.bootstrap_servers = "kafka-1:9092"});
///     listeners.on("order.placed", outbox::publish(kafka, {.topic = "orders"}));
///     listeners.on_any(outbox::publish(kafka, {.topic = "events.{aggregate_type}"}));
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/completion.hpp>
#include <outbox/delivery.hpp>
#include <outbox/detail/sinks_export.hpp>
#include <outbox/event.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::inline v0 {

/// An event on its way to a sink. The rules of its route have been applied.
struct message {
  outbox::v0::event event;                                     ///< Its payload goes out byte for byte.
  std::string topic;                                           ///< Where it goes.
  std::optional<std::string> key{};                            ///< None: the sink spreads such messages.
  std::optional<std::int32_t> partition{};                     ///< None: the key decides.
  std::vector<std::pair<std::string, std::string>> headers{};  ///< In this order.
};

/// What became of a message.
struct published {
  enum class how {
    stored,       ///< The sink has it for good. The event is DONE.
    rejected,     ///< The sink will never take this message. The event is DEAD.
    unavailable,  ///< The sink takes no such message now: configuration, rights, network. Nothing is counted, and the
                  ///< events of the same kind wait in this node.
    unsure,       ///< It may have been stored. It is tried again, and counted; the receiver may see it twice.
    failed,       ///< It was not stored, which concerns this message only. It is tried again, and counted.
    deferred,     ///< The sink takes nothing until `after` is over, because the receiver said so. Nothing is counted,
                  ///< and the events of the same kind wait in this node.
  };
  how what = how::stored;              ///< One of these.
  std::string reason{};                ///< Stored with the row.
  std::chrono::milliseconds after{0};  ///< How long to wait. For `deferred` only.
};

namespace detail {

/// Where one report goes.
class OUTBOX_SINKS_EXPORT report_slot {
 public:
  report_slot() = default;
  report_slot(report_slot const&) = delete;
  report_slot& operator=(report_slot const&) = delete;
  virtual ~report_slot();
  virtual void report(published&& p) noexcept = 0;
};

}  // namespace detail

/// A sink receives it with a message and calls it once, from any thread, during the call of `publish` or later.
/// Destroying it without a report means `unsure`.
class OUTBOX_SINKS_EXPORT publish_report {
 public:
  explicit publish_report(std::unique_ptr<detail::report_slot> slot) noexcept : slot_{std::move(slot)} {}
  publish_report(publish_report&&) noexcept = default;
  publish_report& operator=(publish_report&&) = delete;
  ~publish_report();

  void operator()(published p) noexcept;

 private:
  std::unique_ptr<detail::report_slot> slot_;
};

/// The state of a sink.
struct sink_health {
  bool healthy = true;          ///< It takes messages, as far as it knows.
  std::string reason{};         ///< Empty if healthy.
  std::uint64_t in_flight = 0;  ///< Messages without a report.
  std::uint64_t stored = 0;     ///< Messages that the sink has for good.
  std::uint64_t unsure = 0;     ///< Messages that it may have: each may have been published twice.
};

struct route_options;

/// A receiver of messages. Thread-safe. Nodes, routes and tables may share one.
class OUTBOX_SINKS_EXPORT sink {
 public:
  sink() = default;
  sink(sink const&) = delete;
  sink& operator=(sink const&) = delete;
  virtual ~sink();

  /// What the log calls it, as in "kafka".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// Hands a message over. Returns when the sink has taken it, which may mean to wait while its own queue is full,
  /// until `give_up`. Does not throw: what goes wrong is reported.
  virtual void publish(message m, publish_report report, steady_time give_up) noexcept = 0;

  /// Waits until every message has its report, or until the deadline. Returns true in the first case.
  virtual bool flush(steady_time deadline) noexcept = 0;

  [[nodiscard]] virtual sink_health health() const = 0;

  /// Every message has its report within this time. The timeout of a route that publishes must be longer.
  /// `milliseconds::max()`: messages are never given up, and the route may have no timeout.
  [[nodiscard]] virtual std::chrono::milliseconds patience() const noexcept = 0;

  /// True if messages of one key in one partition are stored in the order in which they were handed over, also when the
  /// sink has to send some of them again. A message that fails for good may be overtaken. Default false.
  [[nodiscard]] virtual bool keeps_order() const noexcept;
};

/// How a route makes a message of an event.
///
/// `topic`, `key`, `partition` and the values of `headers` are templates. `{id}`, `{type}`, `{aggregate_type}`,
/// `{aggregate_id}`, `{tenant}`, `{ordering_key}` and `{header.NAME}` stand for fields of the event, `{{` and `}}` for
/// braces. A field that the event does not have is empty.
struct publish_options {
  /// Where the messages go. Default "{type}". A topic that comes out empty makes the event DEAD.
  std::string topic = "{type}";

  /// The key of a message: messages with equal keys share a partition. Default empty: the ordering key of the event,
  /// else its aggregate id, else none.
  std::string key{};

  /// The partition, a number. Default empty: the key decides.
  std::string partition{};

  /// More headers. Default: none. They replace those of the event that have the same name.
  std::vector<std::pair<std::string, std::string>> headers{};

  /// Whether the fields of the event travel as CloudEvents 1.0 in binary form ("ce_id", "ce_type", …) instead of our
  /// own headers. Default: they do not. The value is the `source` attribute, which must not be empty: "/shop/orders".
  std::optional<std::string> cloud_events{};
};

/// Makes a message of an event by the rules of a route. Thread-safe.
///
/// The headers are, in this order: `event_id`, `event_type`, `aggregate_type`, `aggregate_id`, `tenant`, `occurred_at`
/// and `content_type`, those of them that the event has; then the event's own headers; then those of the route. The
/// context of a trace goes on under the names `traceparent` and `tracestate`, if it is valid. `occurred_at` is RFC 3339
/// in UTC with microseconds. An event's own header that has one of our names is left out.
class OUTBOX_SINKS_EXPORT envelope {
 public:
  /// Throws `error` (invalid_option) that names the field and what is wrong with its template.
  explicit envelope(publish_options options = {});
  envelope(envelope&&) noexcept;
  envelope& operator=(envelope&&) noexcept;
  ~envelope();

  /// Throws `permanent_failure` if the event makes no message: no topic, or a partition that is no number.
  [[nodiscard]] message make(event const& e) const;

 private:
  struct rules;
  std::unique_ptr<rules> rules_;
};

/// An asynchronous listener that publishes. Copies share their state.
class OUTBOX_SINKS_EXPORT publisher {
 public:
  publisher(std::shared_ptr<sink> to, publish_options options);
  void operator()(delivery const& d, completion answer) const;

  /// The options of its route: without a timeout, if the sink never gives a message up. `listeners` call it. Throws
  /// `error` (invalid_option) if the route has a timeout nevertheless, if it is to keep order and the sink does not, or
  /// if messages of one key may have several partitions.
  [[nodiscard]] route_options fit(route_options route) const;

 private:
  void without_limit(delivery const& d, completion answer) const;
  void hand_over(delivery const& d, completion answer, steady_time give_up) const;

  struct state;
  std::shared_ptr<state> state_;
};

/// Returns a listener for a route. It answers when the sink has reported, so one worker keeps thousands of messages
/// under way. Throws `error` (invalid_option): a null sink, a wrong template.
///
/// While the sink is unavailable, events are deferred without being counted, at first for a second, then for twice as
/// long each time, up to a minute, and the node leaves their kind alone (`defer::whole_route`).
///
/// An `ordered` node keeps the order of the table, and a `keyed` node that of each key: it publishes the next event of
/// a key when the one before it is stored, or, on a route with `keeps_order`, when it was handed over to the sink.
/// Other nodes publish several events of one aggregate at the same time, and promise no order.
[[nodiscard]] OUTBOX_SINKS_EXPORT publisher publish(std::shared_ptr<sink> to, publish_options options = {});

}  // namespace outbox::inline v0
