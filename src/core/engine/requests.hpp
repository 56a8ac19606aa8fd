// What the engine asks of a store and what comes back; `perform` carries one to the store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <outbox/error.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <variant>
#include <vector>

#include "core/engine/ticket.hpp"

namespace outbox::inline v0::core {

using namespace spi;

using std::chrono::milliseconds;

/// Gives back the rows of tokens that are in doubt.
struct release_request {
  std::vector<owner_token> tokens;
  milliseconds lease{};
};
/// Asks for the dispatch lock.
struct lock_request {
  milliseconds lease{};  ///< For a store whose lock is a lease.
};
/// Ends the leases of earlier holders of the dispatch lock.
struct expire_request {};

struct poll_request {
  std::variant<release_request, lock_request, expire_request, claim_request> request;
  steady_time sent{};
};

struct poll_reply {
  /// In the order of the requests: nothing, the lock or null, the number of ended leases, the claimed rows.
  std::variant<std::monostate, std::unique_ptr<dispatch_lock>, std::size_t, claim_reply> value;
  std::optional<error> failure;
};

struct settle_request {
  std::vector<ticket_ptr> tickets;
  std::vector<settlement> items;  ///< One per ticket.
};

struct settle_reply {
  std::vector<bool> applied;  ///< One per item.
  std::size_t unblocked = 0;  ///< Rows that can be claimed now.
  std::optional<error> failure;
};

/// Asks where births stand in their keys, because their transactions could not tell.
struct place_request {
  std::vector<ticket_ptr> tickets;
  std::vector<std::string> ids;  ///< One per ticket.
};

struct place_reply {
  std::vector<place> places;  ///< One per id.
  std::optional<error> failure;
};

struct renew_request {
  std::vector<ticket_ptr> tickets;
  std::vector<row_handle> rows;     ///< One per ticket.
  std::vector<owner_token> doubts;  ///< Released once more.
  steady_time sent{};
  std::uint64_t held = 0;            ///< The number of events in the node, for the registry.
  std::uint64_t pauses_version = 0;  ///< Pauses that were set since the request was sent win over its reply.
  std::size_t heal = 0;              ///< Unblock up to so many rows that wait for nothing. 0: do not look.
};

struct renew_reply {
  std::vector<bool> kept;        ///< One per row.
  std::optional<error> failure;  ///< The leases were not renewed, as far as is known.
  std::optional<error> rest;     ///< They were, but something after that failed.
  bool doubts_released = false;
  std::optional<std::size_t> healed;  ///< The number of rows that waited for nothing, if that was asked.
  std::optional<table_settings> settings;
  std::uint64_t commits = 0;               ///< Transactions that wrote to the store.
  std::weak_ptr<dispatch_lock> lost_lock;  ///< The dispatch lock, if its renewal found that it was lost.
};

/// A request, or the time to ask again if nothing happens before.
template <class Request>
struct plan {
  std::optional<Request> request;
  steady_time wake = steady_time::max();
};

/// Errors come back as values. `lock` is the dispatch lock that the node holds, if any; it is used only during the
/// call.
[[nodiscard]] poll_reply perform(spi::store& s, poll_request const& request, std::string const& incarnation,
                                 std::weak_ptr<dispatch_lock> const& lock) noexcept;
[[nodiscard]] settle_reply perform(spi::store& s, settle_request const& request) noexcept;
[[nodiscard]] place_reply perform(spi::store& s, place_request const& request) noexcept;

/// Renews, releases what is in doubt, and tells the other nodes that this one lives.
[[nodiscard]] renew_reply perform(spi::store& s, renew_request const& request, node_row const& self,
                                  std::weak_ptr<dispatch_lock> const& lock) noexcept;

}  // namespace outbox::inline v0::core
