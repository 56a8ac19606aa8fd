// Chains: the events of one key, one after the other.
#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "core/base/planted.hpp"
#include "core/engine/engine.hpp"

namespace outbox::inline v0::core {
namespace {

// How many births of one key may wait in the node. More go through the table, so that one busy key does not take every
// slot of the hot path.
constexpr std::size_t most_births = 64;

// How long births of a key go through the table after one of them found a row before it that this node does not hold.
constexpr milliseconds rest_of_a_key{250};

// More keys than this are not remembered: the next birth of a forgotten one costs a release.
constexpr std::size_t most_resting_keys = 10'000;

// How many keys are remembered by the `seq` up to which they are finished. For others a store looks further back.
constexpr std::size_t most_finished_keys = 10'000;

// How long rows that wait for their turn may leave no room for a claim, and how many of each key stay then.
constexpr milliseconds patience_with_runs{1000};
constexpr std::size_t rest_of_a_run = 8;

// How many births one question asks about, and how often rows that wait for nothing are looked for.
constexpr std::size_t most_questions = 500;
constexpr milliseconds heal_every = std::chrono::minutes{5};
constexpr milliseconds heal_after_a_crash = std::chrono::minutes{1};

bool is_over(ticket const& t) noexcept { return t.stage == stage::finished || t.stage == stage::settling; }

}  // namespace

// Joining and leaving.

bool engine::may_be_owned(std::string const& key, steady_time now) {
  if (auto const r = resting_.find(key); r != resting_.end()) {
    if (now < r->second) return false;
    resting_.erase(r);
  }
  auto const c = chains_.find(key);
  if (c == chains_.end() || c->second->broken) return true;
  if (c->second->births >= most_births) c->second->crowded = true;
  return !c->second->crowded;
}

// The key has a row before its births that is not here: it is claimed in its turn, and so are they.
void engine::rest(std::string const& key, steady_time now) {
  if (resting_.size() >= most_resting_keys) resting_.clear();
  resting_[key] = now + rest_of_a_key;
}

// A store that looks for the row before a birth need not look at what has left the line.
std::int64_t engine::finished_up_to(std::string const& key) const {
  auto const at = finished_keys_.find(key);
  return at == finished_keys_.end() ? 0 : at->second;
}

// The event is DONE, and so are those before it: the first row of a chain has nothing before it, and a chain that
// breaks says nothing any more.
void engine::note_finished(ticket const& t) noexcept try {
  if (!t.chain || !t.in_line || t.chain->broken || t.ahead != nullptr) return;
  auto at = finished_keys_.find(t.chain->key);
  if (at == finished_keys_.end()) {
    if (t.path == path::cold) return;  // its key is not written here, as far as is known
    if (finished_keys_.size() >= most_finished_keys) finished_keys_.clear();
    at = finished_keys_.emplace(t.chain->key, 0).first;
  }
  at->second = std::max(at->second, t.seq);
} catch (std::bad_alloc const&) {  // it is not remembered
}

void engine::join(ticket& t, std::shared_ptr<chain> const& c) {
  t.chain = c;
  c->members += 1;
  if (t.path == path::hot) c->births += 1;
}

void engine::join_birth(ticket& t, std::string key) {
  auto at = chains_.find(key);
  if (at == chains_.end() || at->second->broken) {
    if (at != chains_.end()) chains_.erase(at);
    auto fresh = std::make_shared<chain>(std::move(key));
    at = chains_.emplace(fresh->key, fresh).first;
  }
  join(t, at->second);
  t.placing = ticket::placing::not_asked;
}

// The rows of one claim and key continue each other. A new claim begins a new chain: its first row has nothing before
// it in the table, so whatever the node still holds of the key has left the line, or was lost. A row whose chain broke
// at an earlier row of the same claim joins it too, so that it is given back.
void engine::join_claimed(ticket& t, std::string key, std::int64_t seq) {
  auto at = chains_.find(key);
  if (at == chains_.end() || at->second->token != t.handle.token) {
    if (at != chains_.end()) chains_.erase(at);
    auto fresh = std::make_shared<chain>(std::move(key));
    fresh->token = t.handle.token;
    at = chains_.emplace(fresh->key, fresh).first;
  }
  t.seq = seq;
  at->second->claimed += 1;
  join(t, at->second);
  enter_line(t);
}

void engine::enter_line(ticket& t) noexcept {
  t.in_line = true;
  t.chain->line.insert(t);
}

void engine::leave_chain(ticket& t) noexcept {
  auto const c = std::exchange(t.chain, nullptr);
  if (!c) return;
  bool const loose = !t.in_line && t.stage == stage::waiting;
  if (t.in_line && t.behind != nullptr && t.behind->stage == stage::finished) call_settler(*t.behind);  // it may go now
  if (t.in_line) c->line.erase(t);
  if (loose) c->loose.erase(t);
  t.in_line = false;
  // Births that wait for its commit will not hear of it.
  for (ticket* n = c->loose.first(); n != nullptr;) {
    ticket& each = *std::exchange(n, n->behind);
    if (each.before == t.event.id() && each.before != c->last_done) give_back_alone(each);
  }
  if (t.stage == stage::running) c->in_flight -= 1;
  if (t.path == path::hot) c->births -= 1;
  c->members -= 1;
  if (c->members == 0) forget_chain(*c);
}

void engine::forget_chain(chain const& c) noexcept {
  if (auto const at = chains_.find(c.key); at != chains_.end() && at->second.get() == &c) chains_.erase(at);
}

// What comes next.

// DONE, or DEAD where that does not park the key: the events behind it may be delivered.
bool engine::leaves_line(ticket const& t) const noexcept {
  auto const what = t.settlement.outcome;
  if (what == outcome::delivered) return !t.repeat;
  return what == outcome::dead && settings_.on_dead == on_dead::skip;
}

// A DEAD event lets the next one begin when that is durable: else a crash would bring it back, and it might be
// delivered behind later ones.
bool engine::lets_next_begin(ticket const& t) const noexcept {
  return is_over(t) && t.settlement.outcome == outcome::delivered && !t.repeat;
}

// A listener that keeps the order itself has taken `ahead`, and may have `t` too.
bool engine::has_been_taken(ticket const& ahead, ticket const& t) noexcept {
  return ahead.stage == stage::running && ahead.route != nullptr && ahead.route == t.route &&
         ahead.route->options.keeps_order && ahead.call.phase != listener_call::phase::on_worker && !ahead.call.refused;
}

// Of such a listener, a later event may have been answered before an earlier one was.
bool engine::is_next(ticket const& t) const noexcept {
  bool beside = false;
  for (auto const* ahead = t.ahead; ahead != nullptr; ahead = ahead->ahead) {
    if (lets_next_begin(*ahead)) continue;
    if (!has_been_taken(*ahead, t)) return false;
    beside = true;
  }
  return beside || t.chain->in_flight == 0;
}

// An event must not be DONE before the one before it is: a crash in between would leave a gap that is delivered late.
bool engine::may_settle(ticket const& t) const noexcept {
  if (!t.chain || t.ahead == nullptr || !leaves_line(t)) return true;
  if (has_bug(planted_bug::late_row_is_settled_first)) return true;
  return t.ahead->stage == stage::settling;  // in the same request: there is one at a time
}

void engine::begin_waiting(ticket& t, steady_time now) noexcept {
  t.limit = steady_time::max();  // its patience begins when it is the first
  if (is_next(t)) return enqueue(t, now);
  if (quarantine_.standing_still()) give_back(t);  // a suspect would wait for one event after the other
}

// What waits for its turn would keep the node standing still until it was delivered, one event after the other. It is
// given back, and the first of each chain goes on.
void engine::break_all_chains() noexcept {
  for (auto const& [id, t] : by_id_) {
    if (t->in_line && t->ahead == nullptr) break_chain(*t, /*repeat=*/false);
  }
}

void engine::enqueue(ticket& t, steady_time now) noexcept {
  t.limit = end_of_waiting(t, now);
  move_to(t, stage::queued);
  signals_ |= signal_work;
}

// Begins the first of them that waits, unless something before it is not delivered. Of a listener that keeps the order
// itself, later events may have been answered first.
void engine::start_from(ticket* next, steady_time now) noexcept {
  while (next != nullptr && lets_next_begin(*next)) next = next->behind;
  if (next != nullptr && next->stage == stage::waiting) enqueue(*next, now);
}

// Its listener keeps the order itself, and has taken `t`.
void engine::start_beside(ticket const& t, steady_time now) noexcept {
  ticket* next = t.behind;
  while (next != nullptr && lets_next_begin(*next)) next = next->behind;
  if (next != nullptr && next->stage == stage::waiting && is_next(*next)) enqueue(*next, now);
}

// Of a listener that keeps the order itself, the next ones may be queued: they wait again.
void engine::hold_up_queued(ticket const& t) noexcept {
  for (ticket* n = t.behind; n != nullptr; n = n->behind) {
    if (n->stage != stage::queued) continue;
    n->limit = steady_time::max();
    move_to(*n, stage::waiting);
  }
}

// The listener has answered. The next event begins at once, not when this one is durable: after a crash the key is
// repeated from some point on, in order.
void engine::follow_up(ticket& t, steady_time now) {
  bool const goes_on = has_bug(planted_bug::chain_goes_on_after_a_failure);
  if (!leaves_line(t) && !goes_on) return break_chain(t);
  if (t.settlement.outcome == outcome::delivered || goes_on) return pass(t, now);
  hold_up_queued(t);
}

// The event has left the line: what is behind it may begin.
void engine::pass(ticket& t, steady_time now) {
  auto& c = *t.chain;
  if (t.seq > c.done_seq) {
    c.done_seq = t.seq;
    c.last_done = t.event.id();
  }
  c.passed += 1;
  bool const whole_run = !c.broken && t.behind == nullptr && t.path == path::cold && c.claimed >= run_;
  if (whole_run && run_ < longest_run) run_ *= 2;
  // Of a broken chain, what stood before the break goes on; what was behind it has been given back.
  if (c.in_flight == 0) start_from(t.settlement.outcome == outcome::delivered ? c.line.first() : t.behind, now);
  look_at_loose(c, now);
}

// What is behind `t` must not begin before it. What stands before `t` goes on, and the chain may break there once more.
// Nothing is behind a birth whose place is not known: those that wait for it are given back when it is gone. Calls that
// run go on: a listener that keeps the order itself may have several, and the next one runs before the one before it is
// durable. What they deliver is delivered again behind `t`, so that the last word of the key is not an old one.
void engine::break_chain(ticket& t, bool repeat) noexcept {
  auto const c = t.chain;
  if (!c || !t.in_line) return;
  if (!std::exchange(c->broken, true)) run_ = shortest_run;
  bool any = false;
  for (ticket* n = t.behind; n != nullptr;) {
    ticket& each = *std::exchange(n, n->behind);
    if (each.stage != stage::waiting && each.stage != stage::queued) {
      each.repeat = each.repeat || repeat;
      if (each.repeat && each.stage == stage::finished) call_settler(each);  // it waits for nothing before it
      continue;
    }
    give_back_alone(each);
    any = true;
  }
  while (c->loose.first() != nullptr) {
    any = true;
    give_back_alone(*c->loose.first());
  }
  if (!any) return;
  counters_.chains_broken += 1;
  look_everywhere();  // what is given back may be older than where claims begin
}

// A run keeps as many rows as it delivered since the last look: one of a fast key makes room by itself.
void engine::shorten(chain& c) noexcept {
  auto const stay = std::max(rest_of_a_run, std::exchange(c.passed, 0));
  if (c.claimed <= stay) return;
  auto* last = c.line.first();
  for (std::size_t n = 1; last != nullptr && n < stay; ++n) last = last->behind;
  if (last != nullptr && last->behind != nullptr) break_chain(*last, /*repeat=*/false);
}

// What waits behind slow events of a few keys keeps its slots, and could keep every other key out of this node: a claim
// for each slot that comes free is no room for them (see `apply_claim`). Returns when to look at it again.
steady_time engine::shorten_runs(steady_time now) noexcept {
  bool const no_room =
      slots_.cold_free() == 0 || slots_.cold_free() < claim_size_.worthwhile() || slots_.cold_bytes_free() == 0;
  if (!no_room || waiting_.empty()) {
    no_room_since_.reset();
    return steady_time::max();
  }
  if (!no_room_since_) no_room_since_ = now;
  if (now - *no_room_since_ < patience_with_runs) return *no_room_since_ + patience_with_runs;
  no_room_since_ = now;
  for (auto const& [key, c] : chains_) shorten(*c);
  return now + patience_with_runs;
}

// It was delivered, but the one before it was not. Its row says that it was tried, and nothing is counted.
void engine::put_back(ticket& t) {
  t.settlement.outcome = outcome::retry;
  t.settlement.error = "an earlier event of its key was not delivered";
}

// Births.

// After COMMIT: nothing is allocated.
void engine::place_births(birth& b, std::vector<bool> const& absent, steady_time now) noexcept {
  for (std::size_t i = 0; i < b.tickets.size(); ++i) {
    auto& t = *b.tickets[i];
    if (!t.chain || (i < absent.size() && absent[i])) continue;
    if (b.receipt && b.rows[i] < b.receipt->rows.size() && b.receipt->rows[b.rows[i]].known) {
      auto& told = b.receipt->rows[b.rows[i]];
      t.seq = told.seq;
      t.before = std::move(told.before);
      t.placing = ticket::placing::told;
    }
    if (t.placing != ticket::placing::told) signals_ |= signal_place;
    t.limit = steady_time::max();
    move_to(t, stage::waiting);
    t.chain->loose.insert(t);
  }
  for (auto const& t : b.tickets) {
    if (t->chain && t->stage == stage::waiting && !t->in_line) look_at_loose(*t->chain, now);
  }
}

// Each that finds its place may be what another one waits for.
void engine::look_at_loose(chain& c, steady_time now) noexcept {
  for (bool again = true; again;) {
    again = false;
    for (ticket* n = c.loose.first(); n != nullptr;) {
      ticket& t = *std::exchange(n, n->behind);
      if (t.placing != ticket::placing::told) continue;
      place_birth(t, now);
      again = again || t.in_line || t.stage != stage::waiting;
      if (again) break;
    }
  }
}

// A row before this one that the engine does not hold in the same chain belongs to another node, or is in doubt, even
// if it carries a token of this node.
void engine::place_birth(ticket& t, steady_time now) noexcept {
  auto& c = *t.chain;
  if (c.broken) return give_back_alone(t);
  // A later event of the key is here already: its writer did not wait for this one's. Nothing here would begin this one
  // if that fails, so it goes through the table, where it is the first.
  if (c.line.last() != nullptr && c.line.last()->seq > t.seq) return give_back_alone(t);
  if (!t.before.empty() && t.before != c.last_done) {
    auto const found = by_id_.find(t.before);
    ticket const* const before = found == by_id_.end() ? nullptr : found->second;
    bool const ours = before != nullptr && before->chain == t.chain;
    bool const trusted = has_bug(planted_bug::birth_trusts_its_token);
    if (!ours && !trusted) return give_back_alone(t);
    if (ours && !before->in_line && !has_bug(planted_bug::hook_overtakes_its_forerunner)) {
      if (is_over(*before)) return give_back_alone(t);
      return;  // its commit is not heard of yet, or its place is not known
    }
  }
  c.loose.erase(t);
  enter_line(t);
  begin_waiting(t, now);
}

// What was claimed may wait by the thousand, and new births are at the end: they are looked for from there.
ticket_list::iterator engine::first_unplaced() noexcept {
  auto it = waiting_.end();
  auto left = unplaced_;
  while (left > 0 && it != waiting_.begin()) {
    if (is_unplaced(**--it)) left -= 1;
  }
  assert(left == 0 && "each of them waits");
  return it;
}

plan<place_request> engine::plan_place() {
  if (place_busy_ || unplaced_ == 0) return {};
  place_request request;
  for (auto it = first_unplaced(); it != waiting_.end() && request.ids.size() < most_questions; ++it) {
    auto const& t = *it;
    if (!is_unplaced(*t)) continue;
    request.tickets.push_back(t);
    request.ids.push_back(t->event.id());
    t->placing = ticket::placing::asked;
    unplaced_ -= 1;
  }
  if (request.ids.empty()) return {};
  place_busy_ = true;
  return {std::move(request)};
}

void engine::apply_placed(place_request const& sent, std::vector<place> const& places, steady_time now) {
  place_busy_ = false;
  signals_ |= signal_place;
  for (std::size_t i = 0; i < sent.tickets.size(); ++i) {
    auto& t = *sent.tickets[i];
    if (t.stage != stage::waiting || t.in_line || !t.chain) continue;
    if (!places[i].known) {
      give_back_alone(t);
      continue;
    }
    t.placing = ticket::placing::told;
    t.before = places[i].before;
    t.chain->loose.erase(t);
    t.seq = places[i].seq;
    t.chain->loose.insert(t);
  }
  for (auto const& t : sent.tickets) {
    if (t->chain && t->stage == stage::waiting && !t->in_line) look_at_loose(*t->chain, now);
  }
}

void engine::apply_place_failure(place_request const& sent, error const& e) {
  place_busy_ = false;
  counters_.store_errors += 1;
  say(log_level::warning,
      std::string{"cannot ask where new events stand in their keys: "} + e.what() + "; they go through the table",
      "place", facts_of(e));
  for (auto const& t : sent.tickets) {
    if (t->chain && t->stage == stage::waiting && !t->in_line) give_back_alone(*t);
  }
}

// Healing.

void engine::note_unblocked(std::size_t rows) noexcept {
  if (rows == 0) return;
  counters_.unblocked += rows;
  wake();
  hint();  // another node may have nothing to do
}

// A settlement whose answer was lost may have unblocked a row.
void engine::note_unblocked_unheard() noexcept {
  wake();
  hint();
}

// The node that held the row may have been killed together with other programs that change the table.
void engine::heal_soon() noexcept { next_heal_ = std::min(next_heal_, last_heal_ + heal_after_a_crash); }

void engine::apply_heal_failure(steady_time now) noexcept {
  last_heal_ = now;
  next_heal_ = now + heal_after_a_crash;
}

void engine::apply_healed(std::size_t rows, steady_time now) {
  auto const jitter = 0.8 + 0.4 * random_.fraction();
  auto const usual = std::chrono::duration<double, std::milli>{heal_every} * jitter;
  last_heal_ = now;
  next_heal_ = now + std::chrono::duration_cast<steady_time::duration>(usual);
  if (rows == 0) return;
  next_heal_ = now;  // there may be more
  counters_.healed += rows;
  say(log_level::warning,
      "events waited for an earlier one of their key that is not there any more: another program changed the table, or "
      "transactions of one key did not come one after the other",
      "heal", {{"rows", std::to_string(rows)}});
  wake();
}

}  // namespace outbox::inline v0::core
