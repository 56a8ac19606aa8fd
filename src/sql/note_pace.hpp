// When a claim looks again for rows that it could not note.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <outbox/spi/store.hpp>

namespace outbox::inline v0::sql {

/// Thread-safe. One for each store.
class note_pace {
 public:
  /// The claims of late could note none of the rows that they wanted to: something stays in the way.
  [[nodiscard]] bool stuck() const noexcept { return times_ > 0; }

  /// A claim wanted to note so many rows, and has noted so many.
  void claimed(std::size_t wanted, std::size_t noted, spi::claim_reply& reply) noexcept {
    times_ = wanted > 0 && noted == 0 ? std::min(times_ + 1, most_doublings) : 0;
    if (noted < wanted) look_again_soon(reply);
  }

  /// The row before one of them is mostly about to leave the line. What stays in the way does not make the node look
  /// again and again.
  void look_again_soon(spi::claim_reply& reply) const noexcept {
    auto const soon = reply.now + first_wait * (1 << std::max(0, times_ - 1));
    reply.next_due = std::min(reply.next_due.value_or(soon), soon);
  }

 private:
  static constexpr std::chrono::milliseconds first_wait{20};
  static constexpr int most_doublings = 6;

  std::atomic<int> times_ = 0;  ///< In a row.
};

}  // namespace outbox::inline v0::sql
