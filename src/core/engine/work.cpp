// Work: which event a worker takes next, and what its listener's answer means.
#include <algorithm>
#include <outbox/listener.hpp>

#include <outbox/spi/claim_filter.hpp>
#include "core/base/text.hpp"
#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {
namespace {

constexpr std::size_t max_error_characters = 4000;

// A wait that nobody means to end: it keeps the arithmetic of clocks defined.
constexpr milliseconds longest_wait = std::chrono::hours{24 * 3650};

milliseconds sensible(milliseconds wait) noexcept { return std::clamp(wait, milliseconds{0}, longest_wait); }

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

}  // namespace

retry_policy const& engine::retry_of(ticket const& t) const noexcept {
  return t.route != nullptr && t.route->options.retry ? *t.route->options.retry : settings_.retry;
}

// 0: there is none.
milliseconds engine::timeout_of(ticket const& t) const noexcept {
  return t.route != nullptr && t.route->options.timeout ? *t.route->options.timeout : settings_.listener_timeout;
}

bool engine::has_room(route const* where) const noexcept {
  return where == nullptr || !where->options.max_in_flight || in_flight_[where->index] < *where->options.max_in_flight;
}

// How many events of a route with a limit may wait in the node: twice its limit is enough to go on with; and those that
// wait and those that run together take no more than half of the slots, so that other routes have the rest.
std::size_t engine::room_of(route const& where) const noexcept {
  auto const half = std::max<std::size_t>(1, settings_.queue.cold / 2);
  auto const running = std::min(half, in_flight_[where.index]);
  return std::min(2 * *where.options.max_in_flight, half - running);
}

bool engine::is_crowded(route const* where) noexcept {
  if (where == nullptr || !where->options.max_in_flight) return false;
  bool const crowded = queued_[where->index] >= room_of(*where);
  if (crowded) crowded_[where->index] = true;
  return crowded;
}

// It was left out of claims; when half of its room is free, the poller looks for more of it.
void engine::look_at_crowd(route const* where) noexcept {
  if (where == nullptr || !crowded_[where->index]) return;
  auto const room = room_of(*where);
  if (room == 0 || queued_[where->index] * 2 >= room + 1) return;
  crowded_[where->index] = false;
  wake();
}

void engine::count_queued(ticket const& t, int by) noexcept {
  if (t.route == nullptr || !t.route->options.max_in_flight) return;
  auto& count = queued_[t.route->index];
  count = by > 0 ? count + 1 : count - 1;
  look_at_crowd(t.route);
}

// How long an event may wait in its queue. Where few may run at a time, those before it have a right to theirs.
milliseconds engine::patience_of(ticket const& t) const noexcept {
  auto const timeout = timeout_of(t);
  if (t.route == nullptr || !t.route->options.max_in_flight) return timeout;
  return timeout * static_cast<std::int64_t>(
                       std::min<std::size_t>(1000, 2 + queued_[t.route->index] / *t.route->options.max_in_flight));
}

steady_time engine::end_of(milliseconds timeout, steady_time now) noexcept {
  return timeout.count() == 0 ? steady_time::max() : now + timeout;
}

bool engine::is_paused(ticket const& t) const noexcept {
  return !pauses_.empty() && paused(pauses_, t.event.aggregate_type(), t.event.type());
}

bool engine::may_begin(ticket const& t, steady_time now) const noexcept {
  return t.lease_end - now > settings_.lease.duration / 3;
}

// The first event of a queue that may start. Leases of one queue are renewed together, so its head speaks for all: in
// the last third nothing new starts.
ticket* engine::next_of(ticket_list& queue, steady_time now) {
  for (auto it = queue.begin(); it != queue.end();) {
    ticket& t = **it++;
    if (!may_begin(t, now)) return nullptr;
    if (is_paused(t)) {
      give_back(t);  // its commit, or its claim, came after the pause
      if (settings_.in_order) return give_back_queued(), nullptr;
    } else if (has_room(t.route)) {
      return &t;
    }
  }
  return nullptr;
}

void engine::begin(ticket& t, steady_time now) {
  t.limit = end_of(timeout_of(t), now);
  t.stop = std::stop_source{};
  t.stop_asked = false;
  t.on_worker = true;
  t.leads = false;
  t.in_call = t.route != nullptr;
  if (t.in_call) in_flight_[t.route->index] += 1;
  move_to(t, stage::running);
  if (t.limit < renewer_wakes_) signals_ |= signal_renew;
}

assignment engine::start_next(steady_time now) {
  // In order, the one before must be settled for good.
  if (settings_.in_order && !(running_.empty() && finished_.empty() && settling_.empty())) return {};
  // Two of three turns are the hot queue's; a turn that finds nothing is the other queue's.
  bool const hot_turn = turn_ % 3 != 2;
  ticket_list* queue = hot_turn ? &hot_ : &cold_;
  ticket* t = next_of(*queue, now);
  if (t == nullptr) {
    queue = hot_turn ? &cold_ : &hot_;
    t = next_of(*queue, now);
  }
  if (t == nullptr) return {};
  ++turn_;
  assignment a{*t->place, {}};
  begin(*t, now);
  t->leads = true;
  if (t->route != nullptr && t->route->max_batch > 1) gather_batch(a, *queue, now);
  return a;
}

