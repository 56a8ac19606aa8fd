// Life, slots and stages.
#include "core/engine/engine.hpp"

#include "core/base/planted.hpp"

#include <algorithm>
#include <cassert>

namespace outbox::inline v0::core {
namespace {

// One claim must not fill every slot with events of a route that may run only a few of them at a time.
std::size_t largest_claim(node_settings const& s) noexcept {
  return s.routes->limited.empty() ? s.queue.cold : std::max<std::size_t>(1, s.queue.cold / 4);
}

}  // namespace

engine::engine(node_settings const& settings)
    : settings_{settings},
      leases_{settings_.lease.duration},
      routes_{*settings_.routes},
      random_{settings_.seed},
      outcomes_(settings_.routes->count + 1),
      slots_{settings_.queue},
      load_{settings_.routes->count, settings_.queue.cold},
      claim_size_{settings_.poll, largest_claim(settings_), settings_.in_order} {}

void engine::open(steady_time now) {
  open_ = takes_over_ = true;
  pace_.ask();
  pace_.ask_at(now);
  next_renew_ = now;
  signals_ |= signal_poll | signal_renew;
}

// Transactions that are still open may commit while the node drains: what they wrote is delivered, or given back.
void engine::close(steady_time now, stop_queued what) {
  open_ = false;
  if (what == stop_queued::release) {
    takes_over_ = false;
    give_back_queued();
  }
  if (has_bug(planted_bug::stop_forgets_open_births)) {
    while (!births_.empty()) end_birth(*births_.front());
  }
  settle_not_before_ = now;
  signals_ |= signal_work | signal_settle | signal_poll | signal_renew;
}

void engine::release_queued(steady_time /*now*/) {
  takes_over_ = false;
  give_back_queued();
  for (auto it = running_.begin(); it != running_.end();) {
    ticket& t = **it++;
    ask_stop(t);
    if (t.call.phase == listener_call::phase::waiting) abandon(t);
  }
  signals_ |= signal_settle | signal_work;
}

// The event has not begun, or must not begin now. Its row becomes as if it had never been taken, and so do those that
// wait behind it.
void engine::give_back(ticket& t) noexcept {
  break_chain(t);
  give_back_alone(t);
}

void engine::give_back_alone(ticket& t) noexcept {
  if (t.chain && t.stage == stage::waiting && !t.in_line) t.chain->loose.erase(t);
  t.settlement = {.outcome = outcome::release};
  move_to(t, stage::finished);
  call_settler(t);
}

void engine::give_back_queued() noexcept {
  for (auto* queue : {&hot_, &cold_, &waiting_}) {
    while (!queue->empty()) give_back(*queue->front());
  }
}

// The node stops before the call answers. The call may have had its effect, so the row says that it was tried. Nothing
// failed, so nothing is counted.
void engine::abandon(ticket& t) {
  end_call(t);
  if (t.hold == hold::lost) return remove_lost(t);
  t.settlement = settlement{};
  t.settlement.outcome = outcome::retry;
  t.settlement.error = "the node stopped before the listener answered";
  t.settlement.progress = t.progress;
  break_chain(t);
  move_to(t, stage::finished);
  call_settler(t);
}

bool engine::set_pauses_if(std::uint64_t version, std::vector<route_pause> pauses) {
  if (version != pauses_version_) return false;
  set_pauses(std::move(pauses));
  return true;
}

void engine::set_pauses(std::vector<route_pause> pauses) {
  ++pauses_version_;
  if (pauses == pauses_) return;
  pauses_ = std::move(pauses);
  look_everywhere();
  if (settings_.in_order) give_back_queued();  // another event may come first now
  for (auto* queue : {&hot_, &cold_}) {
    for (auto it = queue->begin(); it != queue->end();) {
      ticket& t = **it++;
      if (is_paused(t)) give_back(t);
    }
  }
  auto const number = std::to_string(pauses_.size());
  say(log_level::info, number + " routes are paused", {}, {{"routes", number}});
  wake();
}

bool engine::drained() const noexcept {
  return waiting_.empty() && hot_.empty() && cold_.empty() && running_.empty() && stuck_workers_ == 0;
}

log_facts engine::about(ticket const& t) {
  log_facts all{{"event", t.event.id()}, {"type", t.event.type()}};
  if (t.route != nullptr) all.push_back({"route", t.route->name});
  all.push_back({"attempt", std::to_string(t.attempts + 1)});
  return all;
}

owner_token engine::new_token() { return settings_.incarnation + "/" + std::to_string(++next_token_); }

ticket_list& engine::list_of(ticket const& t) noexcept {
  switch (t.stage) {
    case stage::registered: return registered_;
    case stage::waiting: return waiting_;
    case stage::queued: return t.path == path::hot ? hot_ : cold_;
    case stage::running: return running_;
    case stage::finished: return finished_;
    case stage::settling: return settling_;
    case stage::gone: break;
  }
  assert(false && "a ticket that is gone is in no list");
  return registered_;
}

void engine::admit(ticket_ptr const& t, stage at) {
  auto const [where, fresh] = by_id_.emplace(t->event.id(), t.get());
  assert(fresh && "an event is held once");
  t->stage = at;
  auto& list = list_of(*t);
  try {
    t->place = list.insert(list.end(), t);
  } catch (...) {
    by_id_.erase(where);
    t->stage = stage::gone;
    throw;
  }
  if (at == stage::queued && load_.queued_one_more(t->route)) wake();
  slots_.take(t->path, t->bytes);
}

void engine::leave_queue(ticket const& t) noexcept {
  if (t.stage == stage::queued && load_.queued_one_less(t.route)) wake();
}

// Its call or its transaction has ended.
void engine::no_longer_elder(ticket& t) noexcept {
  if (!std::exchange(t.elder, false) || !quarantine_.elder_ended()) return;
  pace_.ask();
  signals_ |= signal_poll;
}

void engine::move_to(ticket& t, stage at) noexcept {
  auto& old = list_of(t);
  no_longer_elder(t);
  leave_queue(t);
  if (at == stage::queued && load_.queued_one_more(t.route)) wake();
  if (t.chain && t.stage == stage::running) t.chain->in_flight -= 1;
  if (t.chain && at == stage::running) t.chain->in_flight += 1;
  if (is_unplaced(t)) unplaced_ -= 1;
  t.stage = at;
  if (is_unplaced(t)) unplaced_ += 1;
  auto& list = list_of(t);
  list.splice(list.end(), old, t.place);
}

void engine::remove(ticket& t) noexcept {
  slots_.give_back(t.path, t.bytes);
  if (auto const it = by_id_.find(t.event.id()); it != by_id_.end() && it->second == &t) by_id_.erase(it);
  leave_queue(t);
  no_longer_elder(t);
  leave_chain(t);
  if (is_unplaced(t)) unplaced_ -= 1;
  auto& list = list_of(t);
  t.stage = stage::gone;
  list.erase(t.place);  // may destroy t
  if (by_id_.empty() && quarantine_.emptied()) pace_.ask();
  signals_ |= signal_poll;
}

void engine::ask_stop(ticket& t) {
  if (t.stage != stage::running && !t.call.timed_out) return;
  if (!std::exchange(t.call.stop_asked, true)) stops_.push_back(t.call.stop);
}

void engine::remove_lost(ticket& t) {
  // A settlement that was sent before and not answered may have changed the row: then nothing is lost.
  (t.sending.unanswered ? counters_.unconfirmed : counters_.lost) += 1;
  ask_stop(t);
  break_chain(t, /*repeat=*/!t.sending.unanswered);
  remove(t);
  if (settings_.in_order) give_back_queued();  // the lost event may come before them
}

node_counters engine::counters() const noexcept {
  node_counters c = counters_;
  c.held = waiting_.size() + hot_.size() + cold_.size() + running_.size() + finished_.size() + settling_.size();
  return c;
}

std::string engine::unhealthy() const {
  auto problem = health_.problem();
  if (problem.empty() && !refusal_.empty()) return refusal_;
  if (problem.empty() && stuck_workers_ >= settings_.workers) return "every worker is past its listener's timeout";
  return problem;
}

bool engine::healthy() const noexcept {
  return !health_.away() && refusal_.empty() && stuck_workers_ < settings_.workers;
}

steady_time engine::store_failed(request_kind kind, error const& e, char const* what, steady_time now) {
  counters_.store_errors += 1;
  return health_.failed(kind, e, what, now, leases_, random_, notes_);
}

void engine::store_answered(request_kind kind, steady_time now) {
  auto const outage = health_.answered(kind, now, notes_);
  if (!outage) return;
  if (*outage >= leases_.careful_for()) pace_.be_careful_until(now + leases_.careful_for());
  signals_ |= signal_poll | signal_settle | signal_renew;
}

}  // namespace outbox::inline v0::core
