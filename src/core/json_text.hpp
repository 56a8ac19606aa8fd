// JSON text as a payload: is it valid, and how deep does it nest?
#pragma once

#include <cstddef>
#include <string_view>

namespace outbox::inline v0::core {

/// Strict JSON (RFC 8259) without NUL and without a byte order mark, so that no database refuses it inside the
/// caller's transaction.
[[nodiscard]] bool is_json(std::string_view text);

/// How deep arrays and objects nest in valid JSON: 0 for a scalar.
[[nodiscard]] std::size_t json_depth(std::string_view text) noexcept;

}  // namespace outbox::inline v0::core
