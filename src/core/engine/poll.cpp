// The poller's step: finds the rows that no node holds.
#include <algorithm>
#include <cassert>
#include <outbox/spi/claim_filter.hpp>

#include "core/base/planted.hpp"
#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {
plan<poll_request> engine::plan_poll(steady_time now) {
  if (poll_busy_ || !open_) return {};
  if (now < pace_.resting_until()) return {{}, pace_.resting_until()};
  pace_quarantine(now);

  release_request release{.tokens = {}, .lease = leases_.duration()};
  for (auto const& d : doubts_) {
    if (!d.released_once) release.tokens.push_back(d.token);
  }
  if (!release.tokens.empty()) {
    poll_busy_ = true;
    return {poll_request{std::move(release), now}};
  }
  bool const due = pace_.due(now);
  if (settings_.exclusive && !lock_held_) {
    if (!refusal_.empty()) return {{}, now + leases_.look_again()};  // the lock is for nodes that may dispatch
    if (!due) return {{}, pace_.next()};
    poll_busy_ = true;
    return {poll_request{lock_request{settings_.lease.duration}, now}};
  }
  if (settings_.exclusive && !others_expired_) {
    poll_busy_ = true;
    return {poll_request{expire_request{}, now}};
  }
  auto const or_drained = [&](steady_time t) {
    return quarantine_.draining() ? std::min(t, quarantine_.drain_until()) : t;
  };
  if (!due) return {{}, or_drained(pace_.next())};
  auto const shorten_at = shorten_runs(now);
  // Everything that forbids a claim ends with a signal, except leases that are too old.
  if (!may_claim(now)) return {{}, or_drained(std::min(shorten_at, now + leases_.look_again()))};
  poll_busy_ = true;
  pace_.claim_sent();
  return {poll_request{next_claim(now), now}};
}

bool engine::may_claim(steady_time now) const noexcept {
  if (!refusal_.empty() || stuck_workers_ >= settings_.workers) return false;
  if (settings_.in_order && !by_id_.empty()) return false;
  if (quarantine_.holding()) return false;
  if (quarantine_.draining()) return by_id_.empty() && running_.empty() && stuck_workers_ == 0;
  // If nothing is queued, workers are about to go idle and any row is worth a claim.
  auto const free = slots_.cold_free();
  if (free == 0 || (free < claim_size_.worthwhile() && !cold_.empty())) return false;
  if (slots_.cold_bytes_free() == 0) return false;
  if (pace_.careful(now) && !(finished_.empty() && settling_.empty())) return false;
  return leases_are_fresh(now);
}

// A claim beside leases that may have ended could return rows that this node still holds. This walks all tickets, which
// is cheap beside the claim that follows. A minimum would have to be kept up by every renewal, removal and re-claim.
bool engine::leases_are_fresh(steady_time now) const noexcept {
  auto const fresh = [&](ticket_ptr const& t) {
    return t->hold == hold::lost || (t->hold == hold::sure && t->lease_end - now > leases_.start_margin());
  };
  for (auto const* list : {&registered_, &waiting_, &hot_, &cold_, &running_, &finished_, &settling_}) {
    if (!std::ranges::all_of(*list, fresh)) return false;
  }
  return true;
}

claim_request engine::next_claim(steady_time now) {
  bool const alone = quarantine_.draining();
  auto left = pauses_;
  for (auto const* const r : routes_.limited) {
    if (load_.crowded(r)) left.push_back({r->event_type, r->aggregate_type});
  }
  holds_.add_to(left, now);
  auto const beginning = pace_.begin(left, now);
  return {.token = new_token(),
          .limit = alone ? 1 : std::min(claim_size_.next(), slots_.cold_free()),
          .max_bytes = slots_.cold_bytes_free(),
          .lease = leases_.duration(),
          .max_crashes = settings_.lease.max_crashes,
          .suspects = alone ? suspects::take_one : suspects::skip,
          .unowned_only = pace_.careful(now),
          .skip_recent = settings_.poll.skip_recent,
          .in_order = settings_.in_order,
          .keyed = settings_.keyed,
          .run = run_,
          .retries_only = !settings_.poll.drain && !settings_.in_order && !alone && now < next_round_,
          .pauses = std::move(left),
          .leave = isolation_.to_leave(now),
          .floor = beginning.floor,
          .reach = beginning.reach};
}

void engine::note_suspects(claim_request const& claim, claim_reply const& reply, steady_time now) {
  if (quarantine_.draining() && claim.suspects == suspects::take_one) {
    quarantine_.claimed(!reply.rows.empty(), now);
    // What was committed meanwhile has asked for a claim, and this claim left it out.
    if (reply.rows.empty()) pace_.ask();
    return;
  }
  if (!reply.suspects_waiting || !quarantine_.may_begin(now) || stuck_workers_ > 0 ||
      has_bug(planted_bug::crashes_blamed_on_neighbours)) {
    return;
  }
  wait_for_elders();
  pace_.ask();
}

