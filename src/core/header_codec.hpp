// Headers as the JSON object that the table keeps.
#pragma once

#include <optional>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::core {

/// An empty string for no headers: the column is then NULL.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string encode_headers(headers const& h);

/// Blank text and JSON null mean none, as foreign writers store them; an entry that is null is left out. Nothing if it
/// is not an object of strings.
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<headers> decode_headers(std::string_view text);

}  // namespace outbox::inline v0::core
