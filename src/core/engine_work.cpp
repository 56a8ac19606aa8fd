// Work: which event a worker takes next, and what its listener's answer means.
#include <algorithm>
#include <outbox/listener.hpp>

#include "core/engine.hpp"
#include "core/text.hpp"

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
  return t.where != nullptr && t.where->options.retry ? *t.where->options.retry : settings_.retry;
}

milliseconds engine::timeout_of(ticket const& t) const noexcept {
  return t.where != nullptr && t.where->options.timeout ? *t.where->options.timeout : settings_.listener_timeout;
}

bool engine::may_start(ticket_list const& queue, steady_time now) const noexcept {
  // Leases of one queue are renewed together, so its head speaks for all: in the last third nothing new starts.
  return !queue.empty() && queue.front()->lease_end - now > settings_.lease.duration / 3;
}

ticket_ptr engine::start_next(steady_time now) {
  // Two of three turns are the hot queue's; a turn that finds nothing is the other queue's.
  bool const hot_turn = turn_ % 3 != 2;
  ticket_list const* const first = hot_turn ? &hot_ : &cold_;
  ticket_list const* const second = hot_turn ? &cold_ : &hot_;
  ticket_list const* const queue = may_start(*first, now) ? first : may_start(*second, now) ? second : nullptr;
  if (queue == nullptr) return nullptr;
  ++turn_;
  ticket_ptr t = queue->front();
  t->limit = now + timeout_of(*t);
  t->stop = std::stop_source{};
  t->stop_asked = false;
  move_to(*t, stage::running);
  if (t->limit < renewer_wakes_) signals_ |= signal_renew;
  return t;
}

void engine::finish(ticket& t, verdict v, steady_time /*now*/) {
  if (t.timed_out) {
    counters_.late_results += 1;
    stuck_workers_ -= 1;
    signals_ |= signal_poll;
    return;
  }
  if (t.at != stage::running) return;
  if (t.lost) return remove_lost(t);
  decide(t, std::move(v));
  move_to(t, stage::finished);
  signals_ |= signal_settle;
}

void engine::decide(ticket& t, verdict v) {
  t.verdict = {.row = t.handle, .progress = std::move(v.progress)};
  std::visit(overloaded{
                 [&](done_t) { t.verdict.what = outcome::delivered; },
                 [&](defer& d) {
                   t.verdict.what = outcome::defer;
                   t.verdict.delay = sensible(d.delay);
                   t.verdict.error = scrub(d.reason, max_error_characters);
                 },
                 [&](failed& f) { decide_failure(t, std::move(f.reason), f.after); },
                 [&](dead& d) {
                   t.verdict.what = outcome::dead;
                   t.verdict.error =
                       scrub(d.reason.empty() ? "the listener gave it up" : d.reason, max_error_characters);
                 },
             },
             v.answer.value());
}

void engine::decide_failure(ticket& t, std::string reason, std::optional<milliseconds> after) {
  auto const& policy = retry_of(t);
  auto const failures = t.attempts + 1;
  t.verdict.row = t.handle;
  t.verdict.counted = 1;
  t.verdict.error = scrub(reason.empty() ? "the listener failed" : reason, max_error_characters);
  if (failures >= policy.max_attempts) {
    t.verdict.what = outcome::dead;
    return;
  }
  t.verdict.what = outcome::retry;
  t.verdict.delay = after ? sensible(*after) : policy.backoff.delay(failures, random_.fraction());
}

void engine::time_out(ticket& t) {
  t.timed_out = true;
  ask_stop(t);
  stuck_workers_ += 1;
  counters_.timed_out += 1;
  if (t.lost) return remove_lost(t);
  // A suspect must not wait for a call that may never end.
  if (quarantine_ == quarantine::draining) quarantine_ = quarantine::none;
  auto const limit = timeout_of(t).count();
  say(log_level::warning, "listener '" + (t.where == nullptr ? std::string{"none"} : t.where->name) +
                              "' has not answered for event " + t.what.id() + " within " + std::to_string(limit) +
                              " ms: counted as a failure, its result will be ignored");
  t.verdict = {.row = t.handle, .progress = t.progress};
  decide_failure(t, "the listener did not answer within " + std::to_string(limit) + " ms", {});
  move_to(t, stage::finished);
  signals_ |= signal_settle;
}

}  // namespace outbox::inline v0::core