void engine::wait_for_elders() {
  quarantine_.wait_for(running_.size() + registered_.size());
  for (auto const* list : {&running_, &registered_}) {
    for (auto const& t : *list) t->elder = true;
  }
}

void engine::pace_quarantine(steady_time now) {
  auto const change = quarantine_.pace(now, by_id_.empty() && running_.empty());
  if (change == quarantine::change::nothing) return;
  pace_.ask();
  if (change == quarantine::change::stands_still) return break_all_chains();
  wait_for_elders();
  signals_ |= signal_work;
}

std::size_t engine::apply_claim(claim_request const& claim, steady_time sent, claim_reply reply, steady_time now) {
  poll_busy_ = false;
  store_answered(request_kind::claim, now);
  oldest_lag_ = reply.oldest_lag;
  note_dead_and_foreign(reply);
  counters_.isolated += isolation_.note_claim(claim, reply, now, notes_);
  note_suspects(claim, reply, now);
  pace_.note_reply(claim, sent, reply, now);
  bool const cut_by_slots = claim.limit < claim_size_.next() && reply.more;
  if (!cut_by_slots) no_room_since_.reset();
  claim_size_.note(claim, reply, !by_id_.empty());
  // A tenth up or down, so that nodes that started together do not claim together for ever.
  auto const every = std::chrono::duration<double, std::milli>{settings_.poll.every} * (0.9 + 0.2 * random_.fraction());
  if (!claim.retries_only) next_round_ = now + std::chrono::duration_cast<steady_time::duration>(every);
  // Without draining, a full claim of new rows is the last one until the next round.
  reply.more = reply.more && (settings_.poll.drain || claim.retries_only);
  counters_.noted += reply.noted;
  pace_.plan_next(claim, reply, std::max<steady_time::duration>(next_round_ - now, {}), settings_.poll.every, now);
  for (auto& row : reply.rows) receive(std::move(row), sent, now);
  return reply.rows.size();
}

void engine::note_dead_and_foreign(claim_reply const& reply) {
  for (auto const& k : reply.dead) {
    counters_.claimed_dead += 1;
    auto const why = k.why.empty() ? std::to_string(k.crashes) + " processes ended while they held it" : k.why;
    say(log_level::error, "event " + k.id + " (" + k.type + ") is DEAD: " + why, "claimed dead",
        {{"event", k.id}, {"type", k.type}, {"crashes", std::to_string(k.crashes)}, {"error", why}});
  }
  if (!reply.foreign_owner.empty() && foreign_owner_said_ != reply.foreign_owner) {
    foreign_owner_said_ = reply.foreign_owner;
    say(log_level::warning,
        "another program, '" + reply.foreign_owner +
            "', dispatches from this table too and knows nothing of leases: events will be delivered twice. Let only "
            "one of the two dispatch",
        {}, {{"owner", reply.foreign_owner}});
  }
}

// True if the claim returned a row that the node goes on with as it is.
bool engine::held_already(claimed_row& row, steady_time lease_end) {
  auto const held = by_id_.find(row.handle.id);
  if (held == by_id_.end()) return false;
  ticket& t = *held->second;
  bool const unconfirmed = t.stage == stage::settling || (t.stage == stage::finished && t.sending.unanswered);
  if (t.stage == stage::registered && !has_bug(planted_bug::birth_swallows_a_claim)) {
    // Another transaction has committed this id: that of the birth was rolled back unseen, or will be. Its end finds
    // the ticket gone.
    remove(t);
    return false;
  }
  if (t.hold == hold::lost || unconfirmed) {
    forget(t);
    return false;
  }
  own_again(t, std::move(row.handle), lease_end);
  return true;
}

void engine::receive(claimed_row row, steady_time sent, steady_time now) {
  counters_.cold_enqueued += 1;
  auto const lease_end = sent + leases_.duration();
  if (held_already(row, lease_end)) return;
  route const* const where = routes_.find(row.event.aggregate_type(), row.event.type());
  auto t = std::make_shared<ticket>(std::move(row.event), std::move(row.handle), where, path::cold);
  t->attempts = row.attempts;
  t->crashes = row.crashes;
  t->tried = row.tried;
  t->progress = std::move(row.progress);
  t->lease_end = lease_end;
  t->taken = now;
  t->limit = end_of_waiting(*t, now);
  // The dispatch lock may have been lost since the claim was sent.
  bool wanted = open_ && (active() || has_bug(planted_bug::work_goes_on_without_the_lock));
  bool const keyed = settings_.keyed && !row.key.empty();
  // Its chain must not know a ticket that the engine does not hold.
  auto const hold = [&](stage at) {
    try {
      admit(t, at);
    } catch (...) {
      leave_chain(*t);
      throw;
    }
  };
  if (keyed) join_claimed(*t, std::move(row.key), row.seq);
  if (keyed && row.crashes > 0) heal_soon();
  wanted = wanted && (!keyed || !t->chain->broken);
  bool const used_up = keyed && row.crashes >= settings_.lease.max_crashes;
  if (wanted && row.malformed.empty() && !used_up) {
    hold(keyed ? stage::waiting : stage::queued);
    if (keyed) begin_waiting(*t, now);
    signals_ |= signal_work;
    return;
  }
  t->settlement = {.outcome = wanted ? outcome::dead : outcome::release, .progress = t->progress};
  t->unreadable = !row.malformed.empty();
  if (wanted) {
    t->settlement.error =
        t->unreadable ? "the row cannot be read: " + row.malformed : crash_budget_exhausted(row.crashes);
  }
  hold(stage::finished);
  call_settler(*t);
  if (!keyed) return;
  follow_up(*t, now);
  if (!wanted) look_everywhere();  // what is given back may be older than where claims begin
}

