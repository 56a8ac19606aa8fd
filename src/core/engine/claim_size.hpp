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
  /// Nor does a keyed claim that found nothing while the node holds rows: what is due may wait for these. And behind
  /// one that took long runs there are more rows, which wait for the last of them.
  void note(spi::claim_request const& claim, spi::claim_reply const& reply, bool holds_rows) noexcept {
    auto const rows = reply.rows.size();
    bool const may_wait = claim.keyed && (rows * 2 > claim.limit || (rows == 0 && holds_rows));
    if (claim.limit >= next_ && rows >= claim.limit && (reply.more || claim.keyed)) {
      next_ = std::min(next_ * 2, most_);
    } else if (!reply.more && !may_wait) {
      next_ = first_;
    }
  }

 private:
  std::size_t first_, most_, next_;
};

}  // namespace outbox::inline v0::core
