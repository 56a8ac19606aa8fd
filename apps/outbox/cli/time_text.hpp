// Instants and durations for people and for scripts.
#pragma once

#include <chrono>
#include <optional>
#include <outbox/clock.hpp>
#include <string>
#include <string_view>

namespace outbox_tool {

/// "2030-01-31T23:59:59.123456Z", for scripts.
[[nodiscard]] std::string rfc3339(outbox::instant at);

/// "2030-01-31 23:59:59Z", for people.
[[nodiscard]] std::string clock_text(outbox::instant at);

/// "0.3 s", "12 s", "19 min 04 s", "3 h 02 min", "12 d": two units at most.
[[nodiscard]] std::string duration_text(std::chrono::microseconds d);

/// "12 s ago", or "in 12 s" for an instant after `now`.
[[nodiscard]] std::string age_text(outbox::instant at, outbox::instant now);

/// "500ms", "5s", "2min", "1h", "7d". Nothing if it is none of these, or negative, or too long.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) noexcept;

/// "12,431".
[[nodiscard]] std::string number_text(std::uint64_t n);

}  // namespace outbox_tool
