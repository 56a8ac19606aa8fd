// The settler's step: many results, one commit.
#include <cassert>

#include "core/base/planted.hpp"
#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {
namespace {

// A lone event settles at once; a busy node gathers this long, so that a commit settles many.
constexpr milliseconds spacing{5};

// Bounds one statement, one reply and the time that the store's locks are held. A commit costs about as much as a
// hundred rows, so more than this gains almost nothing.
constexpr std::size_t max_settlements = 1000;

bool goes_alone(ticket const& t) noexcept { return t.sending.company != sending::company::batch; }

}  // namespace

plan<settle_request> engine::plan_settle(steady_time now, bool flush) {
  if (settle_busy_ || finished_.empty()) return {};
  if (now < settle_not_before_) return {{}, settle_not_before_};
  bool const alone = goes_alone(*finished_.front());
  if (!flush && !alone && !settings_.in_order && last_settle_ != steady_time::min() && now < last_settle_ + spacing) {
    return {{}, last_settle_ + spacing};
  }
  settle_request request;
  while (!finished_.empty() && request.items.size() < max_settlements) {
    ticket_ptr const t = finished_.front();
    if (goes_alone(*t) && !request.items.empty()) break;
    request.tickets.push_back(t);
    request.items.push_back(t->settlement);
    move_to(*t, stage::settling);
    if (has_bug(planted_bug::registration_ends_too_early)) remove(*t);
    if (goes_alone(*t)) break;
  }
  settle_busy_ = true;
  last_settle_ = now;
  return {std::move(request)};
}

void engine::apply_settled(settle_request const& sent, std::vector<bool> const& applied, steady_time now) {
  assert(applied.size() == sent.items.size());
  settle_busy_ = false;
  store_answered(request_kind::settle, now);
  for (std::size_t i = 0; i < sent.tickets.size(); ++i) settled(*sent.tickets[i], applied[i], now);
  signals_ |= signal_settle | signal_work;
}

void engine::settled(ticket& t, bool applied, steady_time now) {
  if (t.stage != stage::settling) return;
  if (!applied) return remove_lost(t);
  auto const& s = t.settlement;
  if (s.outcome == outcome::retry || s.outcome == outcome::defer) wake(now + s.delay);
  if (s.outcome == outcome::release && open_) wake();  // some node should take it, perhaps this one
  if (s.outcome == outcome::dead) {
    auto const route = t.route == nullptr ? std::string{} : " of route '" + t.route->name + "'";
    say(log_level::error,
        "event " + t.event.id() + " (" + t.event.type() + ")" + route + " is DEAD: " + s.error +
            (t.route == nullptr && !t.unreadable ? "; unroutable::defer would keep it for a node that has one" : ""),
        "dead");
  }
  count_settled(t);
  remove(t);
}

void engine::count_settled(ticket const& t) noexcept {
  auto const& s = t.settlement;
  if (s.outcome == outcome::release) {
    counters_.released += 1;
    return;
  }
  auto& of_route = outcomes_[t.route == nullptr ? routes_.count : t.route->index];
  auto const count = [&](std::uint64_t node_counters::*total, std::uint64_t route_outcomes::*part) {
    counters_.settled += 1;
    counters_.*total += 1;
    of_route.*part += 1;
  };
  bool const is_failure = s.outcome == outcome::retry && s.counted > 0;
  if (s.outcome == outcome::delivered) {
    count(&node_counters::delivered, &route_outcomes::delivered);
  } else if (s.outcome == outcome::dead) {
    count(&node_counters::dead, &route_outcomes::dead);
  } else if (is_failure) {
    count(&node_counters::failed, &route_outcomes::failed);
  } else {
    count(&node_counters::deferred, &route_outcomes::deferred);
  }
}

void engine::apply_settle_failure(settle_request const& sent, error const& e, steady_time now) {
  settle_busy_ = false;
  settle_not_before_ = store_failed(request_kind::settle, e, "settle", now);
  for (auto const& t : sent.tickets) {
    if (t->stage != stage::settling) continue;
    if (e.transient()) {
      t->sending.unanswered = true;
    } else if (t->sending.company == sending::company::batch) {
      t->sending.company = sending::company::alone;
    } else if (t->sending.company == sending::company::alone) {
      t->sending.company = sending::company::alone_with_fixed_text;
      t->settlement.error = "the reason could not be stored";
    }
    move_to(*t, stage::finished);
  }
  signals_ |= signal_settle;
}

}  // namespace outbox::inline v0::core
