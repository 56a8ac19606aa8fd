// The headers of a request: which a message has, and which may be sent at all.
#pragma once

#include <outbox/sink.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::inline v0::webhook {

using header_list = std::vector<std::pair<std::string, std::string>>;

/// True for a token of HTTP: letters, digits and some signs.
[[nodiscard]] bool is_header_name(std::string_view name) noexcept;

/// True if it has no control character, so it cannot end the header and begin another.
[[nodiscard]] bool is_header_value(std::string_view value) noexcept;

/// True for a name that HTTP, the signature or this library gives a meaning to. In any case of letters.
[[nodiscard]] bool is_reserved(std::string_view name) noexcept;

/// The headers of a message without the three of the signature. `fixed` are those of the endpoint. Throws
/// `permanent_failure` that names the header if one cannot be sent, or if the event id cannot be a `webhook-id`.
[[nodiscard]] header_list request_headers(message const& m, header_list const& fixed);

}  // namespace outbox::inline v0::webhook
