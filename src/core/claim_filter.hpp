// Which due rows a claim takes: the same rule for every store that walks its rows in claim order.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <outbox/store.hpp>

#include "core/planted.hpp"

namespace outbox::inline v0::core {

/// Shown the due rows one by one, oldest due instant first; notes in the reply what the engine must know of those that
/// it leaves.
class claim_filter {
 public:
  /// leave: not for this claim. kill: its crashes are used up. take: it is yours. stop: there is enough, and more is
  /// due.
  enum class choice { leave, kill, take, stop };

  struct candidate {
    bool owned = false;        ///< By an owner whose lease is over.
    std::int32_t crashes = 0;  ///< As stored, without that owner's.
    instant inserted_at{};
    instant claimable_at{};
    std::size_t bytes = 0;
  };

  claim_filter(claim_request const& request, claim_reply& reply) noexcept
      : request_{request},
        reply_{reply},
        limit_{request.suspects == suspects::take_one ? std::min<std::size_t>(1, request.limit) : request.limit} {}

  [[nodiscard]] choice consider(candidate const& row) {
    auto const now = reply_.now;
    if (request_.skip_recent.count() > 0 && row.inserted_at > now - request_.skip_recent) return choice::leave;
    if (row.owned && request_.unowned_only) return choice::leave;
    if (first_)
      reply_.oldest_lag =
          std::max(std::chrono::milliseconds{0}, std::chrono::floor<std::chrono::milliseconds>(now - row.claimable_at));
    first_ = false;
    auto const crashes = row.crashes + (row.owned ? 1 : 0);
    if (crashes >= request_.max_crashes) return choice::kill;
    bool const suspect = crashes == request_.max_crashes - 1 && !has_bug(planted_bug::crashes_blamed_on_neighbours);
    if (suspect != (request_.suspects == suspects::take_one)) {
      reply_.suspects_waiting = reply_.suspects_waiting || suspect;
      return choice::leave;
    }
    if (taken_ >= limit_ || (taken_ > 0 && bytes_ + row.bytes > request_.max_bytes)) {
      reply_.more = true;
      return choice::stop;
    }
    ++taken_;
    bytes_ += row.bytes;
    return choice::take;
  }

 private:
  claim_request const& request_;
  claim_reply& reply_;
  std::size_t const limit_;
  std::size_t taken_ = 0;
  std::size_t bytes_ = 0;
  bool first_ = true;
};

}  // namespace outbox::inline v0::core
