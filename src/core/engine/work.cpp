// Work: which event a worker takes next, and what its listener's answer means.
#include <algorithm>
#include <outbox/listener.hpp>

#include <outbox/spi/claim_filter.hpp>
#include "core/base/text.hpp"
#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {
namespace {

constexpr std::size_t max_error_characters = 4000;

// Longer waits are shortened to this, which keeps the arithmetic of clocks defined.
constexpr milliseconds longest_sensible_wait = std::chrono::hours{24 * 3650};

// A timeout of 0: never.
steady_time end_of(milliseconds timeout, steady_time now) noexcept {
  return timeout.count() == 0 ? steady_time::max() : now + timeout;
}

milliseconds sensible(milliseconds wait) noexcept { return std::clamp(wait, milliseconds{0}, longest_sensible_wait); }

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

// Returns 0 if there is none.
milliseconds engine::timeout_of(ticket const& t) const noexcept {
  return t.route != nullptr && t.route->options.timeout ? *t.route->options.timeout : settings_.listener_timeout;
}

// When an event that begins to wait is given back unless it has started.
steady_time engine::end_of_waiting(ticket const& t, steady_time now) const noexcept {
  return end_of(timeout_of(t) * static_cast<std::int64_t>(load_.rounds_before(t.route)), now);
}

bool engine::is_paused(ticket const& t) const noexcept {
  return !pauses_.empty() && paused(pauses_, t.event.aggregate_type(), t.event.type());
}

bool engine::must_wait(ticket const& t, steady_time now) const noexcept {
  return is_paused(t) || holds_.held(t.event, now);
}

bool engine::may_begin(ticket const& t, steady_time now) const noexcept {
  return t.lease_end - now > leases_.start_margin();
}

// Returns the first event of a queue that may start. Leases of one queue are renewed together, so if the lease of the
// first is too short, so are the others.
ticket* engine::next_of(ticket_list& queue, steady_time now) {
  for (auto it = queue.begin(); it != queue.end();) {
    ticket& t = **it++;
    if (!may_begin(t, now)) return nullptr;
    if (must_wait(t, now)) {
      give_back(t);  // its commit, or its claim, came after the pause
      if (settings_.in_order) return give_back_queued(), nullptr;
    } else if (load_.has_room(t.route)) {
      return &t;
    }
  }
  return nullptr;
}

void engine::begin(ticket& t, steady_time now) {
  t.limit = end_of(timeout_of(t), now);
  t.call = {.phase = listener_call::phase::on_worker,
            .counted = t.route != nullptr,
            .began = now,
            .stop = std::stop_source{}};
  if (t.call.counted) load_.call_began(*t.route);
  if (t.route != nullptr && t.maybe_duplicate()) counters_.maybe_duplicates += 1;
  move_to(t, stage::running);
  if (t.limit < renewer_wakes_) signals_ |= signal_renew;
  if (cold_.empty() && pace_.due(now)) signals_ |= signal_poll;  // any free slot is worth a claim now
}

assignment engine::start_next(steady_time now) {
  // An ordered node starts an event when the one before is settled.
  if (settings_.in_order && !(running_.empty() && finished_.empty() && settling_.empty())) return {};
  // Two of three turns belong to the hot queue. A turn that finds nothing goes to the other queue.
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
  t->call.leads = true;
  if (t->route != nullptr && t->route->max_batch > 1) {
    gather_chain(a, *t, now);
    gather_batch(a, *queue, now);
  }
  return a;
}

// A listener that keeps the order itself gets what waits behind the first event too, in order.
void engine::gather_chain(assignment& a, ticket const& first, steady_time now) {
  route const* const where = first.route;
  if (!first.chain || !where->options.keeps_order) return;
  for (ticket* t = first.behind; t != nullptr && a.rest.size() + 1 < where->max_batch && load_.has_room(where);
       t = t->behind) {
    if (t->stage != stage::waiting || t->route != where || must_wait(*t, now) || !may_begin(*t, now)) return;
    a.rest.push_back(*t->place);
    begin(*t, now);
  }
}

// The events that wait for the same batch listener go with the first one.
void engine::gather_batch(assignment& a, ticket_list& queue, steady_time now) {
  route const* const where = a.first->route;
  for (auto it = queue.begin(); it != queue.end() && a.rest.size() + 1 < where->max_batch && load_.has_room(where);) {
    ticket_ptr const t = *it++;
    if (t->route != where || must_wait(*t, now) || !may_begin(*t, now)) continue;
    begin(*t, now);
    a.rest.push_back(t);
  }
}

void engine::end_call(ticket& t) noexcept {
  if (!std::exchange(t.call.counted, false)) return;
  if (load_.call_ended(*t.route)) wake();
  if (t.route->options.max_in_flight) signals_ |= signal_work;
}

// The worker of a call that timed out is free again.
void engine::worker_returned(ticket const& t) noexcept {
  if (t.call.leads) stuck_workers_ -= 1;
  signals_ |= signal_poll;
}

void engine::detach(ticket& t, steady_time now) {
  if (t.call.phase == listener_call::phase::on_worker) t.call.phase = listener_call::phase::waiting;
  if (!t.call.timed_out) {
    if (t.chain && t.stage == stage::running && t.route->options.keeps_order) start_beside(t, now);
    return;
  }
  end_call(t);
  worker_returned(t);
}

// The answer is told to the engine in a moment, by a worker. Until then nothing may begin behind an event that was not
// delivered.
void engine::answer_arrived(ticket& t, bool is_done) noexcept {
  t.call.phase = listener_call::phase::answered;
  if (is_done || !t.chain || t.stage != stage::running) return;
  t.call.refused = true;
  hold_up_queued(t);
}

void engine::remember(ticket& t, std::string&& progress) noexcept {
  if (t.stage == stage::running && !t.call.timed_out) t.progress = std::move(progress);
}

void engine::finish(ticket& t, call_result v, steady_time now) {
  end_call(t);
  auto const phase = std::exchange(t.call.phase, listener_call::phase::none);
  if (t.call.timed_out) {
    counters_.late_results += 1;
    if (phase == listener_call::phase::on_worker) worker_returned(t);
    return;
  }
  if (t.stage != stage::running) return;
  if (t.hold == hold::lost) return remove_lost(t);
  t.ended = now;
  decide(t, std::move(v), now);
  move_to(t, stage::finished);
  call_settler(t);
  if (t.chain) follow_up(t, now);
  // On an ordered node nothing overtakes an event that is not DONE or DEAD.
  auto const what = t.settlement.outcome;
  if (settings_.in_order && what != outcome::delivered && what != outcome::dead) give_back_queued();
}

void engine::decide(ticket& t, call_result v, steady_time now) {
  t.settlement = {.progress = v.progress ? std::move(*v.progress) : t.progress};
  std::visit(overloaded{
                 [&](done_t) { t.settlement.outcome = outcome::delivered; },
                 [&](defer& d) {
                   t.settlement.outcome = outcome::defer;
                   // Without a delay the event would come back at once, for ever, because nothing is counted.
                   t.settlement.delay = d.delay.count() > 0 ? sensible(d.delay) : retry_of(t).backoff.base;
                   t.settlement.error = scrub(d.reason, max_error_characters);
                   // In an order, its error distinguishes a row that waits from one that was written with a delay.
                   if (t.settlement.error.empty() && (settings_.in_order || t.chain || t.attempts == 0)) {
                     t.settlement.error = "deferred";
                   }
                   if (d.whole_route && !settings_.in_order) hold_route(t, now);
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

// What waits in the queues is given back when its turn comes.
void engine::hold_route(ticket const& t, steady_time now) {
  bool const first = !holds_.held(t.event, now);
  if (!holds_.hold(t.event, now + t.settlement.delay, now) || !first) return;
  say(log_level::warning,
      "events of type '" + t.event.type() + "' and aggregate type '" + t.event.aggregate_type() + "' wait for " +
          std::to_string(t.settlement.delay.count()) + " ms: " + t.settlement.error,
      "hold",
      {{"type", t.event.type()},
       {"aggregate_type", t.event.aggregate_type()},
       {"delay_ms", std::to_string(t.settlement.delay.count())},
       {"error", t.settlement.error}});
}

void engine::decide_failure(ticket& t, std::string reason, std::optional<milliseconds> after) {
  auto const& policy = retry_of(t);
  auto const failures = t.attempts + 1;
  t.settlement.counted = 1;
  t.settlement.error = scrub(reason.empty() ? "the listener failed" : reason, max_error_characters);
  if (failures >= policy.max_attempts) {
    t.settlement.outcome = outcome::dead;
    return;
  }
  t.settlement.outcome = outcome::retry;
  t.settlement.delay = sensible(after ? *after : policy.wait(failures, random_.fraction()));
}

void engine::time_out(ticket& t, steady_time now) {
  t.call.timed_out = true;
  t.ended = now;
  ask_stop(t);
  if (t.call.phase == listener_call::phase::on_worker) {
    if (t.call.leads) stuck_workers_ += 1;
  } else {
    end_call(t);
  }
  counters_.timed_out += 1;
  quarantine_.give_up();
  if (t.hold == hold::lost) return remove_lost(t);
  auto const limit = timeout_of(t).count();
  say(log_level::warning,
      "listener '" + (t.route == nullptr ? std::string{"none"} : t.route->name) + "' has not answered for event " +
          t.event.id() + " within " + std::to_string(limit) + " ms: counted as a failure, its result will be ignored",
      "timeout", about(t));
  t.settlement = {.progress = t.progress};
  decide_failure(t, "the listener did not answer within " + std::to_string(limit) + " ms", {});
  move_to(t, stage::finished);
  call_settler(t);
  if (t.chain) follow_up(t, now);
}

}  // namespace outbox::inline v0::core
