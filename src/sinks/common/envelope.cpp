// How an event becomes a message: one set of rules for all sinks.
#include <algorithm>
#include <charconv>
#include <outbox/error.hpp>
#include <outbox/result.hpp>
#include <outbox/sink.hpp>
#include <outbox/trace.hpp>

#include "sinks/common/field_template.hpp"
#include "sinks/common/rfc3339.hpp"

namespace outbox::inline v0 {
namespace {

using sinks::field_template;
using header_list = std::vector<std::pair<std::string, std::string>>;

// The names that belong to us: an event's own header of such a name is left out.
constexpr std::string_view our_names[] = {"event_id", "event_type",  "aggregate_type", "aggregate_id",
                                          "tenant",   "occurred_at", "content_type"};
constexpr std::string_view cloud_names[] = {"ce_specversion",   "ce_id",      "ce_source",
                                            "ce_type",          "ce_subject", "ce_time",
                                            "ce_aggregatetype", "ce_tenant",  "content-type"};

template <std::size_t N>
bool is_one_of(std::string_view const (&names)[N], std::string_view name) noexcept {
  return std::ranges::find(names, name) != std::end(names);
}

void add(header_list& to, std::string_view name, std::string_view value) {
  if (!value.empty()) to.emplace_back(name, value);
}

void add_ours(header_list& to, event const& e) {
  add(to, "event_id", e.id());
  add(to, "event_type", e.type());
  add(to, "aggregate_type", e.aggregate_type());
  add(to, "aggregate_id", e.aggregate_id());
  add(to, "tenant", e.tenant());
  add(to, "occurred_at", sinks::rfc3339(e.occurred_at()));
  add(to, "content_type", e.content_type());
}

// Names of attributes have small letters and digits only, so what CloudEvents does not know is written in one word.
void add_cloud_event(header_list& to, event const& e, std::string const& source) {
  add(to, "ce_specversion", "1.0");
  add(to, "ce_id", e.id());
  add(to, "ce_source", source);
  add(to, "ce_type", e.type());
  add(to, "ce_subject", e.aggregate_id());
  add(to, "ce_time", sinks::rfc3339(e.occurred_at()));
  add(to, "ce_aggregatetype", e.aggregate_type());
  add(to, "ce_tenant", e.tenant());
  add(to, "content-type", e.content_type());
}

std::int32_t number_of(std::string const& text) {
  std::int32_t n = -1;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (problem != std::errc{} || end != text.data() + text.size() || n < 0) {
    throw permanent_failure{"the route's partition is '" + text + "' for this event, which is no number from 0 on"};
  }
  return n;
}

}  // namespace

struct envelope::rules {
  explicit rules(publish_options o)
      : topic{"topic", o.topic},
        key{"key", o.key},
        partition{"partition", o.partition},
        cloud_events{std::move(o.cloud_events)} {
    if (topic.empty()) throw error::about(errc::invalid_option, "topic", "must not be empty");
    if (cloud_events && cloud_events->empty()) {
      throw error::about(errc::invalid_option, "cloud_events", "must be the source of the events, as in /shop/orders");
    }
    for (auto const& [name, value] : o.headers) {
      if (name.empty()) throw error::about(errc::invalid_option, "headers", "has an empty name");
      if (is_ours(name)) {
        throw error::about(errc::invalid_option, "headers", "has '" + name + "', which this library writes itself");
      }
      headers.emplace_back(name, field_template{"headers." + name, value});
    }
  }

  [[nodiscard]] bool is_ours(std::string_view name) const noexcept {
    return cloud_events ? is_one_of(cloud_names, name) : is_one_of(our_names, name);
  }
  [[nodiscard]] bool of_route(std::string_view name) const noexcept {
    return std::ranges::any_of(headers, [&](auto const& h) { return h.first == name; });
  }

  [[nodiscard]] std::optional<std::string> key_of(event const& e) const {
    if (!key.empty()) return key.of(e);
    if (!e.ordering_key().empty()) return e.ordering_key();
    if (!e.aggregate_id().empty()) return e.aggregate_id();
    return std::nullopt;
  }

  // The context of a trace is sent as it was understood. What is not valid stays behind: it must neither reach a
  // receiver nor make the event DEAD.
  [[nodiscard]] header_list headers_of(event const& e) const {
    header_list all;
    all.reserve(9 + e.headers().size() + headers.size());
    if (cloud_events) {
      add_cloud_event(all, e, *cloud_events);
    } else {
      add_ours(all, e);
    }
    auto const trace = trace_of(e);
    for (auto const& [name, value] : e.headers()) {
      if (is_ours(name) || of_route(name)) continue;
      if (name == "traceparent") {
        if (trace) add(all, name, trace->traceparent());
      } else if (name == "tracestate") {
        if (trace) add(all, name, trace->tracestate());
      } else {
        all.emplace_back(name, value);
      }
    }
    for (auto const& [name, value] : headers) all.emplace_back(name, value.of(e));
    return all;
  }

  field_template topic, key, partition;
  std::vector<std::pair<std::string, field_template>> headers;
  std::optional<std::string> cloud_events;
};

envelope::envelope(publish_options options) : rules_{std::make_unique<rules>(std::move(options))} {}
envelope::envelope(envelope&&) noexcept = default;
envelope& envelope::operator=(envelope&&) noexcept = default;
envelope::~envelope() = default;

message envelope::make(event const& e) const {
  message m{.event = e, .topic = rules_->topic.of(e), .key = rules_->key_of(e), .headers = rules_->headers_of(e)};
  if (m.topic.empty()) throw permanent_failure{"the route's topic is empty for this event"};
  if (!rules_->partition.empty()) m.partition = number_of(rules_->partition.of(e));
  return m;
}

}  // namespace outbox::inline v0
