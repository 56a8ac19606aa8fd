// How an event, its headers and paused routes are written in a table, the same in every store.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <outbox/store.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::spi {

/// An empty string for no headers: the column is then NULL.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string encode_headers(headers const& h);

/// Blank text and JSON null mean none, as foreign writers store them; an entry that is null is left out. Nothing if it
/// is not an object of strings.
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<headers> decode_headers(std::string_view text);

/// When the row of a new event is due: at an instant, or this long after the insert.
struct due_time {
  std::optional<instant> at{};        ///< Empty: `after` counts.
  std::chrono::milliseconds after{};  ///< By the store's clock.
};

[[nodiscard]] inline due_time due_of(event const& e) noexcept {
  if (e.delayed() && e.available_at()) return {.at = e.available_at()};
  return {.after = e.deliver_after().value_or(std::chrono::milliseconds{0})};
}

/// A JSON array of objects.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string encode_pauses(std::vector<route_pause> const& pauses);

struct decoded_pauses {
  std::vector<route_pause> pauses{};
  std::size_t ignored = 0;  ///< Entries that cannot be read or that no event can match; 1 for text that is no array.
};

/// Empty text means none. Never throws for what the text is: every node reads it before it claims, so that one bad
/// entry would hold up the whole table.
[[nodiscard]] OUTBOX_CORE_EXPORT decoded_pauses decode_pauses(std::string_view text);

}  // namespace outbox::inline v0::spi