// The row was free although its settlement is not confirmed: the settlement has taken effect, and the row fell due
// again (decision 002). Or another node took the row and has given it back while the call here goes on. From here on
// the claim counts; the old ticket only waits for its reply, or for the end of a call whose result is ignored.
void engine::forget(ticket& t) {
  break_chain(t);
  if (t.stage == stage::finished) return remove_lost(t);
  by_id_.erase(t.event.id());
}

// The store's clock jumped past a lease that this node still holds, so the claim returned the node's own row. Running
// it twice would be a duplicate, so the ticket goes on as it is, under the new token.
void engine::own_again(ticket& t, row_handle handle, steady_time lease_end) {
  counters_.own_rows_reclaimed += 1;
  counters_.cold_enqueued -= 1;
  t.hold = hold::sure;
  t.handle = std::move(handle);
  t.lease_end = lease_end;
  if (!t.chain) return;
  // What the claim brought besides continues this chain, even if it is broken: then it is given back. It is also if
  // this ticket is in no line yet, or was given back before it was.
  if (!t.in_line) {
    t.chain->broken = true;
    if (t.stage == stage::waiting) give_back_alone(t);
  }
  t.chain->token = t.handle.token;
  chains_.erase(t.chain->key);
  chains_.emplace(t.chain->key, t.chain);
}

void engine::apply_released(release_request const& sent, steady_time now) {
  poll_busy_ = false;
  store_answered(request_kind::release, now);
  note_released(sent.tokens);
  pace_.ask();
  signals_ |= signal_poll;
}

void engine::apply_lock(bool acquired, steady_time now) {
  poll_busy_ = false;
  lock_held_ = acquired;
  if (acquired) {
    prove_what_is_held(now);  // another node may have had the lock in between, and the rows that this node still runs
    pace_.ask();
    return;
  }
  store_answered(request_kind::lock, now);
  store_answered(request_kind::claim, now);  // a standby claims nothing
  pace_.stand_by(now + std::min<milliseconds>(settings_.poll.every, milliseconds{1000}));
  if (!standby_said_) say(log_level::info, "another node dispatches from this table: standing by");
  standby_said_ = true;
}

void engine::lock_lost(steady_time now) {
  if (!lock_held_) return;
  lock_held_ = false;
  others_expired_ = false;
  say(log_level::warning, "the dispatch lock was lost: standing by");
  if (has_bug(planted_bug::work_goes_on_without_the_lock)) return;
  give_back_queued();  // the new holder of the lock delivers it
  prove_what_is_held(now);
  pace_.ask_at(now);
  signals_ |= signal_poll;
}

// A claim could return rows that this node holds. So the node claims nothing until a renewal that is sent from here on
// has shown what it still owns (decision 017).
void engine::prove_what_is_held(steady_time now) {
  bool any = false;
  for (auto const* list : {&running_, &finished_, &settling_}) {
    for (auto const& t : *list) {
      any = true;
      if (t->hold == hold::sure) t->hold = hold::unproven;
    }
  }
  if (!any) return;
  doubted_at_ = next_renew_ = now;
  signals_ |= signal_renew;
}

void engine::apply_expired(std::size_t rows, steady_time now) {
  poll_busy_ = false;
  store_answered(request_kind::lock, now);
  others_expired_ = lock_held_;  // it may have been lost meanwhile
  pace_.ask();
  say(log_level::info, "dispatching; " + std::to_string(rows) + " leases of earlier nodes ended", {},
      {{"rows", std::to_string(rows)}});
}

void engine::apply_poll_failure(poll_request const& sent, error const& e, steady_time now) {
  poll_busy_ = false;
  pace_.ask();
  signals_ |= signal_poll;
  if (auto const* const claim = std::get_if<claim_request>(&sent.request)) {
    pace_.not_before(store_failed(request_kind::claim, e, "claim", now));
    pace_.note_failure(*claim, sent.sent, now);
    // It may have taken effect, or may do so yet: its token is released before the next claim (decision 008).
    if (!has_bug(planted_bug::unknown_claim_never_released)) {
      doubts_.push_back({claim->token, now + leases_.doubt_for(), false});
    }
    return;
  }
  bool const release = std::holds_alternative<release_request>(sent.request);
  pace_.not_before(release ? store_failed(request_kind::release, e, "release what is in doubt", now)
                           : store_failed(request_kind::lock, e, "take the dispatch lock", now));
}

}  // namespace outbox::inline v0::core
