#include <algorithm>
#include <chrono>
#include <outbox/spi/claim_filter.hpp>
#include <utility>

#include "core/base/planted.hpp"

namespace outbox::inline v0::spi {

using core::has_bug;
using core::planted_bug;

namespace {

std::int32_t crashes_of(claim_filter::candidate const& row) noexcept { return row.crashes + (row.owned ? 1 : 0); }

}  // namespace

claim_filter::claim_filter(claim_request const& request, claim_reply& reply) noexcept
    : request_{request},
      reply_{reply},
      limit_{request.suspects == suspects::take_one ? std::min<std::size_t>(1, request.limit) : request.limit} {}

claim_filter::choice claim_filter::consider(candidate const& row) {
  // One that could not be changed, not even noted.
  if (!request_.in_order && std::ranges::find(request_.leave, row.id) != request_.leave.end()) return choice::leave;
  // Whatever else it is: a suspect, say, that is not the first of its key must not make the node stand still.
  if (waits_for_another(row)) {
    if (!left_one_) reply_.floor = row.claimable_at;
    left_one_ = true;  // the note may fail
    return choice::note;
  }
  if (paused(request_.pauses, row.aggregate_type, row.event_type)) return choice::leave;
  if (request_.in_order) return in_order(row);
  auto const chosen = by_due_instant(row);
  if (!left_one_) reply_.floor = row.claimable_at;
  left_one_ = left_one_ || chosen == choice::leave || chosen == choice::stop;
  if (chosen == choice::take) remember(row);
  return chosen;
}

// A row that the claim leaves, whatever the reason, holds up those behind it.
bool claim_filter::waits_for_another(candidate const& row) const {
  if (!request_.keyed || row.key.empty()) return false;
  if (!row.before.empty() && !taken_ids_.contains(std::string{row.before})) return true;
  auto const taken = taken_of_key_.find(std::string{row.key});
  return taken != taken_of_key_.end() && taken->second >= request_.run;
}

// Those behind a row that was tried before wait until it is over: each failure would claim and release them again, and
// each crash would be counted as theirs too.
void claim_filter::remember(candidate const& row) {
  if (!request_.keyed || row.key.empty()) return;
  if (!row.tried && row.crashes == 0) taken_ids_.emplace(row.id);
  ++taken_of_key_[std::string{row.key}];
}

std::size_t claim_filter::room_behind(candidate const& head) const {
  if (!request_.keyed || !head.next_blocked || head.tried || head.crashes > 0 || head.owned) return 0;
  if (request_.suspects == suspects::take_one || taken_ >= limit_) return 0;
  auto const taken = taken_of_key_.find(std::string{head.key});
  auto const of_key = taken == taken_of_key_.end() ? 0 : taken->second;
  return std::min(limit_ - taken_, request_.run - std::min(request_.run, of_key));
}

claim_filter::choice claim_filter::follow(candidate const& row) {
  if (paused(request_.pauses, row.aggregate_type, row.event_type)) return choice::stop;
  if (std::ranges::find(request_.leave, row.id) != request_.leave.end()) return choice::stop;
  if (row.claimable_at > reply_.now || too_young(row) || row.foreign_lock) return choice::stop;
  if (row.owned && request_.unowned_only) return choice::stop;
  if (request_.retries_only && !row.tried) return choice::stop;
  if (crashes_of(row) >= request_.max_crashes - 1) return choice::stop;  // a suspect, or beyond that: as a head
  if (taken_of_key_[std::string{row.key}] >= request_.run) return choice::stop;
  if (take(row) != choice::take) return choice::stop;
  remember(row);
  return choice::take;
}

claim_filter::choice claim_filter::by_due_instant(candidate const& row) {
  if (request_.retries_only && !row.tried) return choice::leave;
  if (too_young(row) || locked_elsewhere(row)) return choice::leave;
  if (row.owned && request_.unowned_only) return choice::leave;
  note_lag(row);
  auto const crashes = crashes_of(row);
  // In line, it is taken like a suspect would be, and settled by the node: see claim_request::keyed.
  bool const used_up = crashes >= request_.max_crashes;
  if (used_up && (!request_.keyed || row.key.empty())) return choice::dead;
  if (used_up) return take(row);
  bool const suspect = crashes == request_.max_crashes - 1 && !has_bug(planted_bug::crashes_blamed_on_neighbours);
  if (suspect != (request_.suspects == suspects::take_one)) {
    reply_.suspects_waiting = reply_.suspects_waiting || suspect;
    return choice::leave;
  }
  return take(row);
}

claim_filter::choice claim_filter::in_order(candidate const& row) {
  if (row.claimable_at > reply_.now) {
    bool const waits = (row.tried || row.owned) && !has_bug(planted_bug::deferral_is_overtaken);
    return waits ? choice::stop : choice::leave;
  }
  if (too_young(row) || locked_elsewhere(row)) return choice::stop;
  note_lag(row);
  auto const crashes = crashes_of(row);
  if (crashes >= request_.max_crashes) return choice::dead;
  bool const suspect = crashes == request_.max_crashes - 1;
  if (taken_ > 0 && (suspect || suspect_taken_)) {
    reply_.more = true;
    return choice::stop;
  }
  suspect_taken_ = suspect;
  return take(row);
}

bool claim_filter::too_young(candidate const& row) const noexcept {
  return request_.skip_recent.count() > 0 && row.inserted_at > reply_.now - request_.skip_recent;
}

// Another program's lock has no end of its own: it counts for as long as a lease of ours would.
bool claim_filter::locked_elsewhere(candidate const& row) {
  if (!row.foreign_lock) return false;
  instant const until = *row.foreign_lock + request_.lease;
  if (until <= reply_.now) return false;
  if (!reply_.next_due || until < *reply_.next_due) reply_.next_due = until;
  if (reply_.foreign_owner.empty()) reply_.foreign_owner = row.foreign_owner;
  return true;
}

void claim_filter::note_lag(candidate const& row) {
  using std::chrono::milliseconds;
  if (!std::exchange(first_, false)) return;
  reply_.oldest_lag = std::max(milliseconds{0}, std::chrono::floor<milliseconds>(reply_.now - row.claimable_at));
}

claim_filter::choice claim_filter::take(candidate const& row) {
  if (taken_ >= limit_ || (taken_ > 0 && bytes_ + row.bytes > request_.max_bytes)) {
    reply_.more = true;
    return choice::stop;
  }
  ++taken_;
  bytes_ += row.bytes;
  return choice::take;
}

claim_filter::candidate candidate_of(row_view const& row, instant claimable_at, std::optional<instant> locked_at) {
  bool const locked = !row.locked_by.empty();
  bool const foreign = locked && !row.lease_until;
  return {.id = row.event.id(),
          .event_type = row.event.type(),
          .aggregate_type = row.event.aggregate_type(),
          .owned = locked && !foreign,
          .foreign_lock = foreign ? locked_at : std::nullopt,
          .foreign_owner = row.locked_by,
          .tried = row.status == event_status::retry || !row.last_error.empty(),
          .crashes = row.crashes,
          .inserted_at = row.inserted_at,
          .claimable_at = claimable_at,
          .bytes = row.event.size_bytes(),
          .key = {},
          .before = {},
          .next_blocked = false};
}

claimed_row claim_of(row_view&& row, owner_token const& token, std::int64_t locator, std::string malformed) {
  auto key = row.blocked ? key_of(row.event) : std::string{};
  return {.handle = {row.event.id(), token, locator},
          .event = std::move(row.event),
          .attempts = row.attempts,
          .crashes = row.crashes,
          .tried = row.status == event_status::retry,
          .progress = std::move(row.progress),
          .malformed = std::move(malformed),
          .seq = row.seq,
          .key = std::move(key)};
}

std::string crash_budget_exhausted(std::int32_t crashes) {
  return "crash budget exhausted: " + std::to_string(crashes) + " processes ended while they held this event";
}

}  // namespace outbox::inline v0::spi
