// How many rows a claim asks for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <outbox/options.hpp>
#include <outbox/spi/store.hpp>

namespace outbox::inline v0::core {

/// The first claim asks for `poll.batch` rows. While claims come back full, the next one asks for twice as many, up to
/// `poll.max_batch`: a backlog is claimed in few round trips. A claim that leaves nothing behind ends the growth.
class claim_size {
 public:
  /// `room`: the largest claim that the node has slots for.
  claim_size(poll_options const& o, std::size_t room, bool in_order) noexcept
      : first_{std::min(o.batch, room)},
        most_{in_order ? first_ : std::min(std::max(o.batch, o.max_batch), room)},
        next_{first_} {}

  [[nodiscard]] std::size_t next() const noexcept { return next_; }

  /// A busy node would otherwise send a claim for each slot that comes free. A quarter is worth a round trip.
  [[nodiscard]] std::size_t worthwhile() const noexcept { return next_ / 4; }

  /// A claim that asked for less than `next()`, because the node had no room for more, says nothing about the table.
  void note(spi::claim_request const& claim, spi::claim_reply const& reply) noexcept {
    if (!reply.more) {
      next_ = first_;
    } else if (claim.limit >= next_ && reply.rows.size() >= claim.limit) {
      next_ = std::min(next_ * 2, most_);
    }
  }

 private:
  std::size_t first_, most_, next_;
};

}  // namespace outbox::inline v0::core
