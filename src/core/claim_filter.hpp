// Which due rows a claim takes: the same rule for every store that walks its rows in claim order.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <outbox/store.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "core/planted.hpp"

namespace outbox::inline v0::core {

[[nodiscard]] inline bool paused(std::vector<route_pause> const& pauses, std::string_view aggregate_type,
                                 std::string_view event_type) noexcept {
  return std::ranges::any_of(pauses, [&](auto const& p) { return p.covers(aggregate_type, event_type); });
}

/// Shown the rows one by one: the due ones, oldest due instant first; or, for a claim in order, all that are pending by
/// `seq`. Notes in the reply what the engine must know of those that it leaves.
class claim_filter {
 public:
  /// leave: not for this claim. kill: its crashes are used up. take: it is yours. stop: nothing behind it either.
  enum class choice { leave, kill, take, stop };

  struct candidate {
    std::string_view id{};
    std::string_view event_type{};
    std::string_view aggregate_type{};
    bool owned = false;                     ///< By an owner whose lease is over (in order: or still runs).
    std::optional<instant> foreign_lock{};  ///< When another program locked it, which knows no leases.
    std::string_view foreign_owner{};       ///< That program's name for itself.
    bool tried = false;                     ///< A settlement put it back: it is RETRY, or has an error.
    std::int32_t crashes = 0;               ///< As stored, without that owner's.
    instant inserted_at{};
    instant claimable_at{};
    std::size_t bytes = 0;
  };

  claim_filter(claim_request const& request, claim_reply& reply) noexcept
      : request_{request},
        reply_{reply},
        limit_{request.suspects == suspects::take_one ? std::min<std::size_t>(1, request.limit) : request.limit} {}

  [[nodiscard]] choice consider(candidate const& row) {
    if (paused(request_.pauses, row.aggregate_type, row.event_type)) return choice::leave;
    if (!request_.in_order && std::ranges::find(request_.leave, row.id) != request_.leave.end()) return choice::leave;
    if (request_.in_order) return in_order(row);
    auto const chosen = by_due_instant(row);
    if (!left_one_) reply_.floor = row.claimable_at;
    left_one_ = left_one_ || chosen == choice::leave || chosen == choice::stop;
    return chosen;
  }

 private:
  [[nodiscard]] choice by_due_instant(candidate const& row) {
    if (too_young(row) || locked_elsewhere(row)) return choice::leave;
    if (row.owned && request_.unowned_only) return choice::leave;
    note_lag(row);
    auto const crashes = crashes_of(row);
    if (crashes >= request_.max_crashes) return choice::kill;
    bool const suspect = crashes == request_.max_crashes - 1 && !has_bug(planted_bug::crashes_blamed_on_neighbours);
    if (suspect != (request_.suspects == suspects::take_one)) {
      reply_.suspects_waiting = reply_.suspects_waiting || suspect;
      return choice::leave;
    }
    return take(row);
  }

  [[nodiscard]] choice in_order(candidate const& row) {
    if (row.claimable_at > reply_.now) {
      bool const waits = (row.tried || row.owned) && !has_bug(planted_bug::deferral_is_overtaken);
      return waits ? choice::stop : choice::leave;
    }
    if (too_young(row) || locked_elsewhere(row)) return choice::stop;
    note_lag(row);
    auto const crashes = crashes_of(row);
    if (crashes >= request_.max_crashes) return choice::kill;
    bool const suspect = crashes == request_.max_crashes - 1;
    if (taken_ > 0 && (suspect || suspect_taken_)) {
      reply_.more = true;
      return choice::stop;
    }
    suspect_taken_ = suspect;
    return take(row);
  }

  [[nodiscard]] bool too_young(candidate const& row) const noexcept {
    return request_.skip_recent.count() > 0 && row.inserted_at > reply_.now - request_.skip_recent;
  }

  // Another program's lock has no end of its own: it counts for as long as a lease of ours would.
  [[nodiscard]] bool locked_elsewhere(candidate const& row) {
    if (!row.foreign_lock) return false;
    instant const until = *row.foreign_lock + request_.lease;
    if (until <= reply_.now) return false;
    if (!reply_.next_due || until < *reply_.next_due) reply_.next_due = until;
    if (reply_.foreign_owner.empty()) reply_.foreign_owner = row.foreign_owner;
    return true;
  }

  [[nodiscard]] static std::int32_t crashes_of(candidate const& row) noexcept {
    return row.crashes + (row.owned ? 1 : 0);
  }

  void note_lag(candidate const& row) {
    using std::chrono::milliseconds;
    if (!std::exchange(first_, false)) return;
    reply_.oldest_lag = std::max(milliseconds{0}, std::chrono::floor<milliseconds>(reply_.now - row.claimable_at));
  }

  [[nodiscard]] choice take(candidate const& row) {
    if (taken_ >= limit_ || (taken_ > 0 && bytes_ + row.bytes > request_.max_bytes)) {
      reply_.more = true;
      return choice::stop;
    }
    ++taken_;
    bytes_ += row.bytes;
    return choice::take;
  }

  claim_request const& request_;
  claim_reply& reply_;
  std::size_t const limit_;
  std::size_t taken_ = 0;
  std::size_t bytes_ = 0;
  bool first_ = true;
  bool suspect_taken_ = false;
  bool left_one_ = false;
};

}  // namespace outbox::inline v0::core
