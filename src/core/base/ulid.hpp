// ULIDs: 48 bits of milliseconds and 80 random bits, as 26 characters that sort by time.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace outbox::inline v0::core {

struct ulid {
  std::uint64_t milliseconds = 0;  ///< Since 1970; 48 bits.
  std::uint16_t random_high = 0;
  std::uint64_t random_low = 0;

  friend auto operator<=>(ulid const&, ulid const&) = default;
};

/// Crockford's base 32, upper case.
[[nodiscard]] std::string to_string(ulid const& u);

/// The UUID of version 7 with the same milliseconds and the lower 74 of the random bits, in small letters.
[[nodiscard]] std::string to_uuid(ulid const& u);

/// Returns the ULID after `last` at `milliseconds`, with `random` bits for a new millisecond. Within one millisecond,
/// or when the clock went back, that is `last` plus one, so the ids of one generator always grow.
[[nodiscard]] ulid next_ulid(ulid const& last, std::uint64_t milliseconds, std::uint16_t random_high,
                             std::uint64_t random_low) noexcept;

}  // namespace outbox::inline v0::core
