// JSON text as a payload: is it valid, and how deep does it nest?
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace outbox::inline v0::core {

/// How deep arrays and objects nest, 0 for a scalar; nothing if it is not strict JSON (RFC 8259): UTF-8 without NUL,
/// without a byte order mark, with surrogates in pairs, so that no database refuses it inside the caller's transaction.
/// One pass, and no allocation up to 64 levels: it is part of every write.
[[nodiscard]] std::optional<std::size_t> json_depth(std::string_view text);

/// What is wrong with text that has no depth, and where, counted in bytes from 0; nothing if it has one. It does not
/// show the text, which may be confidential.
[[nodiscard]] std::string json_problem(std::string_view text);

[[nodiscard]] inline bool is_json(std::string_view text) { return json_depth(text).has_value(); }

}  // namespace outbox::inline v0::core
