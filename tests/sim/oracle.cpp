#include "sim/oracle.hpp"

namespace outbox::sim {
namespace {

using namespace spi;

bool terminal(row_view const& r) { return r.status == event_status::delivered || r.status == event_status::dead; }

}  // namespace

void oracle::broken(std::string const& rule, std::string const& id, std::string const& what) {
  auto const text = rule + ": " + (id.empty() ? "" : "event " + id + " ") + what;
  if (broken_.empty()) broken_ = text;
  throw violation{text};
}

oracle::oracle(std::shared_ptr<outbox::store> table, std::chrono::milliseconds lease, std::int32_t max_attempts,
               std::int32_t max_crashes, coverage& seen)
    : table_{std::move(table)}, lease_{lease}, max_attempts_{max_attempts}, max_crashes_{max_crashes}, seen_{seen} {}

fact& oracle::birth(std::string const& id, std::vector<act> script, bool poison) {
  auto& f = facts_[id];
  f.id = id;
  f.script = std::move(script);
  f.poison = poison;
  return f;
}

void oracle::committed(std::string const& id) {
  auto& f = of(id);
  f.committed = true;
  f.committed_at = table_->now();
  auto const row = table_->inspect().find(id);
  if (!row) broken("I1", id, "was committed and is not in the table");
  shadow_.insert_or_assign(id, *row);
  if (!keyed_) return;
  f.key = key_of(row->event);
  if (f.key.empty()) return;
  auto& line = keys_[f.key];
  if (!line.empty() && line.rbegin()->first > row->seq) {
    broken("the world", id, "was committed behind a later event of its key: its writers did not come one by one");
  }
  line.emplace(row->seq, id);
  if (!row->blocked && !row->event.delayed()) broken("I5", id, "was written outside the order of its key");
}

void oracle::undone(std::string const& id) {
  of(id).undone = true;
  if (table_->inspect().find(id)) broken("I2", id, "was rolled back and is in the table");
}

void oracle::disturbed(std::string const& incarnation, std::chrono::milliseconds length) {
  auto& until = lives_[incarnation].disturbed;
  until = std::max<instant>(until, table_->now() + length);
}

void oracle::ended(std::string const& incarnation) { lives_[incarnation].ended = true; }

void oracle::stopped(std::string const& incarnation) { lives_[incarnation].stopped = table_->now(); }

int oracle::listener_starts(core::ticket const& t) {
  auto const& id = t.event.id();
  auto& f = of(id);
  if (!f.committed || f.undone) broken("I2", id, "reached a listener and was never committed");
  auto const row = table_->inspect().find(id);
  if (!row || terminal(*row)) broken("I4", id, "reached a listener after its end");
  if (row->locked_by != t.handle.token)
    broken("I6", id, "reached a listener of " + t.handle.token + " while " + row->locked_by + " owns it");
  if (!row->lease_until || *row->lease_until <= table_->now()) broken("I6", id, "reached a listener after its lease");
  if (f.running) broken("I7", id, "reached a listener while another works on it");
  if (f.answered) broken("I7", id, "was delivered again after it was done");
  auto const since = paused_.find(t.event.type());
  if (since != paused_.end() && since->second + lease_ < table_->now() &&
      lives_[incarnation_of(t.handle.token)].disturbed < since->second) {
    broken("pause", id, "reached a listener although its route is paused");
  }
  if (in_order_) check_order(t, *row);
  if (keyed_) check_line(t, *row);
  f.runner = incarnation_of(t.handle.token);
  f.call = ++calls_;
  f.running = true;
  return f.epoch;
}

// Nothing that was there when this one was claimed, comes before it and is not finished.
void oracle::check_order(core::ticket const& t, row_view const& row) {
  auto const claimed_at = of(t.event.id()).claimed_at;
  for (auto const& [id, other] : shadow_) {
    if (terminal(other) || other.seq >= row.seq) continue;
    auto const& f = of(id);
    if (f.committed_at >= claimed_at || f.replayed_at >= claimed_at) continue;
    bool const tried = other.status == event_status::retry || !other.last_error.empty();
    if (other.event.delayed() && !tried) continue;
    auto const& type = other.event.type();
    if (paused_.contains(type)) continue;
    if (auto const at = resumed_.find(type); at != resumed_.end()) {
      // The node hears of it with its next renewal, or later if something keeps it from that.
      if (at->second + lease_ >= claimed_at || lives_[incarnation_of(t.handle.token)].disturbed >= at->second) continue;
    }
    broken("I5", t.event.id(), "overtakes " + id);
  }
  seen_["delivery in order"] += 1;
}

void oracle::child_starts(core::ticket const& t, int epoch, std::string const& child) {
  auto const& id = t.event.id();
  auto const row = table_->inspect().find(id);
  if (epoch != of(id).epoch || !row || row->locked_by != t.handle.token) return;  // a late call
  if (row->progress.find('"' + child + "\":\"done\"") != std::string::npos) {
    broken("fan_out", id, "calls '" + child + "' again, which the row says is done");
  }
  seen_[row->progress.empty() ? "fan_out" : "fan_out repeats the rest"] += 1;
}

void oracle::purged(purge_request const& r) {
  auto const before = table_->now() - r.retention;
  for (auto it = shadow_.begin(); it != shadow_.end();) {
    auto const& [id, row] = *it;
    if (table_->inspect().find(id)) {
      ++it;
      continue;
    }
    if (!terminal(row)) broken("I12", id, "was purged and is not finished");
    bool const wanted = row.status == event_status::delivered ? r.done : r.dead;
    if (!wanted || !row.done_at || *row.done_at > before) broken("I12", id, "was purged before its time");
    if (row.status == event_status::dead && in_line(row)) broken("I12", id, "was purged and parks its key");
    of(id).purged = true;
    if (auto const& key = of(id).key; !key.empty()) keys_[key].erase(row.seq);
    it = shadow_.erase(it);
  }
}

void oracle::replayed(std::string const& id, bool done) {
  auto const it = shadow_.find(id);
  auto const row = table_->inspect().find(id);
  if (it == shadow_.end() || !row) {
    if (done) broken("I4", id, "was replayed and is not there");
    return;
  }
  if (!done) return refresh(id, false);
  if (it->second.status != event_status::dead) broken("I4", id, "was replayed and was not dead");
  if (row->attempts != 0 || row->crashes != 0 || row->done_at) broken("I4", id, "was replayed and remembers its death");
  it->second = *row;
  auto& f = of(id);
  new_epoch(f);
  f.delivered = false;
  f.replayed_at = table_->now();
}

void oracle::paused(std::string const& type) { paused_[type] = table_->now(); }

void oracle::resumed(std::string const& type) {
  paused_.erase(type);
  resumed_[type] = table_->now();
}

void oracle::listener_ends(std::string const& id, int epoch, bool final, bool done) {
  auto& f = of(id);
  if (epoch != f.epoch) return;  // what it says counts for nothing
  f.running = false;
  f.answered = final;
  f.delivered = f.delivered || done;
}

void oracle::timed_out(std::string const& id, int epoch) {
  if (epoch == of(id).epoch) new_epoch(of(id));
}

void oracle::new_epoch(fact& f) {
  if (f.running || f.answered) seen_["explained duplicate"] += 1;
  f.epoch += 1;
  f.running = f.answered = false;
}

// An owner's lease ran out: that is legal only if something happened to the owner.
void oracle::check_takeover(row_view const& before, instant now) {
  auto const& id = before.event.id();
  auto& f = of(id);
  new_epoch(f);
  f.lost_by.insert(incarnation_of(before.locked_by));
  f.untold.insert(before.locked_by);
  f.delivered = false;  // the next owner delivers it again, before those behind it
  seen_["takeover"] += 1;
  auto const& life = lives_[incarnation_of(before.locked_by)];
  // A transaction that was open for half a lease is given up, also by a node that stops. A claim that takes effect late
  // is another matter.
  if (life.stopped && !tokens_.contains(before.locked_by) && f.committed_at > *life.stopped &&
      *before.lease_until - lease_ / 2 > *life.stopped) {
    broken("I7", id, "was committed after " + before.locked_by + " had stopped with nothing left to do");
  }
  if (life.ended || life.disturbed >= *before.lease_until - 2 * lease_) return;
  // A transaction that outlived its lease leaves a row whose owner has no time left to give it back.
  if (f.committed_at + std::chrono::seconds{3} >= *before.lease_until) return;
  broken("I7", id,
         "was taken from " + before.locked_by + ", to which nothing had happened (lease until " +
             std::to_string((*before.lease_until - now).count()) + " us from now)");
}

void oracle::claimed(claim_request const& r, claim_reply const& reply) {
  auto const now = table_->now();
  if (!tokens_.insert(r.token).second) broken("I6", "", "token " + r.token + " was used for two claims");
  if (r.suspects == suspects::take_one) {
    seen_[reply.rows.empty() ? "suspect taken by somebody else" : "suspect claimed alone"] += 1;
  }
  if (r.floor) seen_["claim from a floor"] += 1;
  if (keyed_) check_claimed_lines(reply);
  for (auto const& row : reply.rows) {
    auto const& before = shadow_.at(row.handle.id);
    if (terminal(before)) broken("I4", row.handle.id, "was claimed after its end");
    if (before.lease_until && *before.lease_until > now) {
      broken("I6", row.handle.id,
             "was claimed by " + r.token + " while the lease of " + before.locked_by + " was live");
    }
    if (!before.locked_by.empty()) check_takeover(before, now);
    if (row.crashes >= max_crashes_) check_budget(before);
    of(row.handle.id).companions = reply.rows.size() - 1;
    of(row.handle.id).claimed_at = now;
    for (auto const& p : r.pauses) {
      if (p.covers(row.event.aggregate_type(), row.event.type()))
        broken("pause", row.handle.id, "was claimed by a claim that leaves its route");
    }
    refresh(row.handle.id, true);
  }
  for (auto const& k : reply.dead) {
    auto const& before = shadow_.at(k.id);
    check_budget(before);
    check_takeover(before, now);
    refresh(k.id, true);
  }
  if (keyed_) changed();
}

void oracle::check_budget(row_view const& before) {
  auto const& id = before.event.id();
  seen_["killed by crashes"] += 1;
  // In line, the node that claims it makes it DEAD, and may end before.
  if (before.crashes >= max_crashes_ && in_line(before)) return;
  if (before.crashes + 1 < max_crashes_) broken("I3", id, "is DEAD before its crashes were used up");
  if (of(id).companions != 0) broken("I3", id, "is DEAD because of a crash that a neighbour may have caused");
}

void oracle::settled(std::span<settlement const> items, spi::settle_reply const& reply) {
  auto const& applied = reply.applied;
  if (keyed_) check_settled_lines(items, applied);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!applied[i]) continue;
    auto const& before = shadow_.at(items[i].row.id);
    if (terminal(before)) broken("I4", items[i].row.id, "was settled again after its end");
    if (before.locked_by != items[i].row.token) {
      broken("I6", items[i].row.id, "was settled by " + items[i].row.token + " while " + before.locked_by + " owns it");
    }
    auto& f = of(items[i].row.id);
    if (items[i].outcome == outcome::retry || items[i].outcome == outcome::defer) f.answered = f.delivered = false;
    if (items[i].outcome == outcome::dead && on_dead_ == outbox::on_dead::skip) leave_line(items[i].row.id);
    refresh(items[i].row.id, true);
  }
  if (reply.unblocked > 0) seen_["unblocked"] += reply.unblocked;
  if (keyed_) changed();
}

