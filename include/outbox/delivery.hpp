// One call of a listener: the event and the circumstances.
#pragma once

#include <cstdint>
#include <outbox/clock.hpp>
#include <outbox/event.hpp>
#include <stop_token>
#include <string>

namespace outbox::inline v0 {

/// hot: handed over by the commit in this process. cold: claimed from the table.
enum class path { hot, cold };

/// One call of a listener.
struct delivery {
  outbox::v0::event event;  ///< The event itself; cheap to copy.
  std::string const&
      id;  ///< The event's id, alive as long as `event` or a copy of it. Send it along: it is what receivers dedupe by.
  std::int32_t attempt;       ///< 1 for the first try; grows with every counted failure.
  std::int32_t max_attempts;  ///< A failure of this attempt number makes the event DEAD.
  steady_time deadline;       ///< After this the call counts as failed and its result is ignored. Without a timeout:
                              ///< `steady_time::max()`.
  outbox::v0::path path;
  bool maybe_duplicate;  ///< An earlier try may have had its effect: it failed, or its process ended in the middle.
  std::stop_token stop;  ///< Fires when the result no longer counts: timeout, lost lease, or a node that stops now.
};

}  // namespace outbox::inline v0
