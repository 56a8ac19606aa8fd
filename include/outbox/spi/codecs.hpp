// How an event, its headers, routes and pauses are written in a table, the same in every store.
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

/// A JSON object of strings. Empty text if there are no headers: the column is then NULL.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string encode_headers(headers const& h);

/// Reads headers. Blank text and JSON null mean none, as other programs store them; an entry that is null is left out.
/// Returns nothing if the text is not an object of strings.
[[nodiscard]] OUTBOX_CORE_EXPORT std::optional<headers> decode_headers(std::string_view text);

/// When the row of a new event is due: at an instant, or this long after the insert.
struct due_time {
  std::optional<instant> at{};        ///< Empty: `after` counts.
  std::chrono::milliseconds after{};  ///< By the store's clock.
};

/// When the row of this event is due.
[[nodiscard]] inline due_time due_of(event const& e) noexcept {
  if (e.delayed() && e.available_at()) return {.at = e.available_at()};
  return {.after = e.deliver_after().value_or(std::chrono::milliseconds{0})};
}

/// A JSON array of strings.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string encode_names(std::vector<std::string> const& names);

/// A JSON array of objects, one for each route of a node.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string encode_routes(std::vector<node_route> const& routes);

/// Reads the routes of a node. An entry that is a string is the name of a route of which nothing else is known: an
/// earlier library wrote it. Other entries are left out. Never throws because of the text.
[[nodiscard]] OUTBOX_CORE_EXPORT std::vector<node_route> decode_routes(std::string_view text);

/// A JSON array of objects, one for each pause.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string encode_pauses(std::vector<route_pause> const& pauses);

/// Pauses as they were read.
struct decoded_pauses {
  std::vector<route_pause> pauses{};  ///< The entries that make sense.
  std::size_t ignored = 0;  ///< The number of entries that cannot be read or that no event can match; 1 if the text is
                            ///< not an array.
};

/// Reads pauses. Empty text means none. Never throws because of the text: every node reads it before it claims, so one
/// bad entry would hold up the whole table.
[[nodiscard]] OUTBOX_CORE_EXPORT decoded_pauses decode_pauses(std::string_view text);

}  // namespace outbox::inline v0::spi
