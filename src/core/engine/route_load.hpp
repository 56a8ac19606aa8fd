// How busy each route is: its calls, and its events that wait in the node.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/listeners/routes.hpp"

namespace outbox::inline v0::core {

/// A route with `max_in_flight` runs few calls at a time. Without care its events would take every slot of the node and
/// keep other routes out. Such a route is *crowded* when enough of its events wait: claims leave it out, and births go
/// to the poller. A null route, of an event without a listener, has no limit.
class route_load {
 public:
  route_load(std::size_t routes, std::size_t cold_slots)
      : per_route_(routes), half_{std::max<std::size_t>(1, cold_slots / 2)} {}

  /// True if one more call may begin.
  [[nodiscard]] bool has_room(route const* r) const noexcept {
    return !limited(r) || per_route_[r->index].in_flight < *r->options.max_in_flight;
  }

  /// True if enough events of the route wait. Remembers it, so that `queued_one_less` and `call_ended` tell when that
  /// has eased.
  [[nodiscard]] bool crowded(route const* r) noexcept {
    if (!limited(r)) return false;
    auto& now = per_route_[r->index];
    bool const full = now.queued >= room_of(*r);
    if (full) now.crowded = true;
    return full;
  }

  // These return true if a crowded route has eased: the poller should look for more of it.
  void call_began(route const& r) noexcept { per_route_[r.index].in_flight += 1; }
  [[nodiscard]] bool call_ended(route const& r) noexcept {
    per_route_[r.index].in_flight -= 1;
    return limited(&r) && eased(r);
  }
  [[nodiscard]] bool queued_one_more(route const* r) noexcept {
    if (!limited(r)) return false;
    per_route_[r->index].queued += 1;
    return eased(*r);
  }
  [[nodiscard]] bool queued_one_less(route const* r) noexcept {
    if (!limited(r)) return false;
    per_route_[r->index].queued -= 1;
    return eased(*r);
  }

  /// How many timeouts of its listener an event may wait in its queue. Without a limit: one. With a limit, the calls
  /// before it run in rounds of `max_in_flight`, and each round may take a timeout: that of the running calls, one for
  /// each full round that waits, and the event's own. The bound keeps the arithmetic of clocks defined.
  [[nodiscard]] std::size_t rounds_before(route const* r) const noexcept {
    if (!limited(r)) return 1;
    return std::min<std::size_t>(1000, 2 + per_route_[r->index].queued / *r->options.max_in_flight);
  }

 private:
  struct load {
    std::size_t in_flight = 0;  ///< Calls that count against the limit.
    std::size_t queued = 0;     ///< Events that wait. Counted only for a route with a limit.
    bool crowded = false;       ///< Was found crowded and has not eased since.
  };

  [[nodiscard]] static bool limited(route const* r) noexcept {
    return r != nullptr && r->options.max_in_flight.has_value();
  }

  /// How many events of a limited route may wait. Twice its limit keeps its calls busy while the poller brings more.
  /// Those that wait and those that run take at most half of the cold slots, so that other routes have the rest.
  [[nodiscard]] std::size_t room_of(route const& r) const noexcept {
    auto const running = std::min(half_, per_route_[r.index].in_flight);
    return std::min(2 * *r.options.max_in_flight, half_ - running);
  }

  /// True if a crowded route has half of its room free again. Half, so that a claim brings more than one row.
  [[nodiscard]] bool eased(route const& r) noexcept {
    auto& now = per_route_[r.index];
    if (!now.crowded) return false;
    auto const room = room_of(r);
    if (room == 0 || now.queued * 2 >= room + 1) return false;
    now.crowded = false;
    return true;
  }

  std::vector<load> per_route_;
  std::size_t half_;  ///< Of the cold slots.
};

}  // namespace outbox::inline v0::core
