// The rules for names. They are the same wherever a name is given: in an event, a pause, a filter, a route, a node.
#pragma once

#include <cstddef>
#include <outbox/detail/core_export.hpp>
#include <outbox/error.hpp>
#include <outbox/store.hpp>
#include <string_view>

namespace outbox::inline v0::core {

/// The widths of the table's columns, in characters.
namespace width {
inline constexpr std::size_t event_id = 36;
inline constexpr std::size_t event_type = 128;
inline constexpr std::size_t aggregate_type = 64;
inline constexpr std::size_t aggregate_id = 128;
inline constexpr std::size_t tenant = 64;
inline constexpr std::size_t ordering_key = 128;
inline constexpr std::size_t content_type = 128;
inline constexpr std::size_t node_name = 128;
}  // namespace width

/// Returns why a text column cannot hold this (it is not UTF-8, or it has a NUL), or null if it can.
[[nodiscard]] OUTBOX_CORE_EXPORT char const* problem_of_text(std::string_view text) noexcept;

/// Throws `error` with this code about `field` if a column of that width cannot hold `name`.
OUTBOX_CORE_EXPORT void check_name(errc code, std::string_view field, std::string_view name, std::size_t limit);

/// Throws `error` (invalid_option) if no event can have these names.
OUTBOX_CORE_EXPORT void check_pause(route_pause const& what);

/// The same check, as a boolean.
[[nodiscard]] OUTBOX_CORE_EXPORT bool is_possible(route_pause const& what) noexcept;

/// Returns false if no row can match because the database could not even be asked. Lengths are not checked: not every
/// database enforces them, so a foreign writer may have exceeded them.
[[nodiscard]] inline bool is_possible(event_filter const& filter) noexcept {
  for (auto const* text :
       {&filter.event_type, &filter.aggregate_type, &filter.aggregate_id, &filter.tenant, &filter.key}) {
    if (problem_of_text(*text) != nullptr) return false;
  }
  return true;
}
[[nodiscard]] inline bool is_possible_id(std::string_view event_id) noexcept {
  return problem_of_text(event_id) == nullptr;
}

}  // namespace outbox::inline v0::core
