// Life, slots and stages.
#include "core/engine/engine.hpp"

#include "core/base/planted.hpp"

#include <algorithm>
#include <cassert>

namespace outbox::inline v0::core {

engine::engine(engine_settings settings, detail::routes const& routes)
    : settings_{std::move(settings)},
      routes_{routes},
      random_{settings_.seed},
      in_flight_(routes.count),
      queued_(routes.count),
      crowded_(routes.count) {}

void engine::open(steady_time now) {
  open_ = takes_over_ = true;
  poll_wanted_ = true;
  next_poll_ = now;
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
    if (!t.on_worker && !t.answered) abandon(t);
  }
  signals_ |= signal_settle | signal_work;
}

// Not begun, or not to be begun now: as if it had never been taken.
void engine::give_back(ticket& t) {
  t.settlement = {.row = t.handle, .outcome = outcome::release};
  move_to(t, stage::finished);
  signals_ |= signal_settle;
}

void engine::give_back_queued() {
  for (auto* queue : {&hot_, &cold_}) {
    while (!queue->empty()) give_back(*queue->front());
  }
}

// A call whose answer the node will not live to hear. It may have had its effect, so the row says that it was tried;
// but nothing failed, so nothing is counted.
void engine::abandon(ticket& t) {
  end_call(t);
  if (t.lost) return remove_lost(t);
  t.settlement = {.row = t.handle,
                  .outcome = outcome::retry,
                  .error = "the node stopped before the listener answered",
                  .progress = t.progress};
  move_to(t, stage::finished);
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
  if (settings_.in_order) give_back_queued();  // what comes first is another now
  for (auto* queue : {&hot_, &cold_}) {
    for (auto it = queue->begin(); it != queue->end();) {
      ticket& t = **it++;
      if (is_paused(t)) give_back(t);
    }
  }
  say(log_level::info, std::to_string(pauses_.size()) + " routes are paused");
  wake();
}

void engine::look_everywhere() noexcept {
  floors_.reset();
  next_sweep_ = {};
  furthest_reach_ = no_limit;
}

bool engine::drained() const noexcept {
  return hot_.empty() && cold_.empty() && running_.empty() && stuck_workers_ == 0;
}

owner_token engine::new_token() { return settings_.incarnation + "/" + std::to_string(++next_token_); }

bool engine::has_hot_slot(std::size_t bytes) const noexcept {
  return hot_used_ < settings_.queue.hot && hot_bytes_ + bytes <= settings_.queue.bytes / 2;
}

ticket_list& engine::list_of(ticket const& t) noexcept {
  switch (t.stage) {
    case stage::registered: return registered_;
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
  t->stage = at;
  auto& list = list_of(*t);
  t->place = list.insert(list.end(), t);
  [[maybe_unused]] auto const [where, fresh] = by_id_.emplace(t->event.id(), t.get());
  assert(fresh && "an event is held once");
  if (at == stage::queued) count_queued(*t, 1);
  (t->path == path::hot ? hot_used_ : cold_used_) += 1;
  (t->path == path::hot ? hot_bytes_ : cold_bytes_) += t->bytes;
}

// Its call or its transaction has ended.
void engine::no_longer_elder(ticket& t) noexcept {
  if (!std::exchange(t.elder, false) || --elders_ > 0) return;
  poll_wanted_ = true;
  signals_ |= signal_poll;
}

void engine::move_to(ticket& t, stage at) noexcept {
  auto& old = list_of(t);
  no_longer_elder(t);
  if (t.stage == stage::queued) count_queued(t, -1);
  if (at == stage::queued) count_queued(t, 1);
  t.stage = at;
  auto& list = list_of(t);
  list.splice(list.end(), old, t.place);
}

void engine::remove(ticket& t) noexcept {
  (t.path == path::hot ? hot_used_ : cold_used_) -= 1;
  (t.path == path::hot ? hot_bytes_ : cold_bytes_) -= t.bytes;
  if (auto const it = by_id_.find(t.event.id()); it != by_id_.end() && it->second == &t) by_id_.erase(it);
  if (t.stage == stage::queued) count_queued(t, -1);
  no_longer_elder(t);
  auto& list = list_of(t);
  t.stage = stage::gone;
  list.erase(t.place);  // may destroy t
  if (quarantine_ != quarantine::none && by_id_.empty()) {
    if (quarantine_ == quarantine::holding) {
      quarantine_ = quarantine::none;
      drain_limit_ = first_drain;
    }
    poll_wanted_ = true;
  }
  signals_ |= signal_poll;
}

void engine::ask_stop(ticket& t) {
  if (t.stage != stage::running && !t.timed_out) return;
  if (!std::exchange(t.stop_asked, true)) stops_.push_back(t.stop);
}

void engine::remove_lost(ticket& t) {
  // A settlement that was sent before and not answered may be what changed the row: that is no loss.
  (t.resent ? counters_.unconfirmed : counters_.lost) += 1;
  ask_stop(t);
  remove(t);
  if (settings_.in_order) give_back_queued();  // what comes before them is not known any more
}

node_counters engine::counters() const noexcept {
  node_counters c = counters_;
  c.held = hot_.size() + cold_.size() + running_.size() + finished_.size() + settling_.size();
  return c;
}

std::string engine::unhealthy() const {
  for (auto const* loop : {&claim_health_, &release_health_, &lock_health_, &settle_health_, &renew_health_}) {
    if (loop->away_since) return loop->error;
  }
  if (stuck_workers_ >= settings_.workers) return "every worker is past its listener's timeout";
  return {};
}

bool engine::away() const noexcept {
  return claim_health_.away_since || release_health_.away_since || lock_health_.away_since ||
         settle_health_.away_since || renew_health_.away_since;
}

std::vector<std::string> engine::isolated() const {
  constexpr std::size_t most_named = 20;
  std::vector<std::string> ids;
  for (auto const& [id, row] : isolated_) {
    if (ids.size() < most_named) ids.push_back(id);
  }
  return ids;
}

std::size_t engine::cold_slots_free() const noexcept {
  return settings_.queue.cold - std::min(cold_used_, settings_.queue.cold);
}

// The store's health: logged once per change, not once per error.
steady_time engine::store_failed(loop_health& loop, error const& e, char const* doing, steady_time now) {
  counters_.store_errors += 1;
  loop.error = std::string{e.transient() ? "the store does not answer (cannot " : "the store refuses (cannot "} +
               doing + "): " + e.what();
  if (!e.transient() && loop.said != e.what()) {
    loop.said = e.what();
    say(log_level::error, loop.error);
    outage_level_ = log_level::error;
  } else if (e.transient() && !away()) {
    say(log_level::warning, loop.error);
  }
  if (!loop.away_since) loop.away_since = now;
  // Quick at first, for a busy store; never slower than a twelfth of a lease, so that leases outlive a short outage.
  using namespace std::chrono_literals;
  auto const cap = std::clamp(settings_.lease.duration / 12, 50ms, 2000ms);
  return now + backoff{.base = 20ms, .cap = cap}.delay(++loop.failures, random_.fraction());
}

void engine::store_answered(loop_health& loop, steady_time now) {
  loop.failures = 0;
  loop.said.clear();
  if (!loop.away_since) return;
  auto const third = settings_.lease.duration / 3;
  if (now - *loop.away_since >= third) careful_until_ = now + third;
  loop.away_since.reset();
  loop.error.clear();
  if (!away()) say(std::exchange(outage_level_, log_level::warning), "the store answers again");
  signals_ |= signal_poll | signal_settle | signal_renew;
}

}  // namespace outbox::inline v0::core
