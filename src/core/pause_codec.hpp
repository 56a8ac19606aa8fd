// Paused routes as the text that a store keeps of them: a JSON array of objects.
#pragma once

#include <cstddef>
#include <outbox/store.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::core {

[[nodiscard]] OUTBOX_CORE_EXPORT std::string encode_pauses(std::vector<route_pause> const& pauses);

struct decoded_pauses {
  std::vector<route_pause> pauses{};
  std::size_t ignored = 0;  ///< Entries that cannot be read or that no event can match; 1 for text that is no array.
};

/// Empty text means none. Never throws for what the text is: every node reads it before it claims, so that one bad
/// entry would hold up the whole table.
[[nodiscard]] OUTBOX_CORE_EXPORT decoded_pauses decode_pauses(std::string_view text);

}  // namespace outbox::inline v0::core
