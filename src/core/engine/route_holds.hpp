// Kinds of events that the node leaves alone for a while, because their listener said so.
#pragma once

#include <algorithm>
#include <cstddef>
#include <outbox/clock.hpp>
#include <outbox/event.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

namespace outbox::inline v0::core {

/// A listener that answers `defer` with `whole_route` knows that the next events of the same event type and aggregate
/// type would fare no better. Claims leave them out until then, and what waits in the node is given back, so a receiver
/// that is away for hours costs the table nothing. It lives in memory: other nodes may have more luck.
class route_holds {
 public:
  /// Holds the kind of this event. A hold that lasts longer stays. Returns false if too many kinds are held.
  bool hold(event const& e, steady_time until, steady_time now) {
    std::erase_if(held_, [&](one const& h) { return h.until <= now; });
    for (auto& h : held_) {
      if (!is(h, e)) continue;
      h.until = std::max(h.until, until);
      return true;
    }
    if (held_.size() >= most) return false;
    held_.push_back({{e.type(), e.aggregate_type()}, until});
    return true;
  }

  [[nodiscard]] bool held(event const& e, steady_time now) const noexcept {
    return std::ranges::any_of(held_, [&](one const& h) { return h.until > now && is(h, e); });
  }

  /// Adds the kinds that are held to what a claim leaves out.
  void add_to(std::vector<route_pause>& left, steady_time now) const {
    for (auto const& h : held_) {
      if (h.until > now) left.push_back(h.kind);
    }
  }

 private:
  struct one {
    route_pause kind;
    steady_time until;
  };

  /// Each makes the statement of a claim longer. Beyond this, events are deferred one by one.
  static constexpr std::size_t most = 100;

  [[nodiscard]] static bool is(one const& h, event const& e) noexcept {
    return h.kind.event_type == e.type() && h.kind.aggregate_type == e.aggregate_type();
  }

  std::vector<one> held_;
};

}  // namespace outbox::inline v0::core
