// Claims of several nodes take turns on a table.
//
// A claim whose snapshot is older than the commit of another one finds rows that the other has just taken. SKIP LOCKED
// does not pass over them, because no transaction holds their lock any more: the server locks their newest version,
// sees that it does not qualify, and keeps the lock until the claim commits. Meanwhile the owner's settlement waits. In
// turns, every claim sees what the one before it took.
//
// Turns save work and are no promise: what two claims take never overlaps, with or without them. So a claim waits for
// its turn for a short time only, and a node that is stopped in the middle of a claim does not hold up the others.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>

namespace outbox::inline v0::postgres {

/// Thread-safe.
class turns {
 public:
  using clock = std::chrono::steady_clock;

  explicit turns(std::string_view table_id) : name_{"outbox turn " + std::string{table_id}} {}

  /// How long a claim waits for its turn.
  static constexpr std::string_view longest_wait = "50ms";

  /// What the server's lock is made of.
  [[nodiscard]] std::string_view name() const noexcept { return name_; }

  /// False for a second after a turn that did not come: the node that has it may be stopped, or there are so many
  /// claims that they are better made at the same time.
  [[nodiscard]] bool worth_waiting() const noexcept { return clock::now().time_since_epoch() >= after_.load(); }
  void missed() noexcept { after_ = clock::now().time_since_epoch() + std::chrono::seconds{1}; }

 private:
  std::string name_;
  std::atomic<clock::duration> after_ = clock::duration::min();
};

}  // namespace outbox::inline v0::postgres
