// JSON text as a payload: is it valid, and how deep does it nest?
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace outbox::inline v0::core {

/// Returns how deep arrays and objects nest, 0 for a scalar, or nothing if the text is not strict JSON (RFC 8259):
/// UTF-8 without NUL or byte order mark, surrogates in pairs. No database refuses such text inside the caller's
/// transaction. Every write calls this, so it makes one pass and does not allocate up to 64 levels.
[[nodiscard]] std::optional<std::size_t> json_depth(std::string_view text);

/// Returns what is wrong with text that is not JSON, and where, counted in bytes from 0; nothing if the text is valid.
/// The answer does not quote the text, which may be confidential.
[[nodiscard]] std::string json_problem(std::string_view text);

[[nodiscard]] inline bool is_json(std::string_view text) { return json_depth(text).has_value(); }

}  // namespace outbox::inline v0::core
