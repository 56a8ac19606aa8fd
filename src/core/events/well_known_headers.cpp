// The topic and the version of the schema, as headers: what they may be, and how they are written and read.
#include <charconv>
#include <outbox/error.hpp>
#include <outbox/result.hpp>
#include <outbox/well_known_headers.hpp>
#include <utility>

#include "core/base/text.hpp"
#include "core/events/names_check.hpp"

namespace outbox::inline v0 {
namespace {

constexpr std::string_view line_breaks = "\r\n";

// How much of a wrong value an error quotes.
constexpr std::size_t quoted_characters = 64;

[[noreturn]] void refuse_header(std::string_view field, std::string const& problem) {
  throw error::about(errc::invalid_event, field, problem);
}

void check_topic(std::string_view topic) {
  if (topic.empty()) refuse_header(topic_header, "must not be empty");
  core::check_name(errc::invalid_event, topic_header, topic, max_topic_length);
  if (topic.find_first_of(line_breaks) != std::string_view::npos) refuse_header(topic_header, "contains a line break");
}

bool is_topic(std::string_view topic) noexcept {
  return !topic.empty() && core::problem_of_text(topic) == nullptr &&
         topic.find_first_of(line_breaks) == std::string_view::npos &&
         core::utf8_length(topic).value_or(0) <= max_topic_length;
}

void check_schema_version(std::int32_t version) {
  if (version < 1) {
    refuse_header(schema_version_header, "is " + std::to_string(version) + ", the limits are 1 and 2147483647");
  }
}

std::optional<std::int32_t> number_in(std::string_view text) noexcept {
  std::int32_t n = 0;
  auto const [end, problem] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (problem != std::errc{} || end != text.data() + text.size() || n < 1) return std::nullopt;
  return n;
}

std::optional<std::string_view> value_of(event const& e, std::string_view name) noexcept {
  if (!e) return std::nullopt;
  auto const found = e.headers().find(name);
  if (found == e.headers().end()) return std::nullopt;
  return found->second;
}

void add(headers& to, std::string_view name, std::string value) {
  if (!to.try_emplace(std::string{name}, std::move(value)).second)
    refuse_header(name, "is among the other headers too");
}

permanent_failure unusable(event const& e, std::string_view name, std::string_view expected) {
  auto const value = value_of(e, name);
  if (!value) return permanent_failure{"the event has no header '" + std::string{name} + "'"};
  return permanent_failure{"the header '" + std::string{name} + "' is '" + core::scrub(*value, quoted_characters) +
                           "', which is no " + std::string{expected}};
}

}  // namespace

headers make_headers(well_known_headers const& known, headers more) {
  if (known.topic) {
    check_topic(*known.topic);
    add(more, topic_header, *known.topic);
  }
  if (known.schema_version) {
    check_schema_version(*known.schema_version);
    add(more, schema_version_header, std::to_string(*known.schema_version));
  }
  return more;
}

std::optional<std::string_view> topic_of(event const& e) noexcept {
  auto const value = value_of(e, topic_header);
  return value && is_topic(*value) ? value : std::nullopt;
}

std::optional<std::string_view> topic_of(delivery const& d) noexcept { return topic_of(d.event); }

std::optional<std::int32_t> schema_version_of(event const& e) noexcept {
  auto const value = value_of(e, schema_version_header);
  return value ? number_in(*value) : std::nullopt;
}

std::optional<std::int32_t> schema_version_of(delivery const& d) noexcept { return schema_version_of(d.event); }

std::string_view required_topic(event const& e) {
  if (auto const topic = topic_of(e)) return *topic;
  throw unusable(e, topic_header, "topic of 1 to 249 characters");
}

std::int32_t required_schema_version(event const& e) {
  if (auto const version = schema_version_of(e)) return *version;
  throw unusable(e, schema_version_header, "whole number from 1 to 2147483647");
}

}  // namespace outbox::inline v0
