// Paused routes as the text that a store keeps of them: a JSON array of objects.
#pragma once

#include <outbox/store.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::core {

[[nodiscard]] OUTBOX_CORE_EXPORT std::string encode_pauses(std::vector<route_pause> const& pauses);

/// Empty text means none. Throws `error` (store_failure) if it is something else.
[[nodiscard]] OUTBOX_CORE_EXPORT std::vector<route_pause> decode_pauses(std::string_view text);

}  // namespace outbox::inline v0::core
