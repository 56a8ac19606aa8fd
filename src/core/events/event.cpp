#include <outbox/error.hpp>
#include <outbox/event.hpp>
#include <utility>

#include "core/base/instants.hpp"
#include "core/base/json_text.hpp"
#include "core/events/names_check.hpp"

namespace outbox::inline v0 {
namespace {

namespace width = core::width;

constexpr std::chrono::milliseconds max_delay = std::chrono::hours{24 * 3650};

[[noreturn]] void refuse(std::string_view field, std::string const& problem) {
  throw error::about(errc::invalid_event, field, problem);
}

void check_name(std::string_view field, std::string_view value, std::size_t limit) {
  core::check_name(errc::invalid_event, field, value, limit);
}

void check_header_line(std::string_view text, std::string const& what) {
  if (auto const* const problem = core::problem_of_text(text)) refuse("headers", "has " + what + ' ' + problem);
  if (text.find_first_of("\r\n") != std::string_view::npos) {
    refuse("headers", "has " + what + " contains a line break");
  }
}

std::size_t bytes_of(headers const& h) noexcept {
  std::size_t bytes = 0;
  for (auto const& [name, value] : h) bytes += name.size() + value.size();
  return bytes;
}

void check_header_text(headers const& h) {
  for (auto const& [name, value] : h) {
    if (name.empty()) refuse("headers", "has an entry with an empty name");
    check_header_line(name, "a name that");
    check_header_line(value, "an entry '" + name + "' whose value");
  }
}

void check_header_size(std::size_t count, std::size_t bytes, event_limits const& limits) {
  if (count > limits.header_count) {
    refuse("headers", "has " + std::to_string(count) + " entries, the limit is " + std::to_string(limits.header_count));
  }
  if (bytes > limits.header_bytes) {
    refuse("headers", "has " + std::to_string(bytes) + " bytes, the limit is " + std::to_string(limits.header_bytes));
  }
}

void check_payload_size(std::string_view payload, event_limits const& limits) {
  if (payload.size() > limits.payload_bytes) {
    refuse("payload",
           "has " + std::to_string(payload.size()) + " bytes, the limit is " + std::to_string(limits.payload_bytes));
  }
}

void check_depth(std::size_t depth, event_limits const& limits) {
  if (depth > limits.json_depth) {
    refuse("payload", "nests " + std::to_string(depth) + " deep, the limit is " + std::to_string(limits.json_depth));
  }
}

void check_payload(event_record& r, event_limits const& limits) {
  check_payload_size(r.payload, limits);
  if (r.kind == payload_kind::bytes) {
    if (r.content_type.empty()) refuse("content_type", "must not be empty");
    return;
  }
  auto const depth = core::json_depth(r.payload);
  if (!depth) refuse("payload", core::json_problem(r.payload));
  r.json_depth = *depth;
  check_depth(*depth, limits);
}

// What a store could not keep is refused here, before any SQL: an error of the database would end the caller's
// transaction.
void check_instant(std::string_view field, instant t) {
  if (t < core::first_instant) refuse(field, "is before year 1, the limit");
  if (t > core::last_instant) refuse(field, "is after year 9999, the limit");
}

void check_times(event_record const& r) {
  check_instant("occurred_at", r.occurred_at);
  if (r.available_at) check_instant("available_at", *r.available_at);
  if (r.available_at && r.deliver_after) refuse("deliver_after", "and available_at exclude each other");
  if (r.deliver_after && r.deliver_after->count() <= 0) refuse("deliver_after", "must be positive");
  if (r.deliver_after && *r.deliver_after > max_delay) refuse("deliver_after", "is more than 3650 days, the limit");
  if (r.available_at && *r.available_at < r.occurred_at) refuse("available_at", "must not be before occurred_at");
}

void check(event_record& r, event_limits const& limits) {
  if (r.id.empty()) refuse("id", "must not be empty");
  check_name("id", r.id, width::event_id);
  if (r.type.empty()) refuse("type", "must not be empty");
  check_name("type", r.type, width::event_type);
  check_name("aggregate.type", r.aggregate.type, width::aggregate_type);
  check_name("aggregate.id", r.aggregate.id, width::aggregate_id);
  check_name("tenant", r.tenant, width::tenant);
  check_name("ordering_key", r.ordering_key, width::ordering_key);
  check_name("content_type", r.content_type, width::content_type);
  check_header_size(r.headers.size(), bytes_of(r.headers), limits);
  check_header_text(r.headers);
  check_payload(r, limits);
  check_times(r);
}

event_record record_of(std::string_view type, event_options&& options) {
  event_record r;
  r.made_id = options.id.empty();
  r.id = options.id.empty() ? new_event_id() : std::move(options.id);
  r.type = type;
  r.aggregate = std::move(options.aggregate);
  if (r.aggregate.type.empty()) r.aggregate.type = global_aggregate;
  r.tenant = std::move(options.tenant);
  r.headers = std::move(options.headers);
  r.ordering_key = std::move(options.ordering_key);
  r.occurred_at = options.occurred_at ? *options.occurred_at
                                      : std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  r.available_at = options.available_at;
  r.deliver_after = options.deliver_after;
  return r;
}

}  // namespace

event::event(event_record record) {
  record.header_bytes = bytes_of(record.headers);
  data_ = std::make_shared<event_record const>(std::move(record));
}

event event::json(std::string_view type, json_text payload, event_options options, event_limits const& limits) {
  auto r = record_of(type, std::move(options));
  r.payload = std::move(payload).release();
  r.kind = payload_kind::json;
  r.content_type = "application/json";
  check(r, limits);
  return event{std::move(r)};
}

event event::bytes(std::string_view type, std::string payload, std::string content_type, event_options options,
                   event_limits const& limits) {
  auto r = record_of(type, std::move(options));
  r.payload = std::move(payload);
  r.kind = payload_kind::bytes;
  r.content_type = std::move(content_type);
  check(r, limits);
  return event{std::move(r)};
}

event event::bytes(std::string_view type, std::span<std::byte const> payload, std::string content_type,
                   event_options options, event_limits const& limits) {
  std::string text(payload.size(), '\0');
  for (std::size_t i = 0; i < payload.size(); ++i) text[i] = static_cast<char>(payload[i]);
  return bytes(type, std::move(text), std::move(content_type), std::move(options), limits);
}

event event::restore(event_record record) { return event{std::move(record)}; }

bool event::delayed() const noexcept {
  return data_->deliver_after.has_value() || (data_->available_at && *data_->available_at > data_->occurred_at);
}

std::size_t event::size_bytes() const noexcept {
  auto const& r = *data_;
  return r.id.size() + r.type.size() + r.aggregate.type.size() + r.aggregate.id.size() + r.tenant.size() +
         r.payload.size() + r.content_type.size() + r.ordering_key.size() + r.header_bytes;
}

// An event never changes, so its text was checked when it was made. Another node may have other limits.
void check_limits(event const& e, event_limits const& limits) {
  check_payload_size(e.payload(), limits);
  check_depth(e.record().json_depth, limits);
  check_header_size(e.headers().size(), e.record().header_bytes, limits);
}

}  // namespace outbox::inline v0
