// Signatures as Standard Webhooks defines them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::webhook {

/// Returns the bytes of "whsec_<base64>"; none if it is not of that form or has not 24 to 64 bytes.
[[nodiscard]] std::optional<std::string> key_of_secret(std::string_view secret);

/// The value of the header `webhook-signature`: "v1,<base64>" for each key, with spaces between them. What is signed is
/// "<id>.<timestamp>.<body>". Throws `std::runtime_error` if libcrypto refuses.
[[nodiscard]] std::string signature(std::vector<std::string> const& keys, std::string_view id, std::int64_t timestamp,
                                    std::string_view body);

}  // namespace outbox::inline v0::webhook