void oracle::changed() {
  for (auto const& [id, before] : shadow_) refresh(id, false);
  if (keyed_) check_heads();
}

void oracle::refresh(std::string const& id, bool by_owner) {
  auto const after = table_->inspect().find(id);
  if (!after) broken("I1", id, "vanished from the table");
  auto& before = shadow_.at(id);
  if (terminal(before) && before.status != after->status) broken("I4", id, "changed after its end");
  if (!by_owner && (before.status != after->status || before.attempts != after->attempts)) {
    broken("I6", id, "was changed by something that is no claim and no settlement");
  }
  if (keyed_ && !of(id).key.empty() && before.blocked && !after->blocked)
    broken("I5", id, "has left the order of its key, and nothing said that it may");
  if (after->attempts > max_attempts_) broken("I3", id, "has " + std::to_string(after->attempts) + " attempts");
  if (after->crashes > max_crashes_ && !in_line(*after))
    broken("I3", id, "has " + std::to_string(after->crashes) + " crashes");
  before = *after;
}

void oracle::check(core::engine const& e) {
  std::vector<fact*> held;
  for (auto& [id, f] : facts_) {
    if (e.holds(id)) held.push_back(&f);
  }
  for (auto* f : held) {
    // A node that slept through its lease may still think that it holds the row.
    auto const row = shadow_.find(f->id);
    if (row != shadow_.end() && incarnation_of(row->second.locked_by) == e.settings().incarnation)
      f->companions = held.size() - 1;
  }

  auto const& s = e.settings();
  if (e.used().hot_used() > s.queue.hot) broken("I8", "", "more hot slots are used than there are");
  if (e.used().cold_used() > s.queue.cold) broken("I8", "", "more cold slots are used than there are");
  if (e.used().bytes_used() > s.queue.bytes) broken("I8", "", "more bytes are held than allowed");
  auto const c = e.counters();
  if (auto& known = chains_broken_[s.incarnation]; c.chains_broken > known) {
    seen_["chain broken"] += c.chains_broken - std::exchange(known, c.chains_broken);
  }
  if (c.hot_enqueued + c.cold_enqueued != c.settled + c.released + c.lost + c.unconfirmed + c.held) {
    broken("I13", "",
           "a node's counters do not add up: " + std::to_string(c.hot_enqueued) + " hot + " +
               std::to_string(c.cold_enqueued) + " cold != " + std::to_string(c.settled) + " settled + " +
               std::to_string(c.released) + " released + " + std::to_string(c.lost) + " lost + " +
               std::to_string(c.unconfirmed) + " unconfirmed + " + std::to_string(c.held) + " held");
  }
  if (c.settled != c.delivered + c.failed + c.deferred + c.dead) broken("I13", "", "settlements do not add up");
  // A claim that was under way when the dispatch lock was lost may come behind the next holder, who has ended our
  // leases.
  bool const undisturbed = lives_[s.incarnation].disturbed == instant{};
  if (c.own_rows_reclaimed != 0 && undisturbed) broken("I6", "", "a claim returned a row that its own node holds");
}

std::vector<std::string> oracle::pending() {
  std::vector<std::string> ids;
  for (auto const& [id, row] : shadow_) {
    if (!terminal(row) && !is_parked(id)) ids.push_back(id);
  }
  return ids;
}

bool oracle::all_terminal() { return pending().empty(); }

void oracle::check_end() {
  std::uint64_t committed = 0;
  for (auto const& [id, f] : facts_) {
    auto const row = table_->inspect().find(id);
    if (!f.committed) {
      if (row) broken("I2", id, "is in the table and was never committed");
      continue;
    }
    if (f.purged) continue;
    ++committed;
    if (!row) broken("I1", id, "is lost");
    if (is_parked(id)) continue;
    if (!terminal(*row))
      broken("I1", id, "is still pending after everything has healed: attempts " + std::to_string(row->attempts));
    if (f.poison && row->status != event_status::dead) broken("I3", id, "crashes every process and is not dead");
    if (row->status == event_status::delivered && !f.answered) broken("I4", id, "is DONE and no listener said so");
  }
  auto const c = table_->inspect().counts();
  if (c.pending() + c.done + c.dead != committed) broken("I13", "", "the table's counts do not add up");
}

}  // namespace outbox::sim
