// Carries the engine's requests to a store and brings the replies back; errors come back as values.
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {

struct poll_reply {
  std::variant<std::monostate, std::unique_ptr<dispatch_lock>, std::size_t, claim_reply> value;
  std::optional<error> failure;
};

struct settle_reply {
  std::vector<bool> applied;
  std::optional<error> failure;
};

struct renew_reply {
  std::vector<bool> kept;
  std::optional<error> failure;  ///< The leases were not renewed, as far as is known.
  std::optional<error> rest;     ///< They were, but something after that failed.
  bool doubts_released = false;
  std::optional<std::vector<route_pause>> pauses;
};

/// `lock` is the dispatch lock that the node holds, if any; it is used only for as long as the call takes.
[[nodiscard]] poll_reply perform(spi::store& s, poll_request const& request, std::string const& incarnation,
                                 std::weak_ptr<dispatch_lock> const& lock) noexcept;
[[nodiscard]] settle_reply perform(spi::store& s, settle_request const& request) noexcept;

/// Renews, releases what is in doubt, and tells the other nodes that this one lives.
[[nodiscard]] renew_reply perform(spi::store& s, renew_request const& request, node_row const& self) noexcept;

}  // namespace outbox::inline v0::core
