// Text as databases and brokers want it: UTF-8 without NUL, counted in characters.
#pragma once

#include <cstddef>
#include <optional>
#include <outbox/detail/core_export.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::core {

/// Returns the length in bytes of the character at `at`, or 0 if no valid character begins there.
[[nodiscard]] std::size_t character_at(std::string_view s, std::size_t at) noexcept;

/// Returns the number of characters (code points), or nothing if `s` is not valid UTF-8: overlong forms, surrogates and
/// values past U+10FFFF are invalid.
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<std::size_t> utf8_length(std::string_view s) noexcept;

/// Returns valid UTF-8 without NUL, at most `max_characters` long. Invalid bytes become U+FFFD; the rest is cut off.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string scrub(std::string_view s, std::size_t max_characters);

}  // namespace outbox::inline v0::core
