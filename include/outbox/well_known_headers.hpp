// Headers of an event that receivers of every kind understand: the topic and the version of the payload's schema.
/// \file
///
///     auto headers = outbox::make_headers({.topic = "shop.orders", .schema_version = 2});
///     box.writer().write(tx, "order.placed", R"({"order":"42"})", {.headers = std::move(headers)});
///
/// They are ordinary headers with fixed names, so every store keeps them, every sink sends them on, and programs in
/// other languages read and write them. A route publishes to the topic of each event with
/// `{.topic = "{header.topic}"}`. All functions here are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <outbox/delivery.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0 {

inline constexpr std::string_view topic_header = "topic";                    ///< Where the event should be published.
inline constexpr std::string_view schema_version_header = "schema_version";  ///< Which form the payload has.

/// The longest topic, in characters: as long as Kafka allows.
inline constexpr std::size_t max_topic_length = 249;

/// The values of the headers that have names of their own.
struct well_known_headers {
  /// Where the event should be published. Default: none. 1 … 249 characters, valid UTF-8 without CR, LF or NUL. A
  /// broker may allow less.
  std::optional<std::string> topic{};

  /// The version of the payload's schema. Default: none. 1 … 2147483647.
  std::optional<std::int32_t> schema_version{};
};

/// Returns headers for `event_options::headers`: those of `known` that have a value, and `more`.
///
/// Throws `error` (invalid_event) whose field is "topic" or "schema_version" if that value is out of its limits, or if
/// `more` has a header of that name too.
[[nodiscard]] OUTBOX_CORE_EXPORT headers make_headers(well_known_headers const& known, headers more = {});

/// The topic that an event was written with. Nothing if it has none, or one that `make_headers` would refuse, as
/// another program may write it. Valid for as long as the event or a copy of it.
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<std::string_view> topic_of(event const& e) noexcept;
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<std::string_view> topic_of(delivery const& d) noexcept;

/// The version of the payload's schema. Nothing if the event has none, or one that is not a whole number from 1 to
/// 2147483647 in decimal digits.
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<std::int32_t> schema_version_of(event const& e) noexcept;
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<std::int32_t> schema_version_of(delivery const& d) noexcept;

/// What `topic_of` returns, for listeners that cannot work without it. If that is nothing, throws `permanent_failure`,
/// which names the header and quotes its value: the event becomes DEAD, because no retry gives it another header.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view required_topic(event const& e);

/// What `schema_version_of` returns, for listeners that cannot work without it. If that is nothing, throws
/// `permanent_failure`, which names the header and quotes its value: the event becomes DEAD.
[[nodiscard]] OUTBOX_CORE_EXPORT std::int32_t required_schema_version(event const& e);

}  // namespace outbox::inline v0
