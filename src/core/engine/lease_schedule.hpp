// Every time span that the engine derives from the length of a lease, with its reason.
#pragma once

#include <algorithm>
#include <chrono>

namespace outbox::inline v0::core {

/// Thread-safe: it never changes.
class lease_schedule {
 public:
  using milliseconds = std::chrono::milliseconds;

  explicit lease_schedule(milliseconds duration) noexcept : duration_{duration} {}

  /// How long a row belongs to the node without a renewal.
  [[nodiscard]] milliseconds duration() const noexcept { return duration_; }

  /// A quarter: two renewals in a row may fail before a lease comes into `start_margin`, and three before it ends.
  [[nodiscard]] milliseconds renew_every() const noexcept { return duration_ / 4; }

  /// A third, which is more than the quarter between two renewals. What has no more than this left has missed
  /// renewals, so no listener starts on it and the node claims nothing new: the lease may end during the call.
  [[nodiscard]] milliseconds start_margin() const noexcept { return duration_ / 3; }

  /// A half: a transaction may stay open for so long after it wrote an owned row. Later the rest of the lease may be
  /// too short to deliver and settle before another node takes the row over, so the poller gets it.
  [[nodiscard]] milliseconds birth_limit() const noexcept { return duration_ / 2; }

  /// A twelfth: a third of the time between two renewals. The node looks this often whether leases are fresh again.
  [[nodiscard]] milliseconds look_again() const noexcept { return duration_ / 12; }

  /// The longest pause between two tries of a request that fails. Three tries fit between two renewals, so leases
  /// outlive a short outage; the bounds keep very short and very long leases from hammering or ignoring the store.
  [[nodiscard]] milliseconds retry_gap() const noexcept {
    return std::clamp(look_again(), milliseconds{50}, milliseconds{2000});
  }

  /// A third: after an outage of this length, live nodes may have missed renewals. For the same time again the node
  /// claims only rows without an owner, so that the others can renew first.
  [[nodiscard]] milliseconds careful_for() const noexcept { return duration_ / 3; }

  /// Two leases: a request or a COMMIT whose reply was lost may take effect up to one lease later, and the rows that it
  /// owns then are owned for one lease more. After that there is nothing left to release.
  [[nodiscard]] milliseconds doubt_for() const noexcept { return 2 * duration_; }

 private:
  milliseconds duration_;
};

}  // namespace outbox::inline v0::core
