// Which events a table of another shape can take, and the payload that it gets.
#pragma once

#include <outbox/event.hpp>
#include <outbox/table_layout.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::sql {

/// True for 8-4-4-4-12 hexadecimal digits.
[[nodiscard]] bool is_uuid(std::string_view text) noexcept;

/// Throws `error` (invalid_event) that names the field if the table cannot keep the event.
void check_event(table_layout const& l, event const& e);

/// The payload with the event id in it, if the layout asks for that. Throws `error` (invalid_event) if the payload is
/// not an object, or has something else under that name.
[[nodiscard]] std::string payload_of(table_layout const& l, event const& e);

}  // namespace outbox::inline v0::sql
