// The poller's step: finds what nobody holds.
#include <algorithm>
#include <cassert>

#include "core/base/planted.hpp"
#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {
namespace {

// A sweep is a claim that looks at everything that is due, from the oldest on. It is quick unless the database must
// read past what was claimed before, which it cannot forget while some transaction stays open. Sweeps that take long
// get a small share of the time; the claims between them begin where the last one found something, but a while ago at
// the latest, because transactions commit later than they write. What they miss, the next sweep finds.
// A sweep also reads past the rows of routes that are left out, however quick it is: those sweeps rest longer.
constexpr milliseconds quick_sweep{20};
constexpr int rest_after_sweep = 10;  // times as long as it took
constexpr int rest_after_reading_past_routes = 30;
constexpr milliseconds longest_rest{60'000};

steady_time::duration rest_after(steady_time::duration sweep, claim_request const& claim) noexcept {
  bool const reads_past = !claim.pauses.empty();
  if (sweep < quick_sweep && !reads_past) return {};
  return std::min<steady_time::duration>((reads_past ? rest_after_reading_past_routes : rest_after_sweep) * sweep,
                                         longest_rest);
}

// A row that could not be claimed is tried again after this; the wait doubles each time.
constexpr milliseconds isolation_time{60'000};
constexpr milliseconds longest_isolation{3'600'000};
constexpr std::size_t most_isolated = 1000;

}  // namespace

plan<poll_request> engine::plan_poll(steady_time now) {
  if (poll_busy_ || !open_) return {};
  if (now < poll_not_before_) return {{}, poll_not_before_};
  pace_quarantine(now);

  release_request release{.tokens = {}, .lease = settings_.lease.duration};
  for (auto const& d : doubts_) {
    if (!d.released_once) release.tokens.push_back(d.token);
  }
  if (!release.tokens.empty()) {
    poll_busy_ = true;
    return {poll_request{std::move(release), now}};
  }
  bool const due = poll_wanted_ || now >= next_poll_;
  if (settings_.exclusive && !lock_held_) {
    if (!due) return {{}, next_poll_};
    poll_busy_ = true;
    return {poll_request{lock_request{}, now}};
  }
  if (settings_.exclusive && !others_expired_) {
    poll_busy_ = true;
    return {poll_request{expire_request{}, now}};
  }
  auto const or_drained = [&](steady_time t) {
    return quarantine_ == quarantine::draining ? std::min(t, drain_until_) : t;
  };
  if (!due) return {{}, or_drained(next_poll_)};
  // What stands in the way ends with a signal, but for leases, which age by themselves.
  if (!may_claim(now)) return {{}, or_drained(now + settings_.lease.duration / 12)};
  poll_busy_ = true;
  poll_wanted_ = false;
  next_poll_ = steady_time::max();
  return {poll_request{next_claim(now), now}};
}

bool engine::may_claim(steady_time now) const noexcept {
  if (stuck_workers_ >= settings_.workers) return false;
  if (settings_.in_order && !by_id_.empty()) return false;
  if (quarantine_ == quarantine::holding) return false;
  if (quarantine_ == quarantine::draining) return by_id_.empty() && running_.empty() && stuck_workers_ == 0;
  // Not one row for each slot that comes free, unless workers would go idle for it.
  auto const free = cold_slots_free();
  if (free == 0 || (free < settings_.poll.batch / 4 && !cold_.empty())) return false;
  if (cold_bytes_ >= settings_.queue.bytes / 2) return false;
  if (now < careful_until_ && !(finished_.empty() && settling_.empty())) return false;
  return leases_are_fresh(now);
}

bool engine::leases_are_fresh(steady_time now) const noexcept {
  auto const third = settings_.lease.duration / 3;
  auto const fresh = [&](ticket_ptr const& t) { return t->lost || (!t->unproven && t->lease_end - now > third); };
  for (auto const* list : {&registered_, &hot_, &cold_, &running_, &finished_, &settling_}) {
    if (!std::ranges::all_of(*list, fresh)) return false;
  }
  return true;
}

claim_request engine::next_claim(steady_time now) {
  bool const alone = quarantine_ == quarantine::draining;
  auto left = pauses_;
  for (auto const* const r : routes_.limited) {
    if (is_crowded(r)) left.push_back({r->event_type, r->aggregate_type});
  }
  // One claim must not fill every slot with events of a route that may run only a few of them at a time.
  auto const most = routes_.limited.empty() ? settings_.queue.cold : std::max<std::size_t>(1, settings_.queue.cold / 4);
  std::vector<std::string> leave;
  for (auto const& [id, row] : isolated_) {
    if (now < row.until && leave.size() < most_isolated) leave.push_back(id);
  }
  bool const sweep = now >= next_sweep_;
  auto const floor = sweep ? std::nullopt : floors_.of(left);
  // No floor between two sweeps: the last one has failed, perhaps because it took too long.
  auto const reach = sweep || floor ? std::nullopt : std::optional{reach_};
  return {.token = new_token(),
          .limit = alone ? 1 : std::min({settings_.poll.batch, cold_slots_free(), most}),
          .max_bytes = settings_.queue.bytes / 2 - cold_bytes_,
          .lease = settings_.lease.duration,
          .max_crashes = settings_.lease.max_crashes,
          .suspects = alone ? suspects::take_one : suspects::skip,
          .unowned_only = now < careful_until_,
          .skip_recent = settings_.poll.skip_recent,
          .in_order = settings_.in_order,
          .pauses = std::move(left),
          .leave = std::move(leave),
          .floor = floor,
          .reach = reach};
}

// A claim that looked so far back took long, or too long. It stays at that until a sweep succeeds.
void engine::reach_less_far(milliseconds reach) noexcept {
  reach_ = furthest_reach_ = std::max(always_seen, reach / 4);
}

// A claim that takes only suspects, or only rows without an owner, has not seen the rest: it moves no floor, and a
// sweep of that kind is none.
void engine::note_floor(claim_request const& claim, steady_time sent, claim_reply const& reply, steady_time now) {
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
  // What is too young for the claim is not below the floor when it has grown.
  auto const recent = std::max(always_seen, claim.skip_recent);
  floors_.note(claim.pauses, std::min<instant>(reply.floor.value_or(reply.now), reply.now - recent), !claim.floor);
}

// The claim went on without these rows. The next ones leave them for a while.
void engine::note_refused(claim_request const& claim, claim_reply const& reply, steady_time now) {
  auto const refused = [&](std::string const& id) {
    return std::ranges::any_of(reply.refused, [&](refused_row const& r) { return r.id == id; });
  };
  for (auto const& r : reply.rows) isolated_.erase(r.handle.id);
  // A claim that looked at everything has met it, unless it is gone or not due any more.
  bool const saw_all =
      !claim.floor && !claim.reach && !claim.unowned_only && claim.suspects == suspects::skip && !reply.more;
  std::erase_if(isolated_, [&](auto const& row) {
    return saw_all && std::ranges::find(claim.leave, row.first) == claim.leave.end() && !refused(row.first);
  });
  for (auto const& r : reply.refused) {
    if (isolated_.size() >= most_isolated && !isolated_.contains(r.id)) {
      say(log_level::error, "more than " + std::to_string(most_isolated) + " events cannot be claimed: " + r.error);
      continue;
    }
    auto& row = isolated_[r.id];
    auto const wait = std::min<milliseconds>(longest_isolation, isolation_time * (1LL << std::min(row.times, 10)));
    row.until = now + wait;
    if (row.times++ == 0) counters_.isolated += 1;
    if (row.error != r.error) {
      say(log_level::error,
          "event " + r.id + " (" + r.type + ") cannot be claimed, the node goes on without it: " + r.error, "isolated");
    }
    row.error = r.error;
  }
}

// A suspect is taken when this node holds nothing else, so that no neighbour can be what kills it.
void engine::note_suspects(claim_request const& claim, claim_reply const& reply, steady_time now) {
  if (quarantine_ == quarantine::draining && claim.suspects == suspects::take_one) {
    quarantine_ = reply.rows.empty() ? quarantine::none : quarantine::holding;
    if (quarantine_ == quarantine::holding) return;
    drain_limit_ = first_drain;
    no_suspect_before_ = now + first_drain;  // it may be one that cannot be claimed
    poll_wanted_ = true;                     // what was committed meanwhile has called, and this claim has left it
    return;
  }
  if (!reply.suspects_waiting || now < no_suspect_before_ || quarantine_ != quarantine::none || stuck_workers_ > 0 ||
      has_bug(planted_bug::crashes_blamed_on_neighbours)) {
    return;
  }
  quarantine_ = quarantine::waiting;
  wait_for_elders();
  poll_wanted_ = true;
}

void engine::wait_for_elders() {
  elders_ = running_.size() + registered_.size();
  for (auto const* list : {&running_, &registered_}) {
    for (auto const& t : *list) t->elder = true;
  }
}

// Waits for the calls and transactions that were under way, while everything else goes on; then stands still until the
// rest has ended, for a time. If something that began in between takes longer, everything goes on again until that has
// ended.
void engine::pace_quarantine(steady_time now) {
  if (quarantine_ == quarantine::waiting && elders_ == 0) {
    quarantine_ = quarantine::draining;
    drain_until_ = now + drain_limit_;
    poll_wanted_ = true;
  } else if (quarantine_ == quarantine::draining && now >= drain_until_ && !(by_id_.empty() && running_.empty())) {
    quarantine_ = quarantine::waiting;
    drain_limit_ = std::min<milliseconds>(drain_limit_ * 2, std::chrono::hours{1});
    wait_for_elders();
    poll_wanted_ = true;
    signals_ |= signal_work;
  }
}

std::size_t engine::apply_claim(claim_request const& claim, steady_time sent, claim_reply reply, steady_time now) {
  poll_busy_ = false;
  store_answered(claim_health_, now);
  oldest_lag_ = reply.oldest_lag;
  for (auto const& k : reply.killed) {
    counters_.killed += 1;
    auto const why = k.why.empty() ? std::to_string(k.crashes) + " processes ended while they held it" : k.why;
    say(log_level::error, "event " + k.id + " (" + k.type + ") is DEAD: " + why, "killed");
  }
  if (!reply.foreign_owner.empty() && foreign_owner_said_ != reply.foreign_owner) {
    foreign_owner_said_ = reply.foreign_owner;
    say(log_level::warning, "another program, '" + reply.foreign_owner +
                                "', dispatches from this table too and knows nothing of leases: events will be "
                                "delivered twice. Let only one of the two dispatch");
  }
  note_refused(claim, reply, now);
  note_suspects(claim, reply, now);
  note_floor(claim, sent, reply, now);
  plan_next_poll(reply, now);
  if (claim.floor || claim.reach) next_poll_ = std::min(next_poll_, next_sweep_);
  for (auto& row : reply.rows) receive(std::move(row), sent, now);
  return reply.rows.size();
}

void engine::plan_next_poll(claim_reply const& reply, steady_time now) {
  auto const every = std::chrono::duration<double, std::milli>{settings_.poll.every} * (0.9 + 0.2 * random_.fraction());
  auto next = now + std::chrono::duration_cast<steady_time::duration>(every);
  if (reply.next_due) {
    // At least a moment away: an instant that a foreign writer put in another form may sort later than it is.
    auto const gap =
        std::clamp<std::chrono::microseconds>(*reply.next_due - reply.now, milliseconds{1}, settings_.poll.every);
    next = std::min<steady_time>(next, now + gap);
  }
  // What was told since the claim was sent is not in its reply.
  next_poll_ = std::min(next_poll_, next);
  if (reply.more) poll_wanted_ = true;
}

void engine::receive(claimed_row row, steady_time sent, steady_time now) {
  counters_.cold_enqueued += 1;
  auto const lease_end = sent + settings_.lease.duration;
  if (auto const held = by_id_.find(row.handle.id); held != by_id_.end()) {
    ticket& t = *held->second;
    if (t.stage == stage::registered && !has_bug(planted_bug::birth_swallows_a_claim)) {
      // Another transaction has committed this id: the birth's own was rolled back unseen, or will be. Its end finds
      // the ticket gone.
      remove(t);
    } else if (t.lost || t.stage == stage::settling || (t.stage == stage::finished && t.resent)) {
      forget(t);
    } else {
      own_again(t, std::move(row.handle), lease_end);
      return;
    }
  }
  route const* const where = routes_.find(row.event.aggregate_type(), row.event.type());
  auto t = std::make_shared<ticket>(std::move(row.event), std::move(row.handle), where, path::cold);
  t->attempts = row.attempts;
  t->crashes = row.crashes;
  t->tried = row.tried;
  t->progress = std::move(row.progress);
  t->lease_end = lease_end;
  t->limit = end_of(patience_of(*t), now);
  t->settlement = {.row = t->handle, .progress = t->progress};
  // The dispatch lock may have been lost since the claim was sent.
  bool const wanted = open_ && (active() || has_bug(planted_bug::work_goes_on_without_the_lock));
  if (wanted && row.malformed.empty()) {
    admit(t, stage::queued);
    signals_ |= signal_work;
    return;
  }
  t->settlement.outcome = wanted ? outcome::dead : outcome::release;
  t->unreadable = !row.malformed.empty();
  if (wanted) t->settlement.error = "the row cannot be read: " + row.malformed;
  admit(t, stage::finished);
  signals_ |= signal_settle;
}

// The row was free although its settlement is not confirmed: it has taken effect, and the row fell due again. Or the
// row was lost to somebody who has given it back, while the call here goes on. The claim is what counts from here on;
// the old ticket only waits for its reply, or for the end of a call whose result nobody asks for.
void engine::forget(ticket& t) {
  if (t.stage == stage::finished) return remove_lost(t);
  by_id_.erase(t.event.id());
}

// The store's clock jumped past a lease that this node still holds, so the node was given its own row again. Running it
// twice would be a duplicate; it goes on as it is, under the new token.
void engine::own_again(ticket& t, row_handle handle, steady_time lease_end) {
  counters_.own_rows_reclaimed += 1;
  counters_.cold_enqueued -= 1;
  t.lost = t.unproven = false;
  t.handle = std::move(handle);
  t.lease_end = lease_end;
  t.settlement.row = t.handle;
}

void engine::apply_released(release_request const& sent, steady_time now) {
  poll_busy_ = false;
  store_answered(release_health_, now);
  note_released(sent.tokens);
  poll_wanted_ = true;
  signals_ |= signal_poll;
}

void engine::apply_lock(bool acquired, steady_time now) {
  poll_busy_ = false;
  lock_held_ = acquired;
  if (acquired) {
    prove_what_is_held(now);  // somebody else may have had the lock in between, and what this node still runs
    poll_wanted_ = true;
    return;
  }
  store_answered(lock_health_, now);
  store_answered(claim_health_, now);  // a node that stands by claims nothing
  poll_wanted_ = false;
  next_poll_ = now + std::min<milliseconds>(settings_.poll.every, milliseconds{1000});
  if (!standby_said_) say(log_level::info, "another node dispatches from this table: standing by");
  standby_said_ = true;
}

void engine::lock_lost(steady_time now) {
  if (!lock_held_) return;
  lock_held_ = false;
  others_expired_ = false;
  say(log_level::warning, "the dispatch lock was lost: standing by");
  if (has_bug(planted_bug::work_goes_on_without_the_lock)) return;
  give_back_queued();  // whoever has the lock now delivers it
  prove_what_is_held(now);
  next_poll_ = now;
  signals_ |= signal_poll;
}

// No claim before a renewal that is sent from here on has told what is still ours: it could return what this node
// holds.
void engine::prove_what_is_held(steady_time now) {
  bool any = false;
  for (auto const* list : {&running_, &finished_, &settling_}) {
    for (auto const& t : *list) any = t->unproven = true;
  }
  if (!any) return;
  doubted_at_ = next_renew_ = now;
  signals_ |= signal_renew;
}

void engine::apply_expired(std::size_t rows, steady_time now) {
  poll_busy_ = false;
  store_answered(lock_health_, now);
  others_expired_ = lock_held_;  // it may have been lost meanwhile
  poll_wanted_ = true;
  say(log_level::info, "dispatching; " + std::to_string(rows) + " leases of earlier nodes ended");
}

void engine::apply_poll_failure(poll_request const& sent, error const& e, steady_time now) {
  poll_busy_ = false;
  poll_wanted_ = true;
  signals_ |= signal_poll;
  if (auto const* const claim = std::get_if<claim_request>(&sent.request)) {
    poll_not_before_ = store_failed(claim_health_, e, "claim", now);
    // It may have taken too long: then a claim that looks at less may succeed.
    if (!claim->floor && !claim->reach) next_sweep_ = now + rest_after(now - sent.sent, *claim);
    if (claim->reach) reach_less_far(*claim->reach);
    // It may have happened, or may happen yet: its token is released before the next claim.
    if (!has_bug(planted_bug::unknown_claim_never_released)) {
      doubts_.push_back({claim->token, now + 2 * settings_.lease.duration, false});
    }
    return;
  }
  bool const release = std::holds_alternative<release_request>(sent.request);
  poll_not_before_ = release ? store_failed(release_health_, e, "release what is in doubt", now)
                             : store_failed(lock_health_, e, "take the dispatch lock", now);
}

}  // namespace outbox::inline v0::core