// Whatever waits for the same listener goes with it.
void engine::gather_batch(assignment& a, ticket_list& queue, steady_time now) {
  route const* const where = a.first->route;
  for (auto it = queue.begin(); it != queue.end() && a.rest.size() + 1 < where->max_batch && has_room(where);) {
    ticket_ptr const t = *it++;
    if (t->route != where || is_paused(*t) || !may_begin(*t, now)) continue;
    begin(*t, now);
    a.rest.push_back(t);
  }
}

void engine::end_call(ticket& t) noexcept {
  if (!std::exchange(t.in_call, false)) return;
  in_flight_[t.route->index] -= 1;
  if (!t.route->options.max_in_flight) return;
  look_at_crowd(t.route);
  signals_ |= signal_work;
}

void engine::detach(ticket& t) {
  t.on_worker = false;
  if (!t.timed_out) return;
  end_call(t);
  if (t.leads) stuck_workers_ -= 1;
  signals_ |= signal_poll;
}

void engine::finish(ticket& t, verdict v, steady_time /*now*/) {
  end_call(t);
  if (t.timed_out) {
    counters_.late_results += 1;
    if (!std::exchange(t.on_worker, false)) return;
    if (t.leads) stuck_workers_ -= 1;
    signals_ |= signal_poll;
    return;
  }
  if (t.stage != stage::running) return;
  if (t.lost) return remove_lost(t);
  decide(t, std::move(v));
  move_to(t, stage::finished);
  signals_ |= signal_settle;
  // In order, nothing overtakes an event that is not finished for good.
  auto const what = t.settlement.outcome;
  if (settings_.in_order && what != outcome::delivered && what != outcome::dead) give_back_queued();
}

void engine::decide(ticket& t, verdict v) {
  t.settlement = {.row = t.handle, .progress = v.progress ? std::move(*v.progress) : t.progress};
  std::visit(overloaded{
                 [&](done_t) { t.settlement.outcome = outcome::delivered; },
                 [&](defer& d) {
                   t.settlement.outcome = outcome::defer;
                   // Without a delay it would come back at once, for ever, since nothing is counted.
                   t.settlement.delay = d.delay.count() > 0 ? sensible(d.delay) : retry_of(t).backoff.base;
                   t.settlement.error = scrub(d.reason, max_error_characters);
                   // In order, a row that waits is told by its error from one that was born with a delay.
                   if (settings_.in_order && t.settlement.error.empty()) t.settlement.error = "deferred";
                 },
                 [&](failed& f) { decide_failure(t, std::move(f.reason), f.after); },
                 [&](dead& d) {
                   t.settlement.outcome = outcome::dead;
                   t.settlement.error =
                       scrub(d.reason.empty() ? "the listener gave it up" : d.reason, max_error_characters);
                 },
             },
             v.answer.value());
}

void engine::decide_failure(ticket& t, std::string reason, std::optional<milliseconds> after) {
  auto const& policy = retry_of(t);
  auto const failures = t.attempts + 1;
  t.settlement.row = t.handle;
  t.settlement.counted = 1;
  t.settlement.error = scrub(reason.empty() ? "the listener failed" : reason, max_error_characters);
  if (failures >= policy.max_attempts) {
    t.settlement.outcome = outcome::dead;
    return;
  }
  t.settlement.outcome = outcome::retry;
  t.settlement.delay = sensible(after ? *after : policy.wait(failures, random_.fraction()));
}

void engine::time_out(ticket& t) {
  t.timed_out = true;
  ask_stop(t);
  if (t.on_worker) {
    if (t.leads) stuck_workers_ += 1;
  } else {
    end_call(t);
  }
  counters_.timed_out += 1;
  // A suspect must not wait for a call that may never end.
  if (quarantine_ == quarantine::waiting || quarantine_ == quarantine::draining) quarantine_ = quarantine::none;
  if (t.lost) return remove_lost(t);
  auto const limit = timeout_of(t).count();
  say(log_level::warning,
      "listener '" + (t.route == nullptr ? std::string{"none"} : t.route->name) + "' has not answered for event " +
          t.event.id() + " within " + std::to_string(limit) + " ms: counted as a failure, its result will be ignored",
      "timeout");
  t.settlement = {.row = t.handle, .progress = t.progress};
  decide_failure(t, "the listener did not answer within " + std::to_string(limit) + " ms", {});
  move_to(t, stage::finished);
  signals_ |= signal_settle;
}

}  // namespace outbox::inline v0::core
