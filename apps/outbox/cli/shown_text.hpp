// Text of other people on a terminal: nothing in it moves the cursor, changes a colour or turns the line around.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outbox_tool {

/// Writes control characters, characters that change the direction of text, invisible characters and bytes that are not
/// UTF-8 as \n, \u{202e} or \xff. A backslash becomes two. With `keep_lines`, line breaks stay.
[[nodiscard]] std::string shown(std::string_view text, bool keep_lines = false);

/// The number of columns that a text takes which `shown()` made.
[[nodiscard]] std::size_t width_of(std::string_view shown);

/// The beginning of a text that `shown()` made, at most `columns` wide; with "…" if something was left out.
[[nodiscard]] std::string cut(std::string_view shown, std::size_t columns);

}  // namespace outbox_tool
