// Which addresses a request may go to.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>

namespace outbox::inline v0::webhook {

/// Returns what kind of address it is if it is not a public one, as in "loopback"; empty if it is public. An address of
/// version 4 that is written as one of version 6 is not public; behind NAT64 the address of version 4 decides. `a` has
/// the size that its family has.
[[nodiscard]] std::string_view not_public(::sockaddr const& a) noexcept;

/// "127.0.0.1", "::1"
[[nodiscard]] std::string address_text(::sockaddr const& a);

}  // namespace outbox::inline v0::webhook
