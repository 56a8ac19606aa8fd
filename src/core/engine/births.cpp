// Births: events that this process wrote and may deliver itself, if their transaction commits.
#include <algorithm>

#include <outbox/spi/claim_filter.hpp>
#include "core/base/planted.hpp"
#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {

bool engine::births_may_be_owned() const noexcept {
  return open_ && refusal_.empty() && settings_.hot_path && active() && !quarantine_.standing_still() &&
         stuck_workers_ < settings_.workers;
}

// The log hears of a full hot path once, until it has eased.
bool engine::has_hot_slot(event const& e) {
  if (slots_.has_hot(e.size_bytes())) return true;
  counters_.hot_dropped += 1;
  if (!std::exchange(hot_full_said_, true)) {
    say(log_level::warning, "the hot path is full: events go through the poller until it is not", {},
        {{"event", e.id()}, {"type", e.type()}});
  }
  return false;
}

// The vectors have room for all: what follows the admission of a ticket must not fail.
std::shared_ptr<birth> engine::begin_birth(std::size_t events, steady_time now) {
  auto b = std::make_shared<birth>();
  b->token = new_token();
  b->began = now;
  b->spare.push_back({b->token, {}, false});
  b->tickets.reserve(events);
  b->rows.reserve(events);
  b->place = births_.insert(births_.end(), b);
  return b;
}

engine::registration engine::register_births(std::span<event const> events, steady_time now) {
  registration r;
  r.owned.resize(events.size(), false);
  try {
    register_births(events, r, now);
  } catch (...) {
    if (r.birth) cancel(*r.birth);
    throw;
  }
  if (!r.birth) return r;
  if (slots_.hot_has_eased()) hot_full_said_ = false;
  if (has_bug(planted_bug::hot_push_before_commit)) committed(*r.birth, {}, now);
  return r;
}

void engine::register_births(std::span<event const> events, registration& r, steady_time now) {
  bool const owned_at_all = births_may_be_owned();
  auto& b = r.birth;
  for (std::size_t i = 0; i < events.size(); ++i) {
    event const& e = events[i];
    if (e.delayed()) {
      counters_.hot_skipped_delayed += 1;
      // The caller gave an instant. Only the store's clock tells how far away it is, so a claim finds out.
      if (e.deliver_after()) r.due_in = std::min(*e.deliver_after(), r.due_in.value_or(*e.deliver_after()));
      if (e.available_at()) r.wake = true;
      continue;
    }
    route const* const where = owned_at_all ? routes_.find(e.aggregate_type(), e.type()) : nullptr;
    if (where == nullptr || by_id_.contains(e.id()) || paused(pauses_, e.aggregate_type(), e.type())) {
      r.wake = true;
      continue;
    }
    if (load_.crowded(where) || holds_.held(e, now) || !has_hot_slot(e)) {
      r.wake = true;
      continue;
    }
    auto key = settings_.keyed ? key_of(e) : std::string{};
    if (!key.empty() && !may_be_owned(key, now)) {
      r.wake = true;
      continue;
    }
    if (!b) b = begin_birth(events.size(), now);
    if (!key.empty()) {
      auto const known = finished_up_to(key);
      if (!b->receipt) b->receipt = std::make_shared<insert_receipt>(insert_receipt{.finished = known});
      b->receipt->finished = std::min(b->receipt->finished, known);
    }
    auto t = std::make_shared<ticket>(e, row_handle{e.id(), b->token, 0}, where, path::hot);
    t->lease_end = now + leases_.duration();
    admit(t, stage::registered);
    b->tickets.push_back(t);
    b->rows.push_back(i);
    if (!key.empty()) join_birth(*t, std::move(key));
    r.owned[i] = true;
  }
}

void engine::end_birth(birth& b) noexcept {
  for (auto const& t : b.tickets) {
    if (t->stage == stage::registered) remove(*t);
  }
  b.open = false;
  births_.erase(b.place);  // may destroy b
}

void engine::cancel(birth& b) noexcept {
  b.spare.clear();  // no row carries the token, so there is nothing to release
  if (b.open) end_birth(b);
}

void engine::rolled_back(birth& b) noexcept { cancel(b); }

void engine::committed(birth& b, std::vector<bool> const& absent, steady_time now) noexcept {
  // A commit that comes too late, or after the dispatch lock was lost, or while the node ends, is given back to the
  // pollers. So is one whose id a claim has met meanwhile.
  bool const superseded = std::ranges::any_of(b.tickets, [](auto const& t) { return t->stage == stage::gone; });
  bool const late = now - b.began > leases_.birth_limit();
  if (!b.open || !takes_over_ || !active() || superseded || late) return committed_in_part(b, now);
  for (std::size_t i = 0; i < b.tickets.size(); ++i) {
    auto& t = *b.tickets[i];
    if (i < absent.size() && absent[i]) {
      remove(t);
      continue;
    }
    t.taken = now;
    t.limit = end_of_waiting(t, now);
    counters_.hot_enqueued += 1;
    if (!t.chain) move_to(t, stage::queued);
  }
  if (settings_.keyed) place_births(b, absent, now);
  b.open = false;
  births_.erase(b.place);
  signals_ |= signal_work;
}

// The rows that exist are committed for good, so one release is enough.
void engine::committed_in_part(birth& b, steady_time now) noexcept { doubt_birth(b, now); }

// It may be committed yet.
void engine::in_doubt(birth& b, steady_time now) noexcept { doubt_birth(b, now + leases_.doubt_for()); }

void engine::doubt_birth(birth& b, steady_time until) noexcept {
  if (!b.spare.empty()) {
    b.spare.front().until = until;
    doubts_.splice(doubts_.end(), b.spare);
  }
  if (b.open) end_birth(b);
  signals_ |= signal_poll;
  if (open_) return;
  next_renew_ = {};  // the poller has ended, so the renewer releases it
  signals_ |= signal_renew;
}

void engine::wake(std::optional<steady_time> due) noexcept {
  if (settings_.exclusive && !lock_held_) return;  // a standby asks for the lock at its own pace
  if (!due) {
    pace_.ask();
  } else if (!pace_.ask_by(*due)) {
    return;
  }
  signals_ |= signal_poll;
}

}  // namespace outbox::inline v0::core
