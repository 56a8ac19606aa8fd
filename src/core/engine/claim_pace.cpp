#include "core/engine/claim_pace.hpp"

#include <algorithm>

#include "core/base/planted.hpp"

namespace outbox::inline v0::core {
namespace {

using std::chrono::milliseconds;
using namespace spi;

constexpr milliseconds quick_sweep{20};
constexpr int rest_after_sweep = 10;  // times as long as it took: a tenth of the time goes into sweeps
constexpr int rest_after_reading_past_routes =
    30;  // such a sweep costs the same however quick it is, so it rests longer
constexpr milliseconds longest_rest{60'000};

steady_time::duration rest_after(steady_time::duration sweep, claim_request const& claim) noexcept {
  bool const reads_past = !claim.pauses.empty();
  if (sweep < quick_sweep && !reads_past) return {};
  return std::min<steady_time::duration>((reads_past ? rest_after_reading_past_routes : rest_after_sweep) * sweep,
                                         longest_rest);
}

}  // namespace

bool claim_pace::ask_by(steady_time t) noexcept {
  if (t >= next_) return false;
  next_ = t;
  return true;
}

void claim_pace::stand_by(steady_time until) noexcept {
  wanted_ = false;
  next_ = until;
}

void claim_pace::claim_sent() noexcept {
  wanted_ = false;
  next_ = steady_time::max();
}

claim_pace::beginning claim_pace::begin(std::vector<route_pause> const& left_out, steady_time now) const {
  if (now >= next_sweep_) return {};
  if (auto const floor = floors_.of(left_out)) return {.floor = floor};
  return {.reach = reach_};  // no floor between two sweeps: the last one failed, perhaps because it took too long
}

void claim_pace::look_everywhere() noexcept {
  floors_.reset();
  next_sweep_ = {};
  furthest_reach_ = no_limit;
}

// A claim that looked so far back took long, or too long. The reach stays limited until a sweep succeeds.
void claim_pace::reach_less_far(milliseconds reach) noexcept {
  reach_ = furthest_reach_ = std::max(always_seen, reach / 4);
}

void claim_pace::plan_next(claim_request const& claim, claim_reply const& reply, steady_time::duration usual,
                           milliseconds poll_every, steady_time now) noexcept {
  auto next = now + usual;
  if (reply.next_due) {
    // At least a moment away: an instant that a foreign writer put in another form may sort later than it is.
    auto const gap = std::clamp<std::chrono::microseconds>(*reply.next_due - reply.now, milliseconds{1}, poll_every);
    next = std::min<steady_time>(next, now + gap);
  }
  if (reply.look_again) next = std::min<steady_time>(next, now + *reply.look_again);
  // Another thread may have asked since the claim was sent: the reply does not have what it wrote.
  next_ = std::min(next_, next);
  if (claim.floor || claim.reach) next_ = std::min(next_, next_sweep_);
  if (reply.more) wanted_ = true;
}

// A claim that takes only suspects, or only rows without an owner, has not seen the rest: it moves no floor, and it is
// no sweep.
void claim_pace::note_reply(claim_request const& claim, steady_time sent, claim_reply const& reply, steady_time now) {
  if (claim.in_order) return;
  if (claim.reach) {
    bool const quick = now - sent < quick_sweep;
    if (quick) reach_ = std::min(*claim.reach * 2, furthest_reach_);
    if (!quick) reach_less_far(*claim.reach);
    return;
  }
  if (!claim.floor) {
    reach_ = always_seen;
    furthest_reach_ = no_limit;
  }
  if (claim.unowned_only || claim.suspects == suspects::take_one) {
    if (!claim.floor) look_everywhere();
    return;
  }
  if (!claim.floor) {
    next_sweep_ = now + rest_after(now - sent, claim);
    if (has_bug(planted_bug::old_rows_are_not_looked_for)) next_sweep_ = steady_time::max();
  }
  // A claim that stopped to look for rows that it cannot take may not have come as far as it says.
  if (!reply.refused.empty()) return look_everywhere();
  // A row that is too young for the claim must not be below the floor when it is old enough.
  auto const recent = std::max(always_seen, claim.skip_recent);
  floors_.note(claim.pauses, std::min<instant>(reply.floor.value_or(reply.now), reply.now - recent), !claim.floor);
}

void claim_pace::note_failure(claim_request const& claim, steady_time sent, steady_time now) noexcept {
  // It may have taken too long: then a claim that looks at less may succeed.
  if (!claim.floor && !claim.reach) next_sweep_ = now + rest_after(now - sent, claim);
  if (claim.reach) reach_less_far(*claim.reach);
}

}  // namespace outbox::inline v0::core
