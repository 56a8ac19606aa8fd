// Instants as text that sorts by time and that every database reads.
#pragma once

#include <array>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/detail/sql_export.hpp>
#include <string_view>

namespace outbox::inline v0::sql {

/// "2030-01-31 23:59:59.123456"
class OUTBOX_SQL_EXPORT instant_text {
 public:
  explicit instant_text(instant t) noexcept;
  [[nodiscard]] std::string_view view() const noexcept { return {text_.data(), text_.size()}; }

 private:
  std::array<char, 26> text_;
};

/// Reads the text of `instant_text`, and what other programs may write: a T in the middle, fewer digits, and an offset,
/// Z or UTC at the end.
[[nodiscard]] OUTBOX_SQL_EXPORT std::optional<instant> parse_instant(std::string_view text) noexcept;

}  // namespace outbox::inline v0::sql
