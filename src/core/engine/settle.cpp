// The settler's step: many results, one commit.
#include <cassert>

#include "core/base/planted.hpp"
#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {
namespace {

// Bounds one statement, one reply and the time that the store's locks are held. A commit costs about as much as a
// hundred rows, so more than this gains almost nothing.
constexpr std::size_t max_settlements = 1000;

bool goes_alone(ticket const& t) noexcept { return t.sending.company != sending::company::batch; }

// Of the rows behind a long run, none can be claimed before this result is in the table.
bool ends_long_run(ticket const& t) noexcept {
  return t.chain && t.behind == nullptr && t.chain->claimed >= shortest_run;
}

}  // namespace

// A result that is not DONE is awaited: by the next attempt, by another node, by a person. So are the slots and bytes
// that results occupy, as soon as they are many. A node that stands still for a suspect waits for every result.
bool engine::may_gather() const noexcept {
  auto const many = std::min({max_settlements, settings_.queue.hot / 4, settings_.queue.cold / 4});
  return open_ && !awaited_result_ && !quarantine_.standing_still() && finished_.size() < many &&
         slots_.bytes_used() < settings_.queue.bytes / 4;
}

steady_time engine::settle_due() const noexcept {
  if (settings_.in_order || goes_alone(*finished_.front())) return settle_not_before_;
  return std::max(settle_not_before_, settle_pace_.next(may_gather()));
}

// The settler is not woken for a result that goes with others at an instant for which it wakes anyway.
void engine::call_settler(ticket const& t) noexcept {
  if (t.settlement.outcome != outcome::delivered || ends_long_run(t)) awaited_result_ = true;
  if (!settle_busy_ && settle_due() < settler_wakes_) signals_ |= signal_settle;
}

plan<settle_request> engine::plan_settle(steady_time now, bool flush) {
  settler_wakes_ = steady_time::max();
  if (settle_busy_ || finished_.empty()) return {};
  if (auto const due = flush ? settle_not_before_ : settle_due(); now < due) return {{}, settler_wakes_ = due};
  settle_request request;
  for (auto it = finished_.begin(); it != finished_.end() && request.items.size() < max_settlements;) {
    ticket_ptr const t = *it++;
    if (!may_settle(*t)) continue;
    if (goes_alone(*t) && !request.items.empty()) break;
    take_for_settling(t, request);
    if (goes_alone(*t)) break;
  }
  // Only a listener that keeps the order itself answers for a later event first. The earlier answer brings us back.
  if (request.items.empty()) return {};
  settle_busy_ = true;
  if (finished_.empty()) awaited_result_ = false;
  settle_pace_.sent(now);
  return {std::move(request)};
}

void engine::take_for_settling(ticket_ptr const& t, settle_request& request) {
  request.tickets.push_back(t);
  if (t->repeat && t->settlement.outcome == outcome::delivered) put_back(*t);
  auto& item = request.items.emplace_back(t->settlement);
  item.row = t->handle;
  if (t->chain && leaves_line(*t) && !has_bug(planted_bug::next_row_is_not_unblocked)) {
    item.key = t->chain->key;
    item.seq = t->seq;
  }
  move_to(*t, stage::settling);
  if (has_bug(planted_bug::registration_ends_too_early)) remove(*t);
}

void engine::apply_settled(settle_request const& sent, std::vector<bool> const& applied, steady_time now) {
  assert(applied.size() == sent.items.size());
  settle_busy_ = false;
  settle_pace_.answered(now);
  store_answered(request_kind::settle, now);
  for (std::size_t i = 0; i < sent.tickets.size(); ++i) settled(*sent.tickets[i], applied[i], now);
  signals_ |= signal_settle | signal_work;
}

void engine::settled(ticket& t, bool applied, steady_time now) {
  if (t.stage != stage::settling) return;
  if (!applied) {
    if (t.chain && t.sending.unanswered) note_unblocked_unheard();
    return remove_lost(t);
  }
  auto const& s = t.settlement;
  if (s.outcome == outcome::retry || s.outcome == outcome::defer) wake(now + s.delay);
  if (s.outcome == outcome::release && open_) wake();  // some node should take it, perhaps this one
  if (s.outcome == outcome::release && t.chain) {
    if (t.path == path::hot) rest(t.chain->key, now);
    look_everywhere();  // it fell due before the place where claims begin
  }
  if (s.outcome == outcome::dead) {
    auto const route = t.route == nullptr ? std::string{} : " of route '" + t.route->name + "'";
    bool const parks = t.chain && !leaves_line(t);
    auto facts = about(t);
    facts.push_back({"error", s.error});
    if (parks) facts.push_back({"key", t.chain->key});
    say(log_level::error,
        "event " + t.event.id() + " (" + t.event.type() + ")" + route + " is DEAD: " + s.error +
            (t.route == nullptr && !t.unreadable ? "; unroutable::defer would keep it for a node that has one" : "") +
            (parks ? "; its key waits until it is replayed or discarded" : ""),
        "dead", std::move(facts));
  }
  count_settled(t);
  if (s.outcome == outcome::delivered) note_finished(t);
  if (t.chain && s.outcome == outcome::dead && leaves_line(t)) pass(t, now);
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
    awaited_result_ = true;
  }
  signals_ |= signal_settle;
}

}  // namespace outbox::inline v0::core
