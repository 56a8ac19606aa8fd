// How durations, sizes and names are written in a configuration.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::configuration {

/// "500ms", "5s", "2min", "1h", "7d", or a number of milliseconds.
[[nodiscard]] std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) noexcept;
[[nodiscard]] std::string duration_text(std::chrono::milliseconds d);

/// A number, or one with KiB, MiB or GiB behind it.
[[nodiscard]] std::optional<std::uint64_t> parse_size(std::string_view text) noexcept;

/// The name that is most like this one, if one is like it at all.
[[nodiscard]] std::optional<std::string> nearest(std::string_view name, std::vector<std::string> const& known);

/// A URL without its password.
[[nodiscard]] std::string without_password(std::string_view url);

/// A URL without its query, which may be a token.
[[nodiscard]] std::string without_query(std::string_view url);

}  // namespace outbox::inline v0::configuration
