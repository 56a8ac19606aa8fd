// How rows are written in Redis, and read again.
#pragma once

#include <outbox/spi/store.hpp>
#include <string>

#include "redis/answer.hpp"
#include "redis/arguments.hpp"

namespace outbox::inline v0::redis {

/// Adds what the script insert.lua wants to know of a row.
void add_row(arguments& to, spi::insertion const& row);

/// Reads a row that a script answered: its id, its payload, names and values. `malformed` says why it cannot be read,
/// if it cannot. Throws nothing because of what is in the row: other programs write rows too.
[[nodiscard]] row_view read_row(answer_view a, std::string& malformed);

/// The same of a row whose names are apart: its id, its payload, and a value or nil for each name.
[[nodiscard]] row_view read_row(answer_view names, answer_view a, std::string& malformed);

/// Reads an answer of names and values.
[[nodiscard]] node_row read_node(answer_view a);
[[nodiscard]] spi::audit_entry read_audit(answer_view a);

/// Adds names and values of a node's row.
void add_node(arguments& to, node_row const& node);

/// An instant that came as text; nothing if there is none.
[[nodiscard]] std::optional<instant> instant_of(answer_view a) noexcept;

/// "NEW", "RETRY", "DONE" or "DEAD".
[[nodiscard]] std::string_view stored(event_status s) noexcept;

}  // namespace outbox::inline v0::redis
