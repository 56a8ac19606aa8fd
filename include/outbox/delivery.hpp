// One call of a listener: the event and its circumstances.
#pragma once

#include <cstdint>
#include <outbox/clock.hpp>
#include <outbox/event.hpp>
#include <stop_token>
#include <string>

namespace outbox::inline v0 {

/// The way of an event to its listener.
enum class path {
  hot,   ///< The node that wrote the event took it over at commit.
  cold,  ///< The poller claimed it from the table.
};

/// What a listener is told about one call. It lives only during the call; a copy may live longer. A delivery can be
/// copied but not assigned.
struct delivery {
  /// The event itself. Cheap to copy.
  outbox::v0::event event;

  /// The id of the event, valid for as long as `event` or a copy of it. Send it along, so that receivers can recognise
  /// duplicates.
  std::string const& id;

  /// 1 for the first try. Grows with every counted failure.
  std::int32_t attempt;

  /// A failure of this attempt makes the event DEAD.
  std::int32_t max_attempts;

  /// After this the call counts as failed and its result is ignored. `steady_time::max()` if there is no timeout.
  steady_time deadline;

  /// Which way the event came.
  outbox::v0::path path;

  /// An earlier try may have had its effect: it failed, or its process ended during the call.
  bool maybe_duplicate;

  /// Fires when the result no longer counts: after a timeout, a lost lease, or when the node stops.
  std::stop_token stop;
};

}  // namespace outbox::inline v0
