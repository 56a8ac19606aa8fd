#include "sim/stepwise_store.hpp"

#include <algorithm>
#include <outbox/error.hpp>
#include <ranges>

#include "core/base/planted.hpp"
#include "memory/rows.hpp"

namespace outbox::sim {

using core::has_bug;
using core::planted_bug;
using memory::claimable;
using memory::claimable_some_day;
using memory::pending;
using choice = claim_filter::choice;

namespace {

bool owns(row_view const& row, row_handle const& h) { return pending(row) && row.locked_by == h.token; }

}  // namespace

// A transaction. Its end without a commit undoes it.
struct stepwise_store::session {
  explicit session(stepwise_store& s) : in{s} { in.sessions_.insert(this); }
  ~session() {
    in.sessions_.erase(this);
    in.waiters_.remove_if([this](waiter const& w) { return w.who == this; });
    in.unlock(*this);
  }
  session(session const&) = delete;
  session& operator=(session const&) = delete;
  void check() const {
    if (over) throw error{errc::unavailable, "the server has ended"};
  }

  stepwise_store& in;
  rows changed;
  std::set<seq_t> locked;
  bool over = false;
};

// Time passes.
struct stepwise_store::pause {
  session& of;
  microseconds length;

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    of.in.world_.at_us(length, [h] { h.resume(); });
  }
  void await_resume() const { of.check(); }
};

// Waits until the transaction has the lock of a row.
struct stepwise_store::lock_of {
  session& of;
  seq_t seq;

  [[nodiscard]] bool await_ready() { return of.in.try_lock(of, seq); }
  void await_suspend(std::coroutine_handle<> h) {
    if (of.in.would_wait_for_itself(of, seq)) throw error{errc::unavailable, "deadlock"};
    of.in.world_.note("statement waits for a row");
    of.in.waiters_.push_back({&of, seq, h});
  }
  void await_resume() const { of.check(); }
};

stepwise_store::~stepwise_store() {
  waiters_.clear();  // none goes on when another one's locks are free: the world may be half gone
  while (!under_way_.empty()) std::coroutine_handle<>::from_address(*under_way_.begin()).destroy();
}

void stepwise_store::restart() {
  for (auto* s : sessions_) s->over = true;
  for (auto const& w : std::exchange(waiters_, {})) world_.at_us(microseconds{1}, [h = w.go_on] { h.resume(); });
  for (auto* s : sessions_) unlock(*s);
}

// Sessions.

stepwise_store::rows stepwise_store::view(session const& s) const {
  auto seen = table_.rows();
  for (auto const& [seq, row] : s.changed) seen.insert_or_assign(seq, row);
  return seen;
}

row_view const* stepwise_store::latest(session const& s, seq_t seq) const {
  if (auto const own = s.changed.find(seq); own != s.changed.end()) return &own->second;
  auto const at = table_.rows().find(seq);
  return at == table_.rows().end() ? nullptr : &at->second;
}

bool stepwise_store::try_lock(session& s, seq_t seq) {
  auto const [at, fresh] = locks_.emplace(seq, &s);
  if (fresh) s.locked.insert(seq);
  return at->second == &s;
}

// The transaction that has waited longest for a row gets it.
void stepwise_store::unlock(session& s) {
  for (auto const seq : std::exchange(s.locked, {})) {
    locks_.erase(seq);
    auto const next = std::ranges::find(waiters_, seq, &waiter::seq);
    if (next == waiters_.end()) continue;
    locks_.emplace(seq, next->who);
    next->who->locked.insert(seq);
    world_.at_us(microseconds{1}, [h = next->go_on] { h.resume(); });
    waiters_.erase(next);
  }
}

bool stepwise_store::would_wait_for_itself(session const& s, seq_t seq) const {
  for (auto const* holder = locks_.at(seq); holder != &s;) {
    auto const waits = std::ranges::find_if(waiters_, [&](waiter const& w) { return w.who == holder; });
    if (waits == waiters_.end()) return false;
    holder = locks_.at(waits->seq);
  }
  world_.note("deadlock");
  return true;
}

void stepwise_store::commit(session& s) {
  s.check();
  for (auto& [seq, row] : s.changed) table_.put(row);
}

microseconds stepwise_store::length() {
  auto& r = world_.random();
  if (!world_.settings().slow_statements) return microseconds{10 + r.below(3000)};
  return microseconds{10 + r.below(r.chance(0.15) ? 1'500'000 : 100'000)};
}

// Of a COMMIT that an operator's tool sends by itself, or that waits for a replica.
microseconds stepwise_store::commit_length() {
  auto& r = world_.random();
  return length() + microseconds{r.below(r.chance(0.5) ? 3'000'000 : 1000)};
}

stepwise_store::pause stepwise_store::statement(session& s) { return {s, length()}; }

std::optional<stepwise_store::seq_t> stepwise_store::seq_of(std::string_view id) const {
  auto const row = table_.find(id);
  return row ? std::optional{row->seq} : std::nullopt;
}

bool stepwise_store::is_locked(std::string_view id) const {
  auto const seq = seq_of(id);
  return seq && locks_.contains(*seq);
}

// Lines.

bool stepwise_store::in_line(row_view const& r) { return memory::in_line(r) && !key_of(r.event).empty(); }

bool stepwise_store::is_parking(session const& s, seq_t seq) const {
  auto const* const row = latest(s, seq);
  return row != nullptr && row->status == event_status::dead && in_line(*row);
}

std::vector<row_view const*> stepwise_store::line(rows const& of, std::string const& key) {
  std::vector<row_view const*> all;
  for (auto const& [seq, row] : of) {
    if (memory::in_line(row) && key_of(row.event) == key) all.push_back(&row);
  }
  return all;
}

// The statements of a claim.

std::vector<stepwise_store::looked> stepwise_store::look(session& s, claim_request const& r, rows const& seen,
                                                         instant at) {
  auto const floor = r.floor ? *r.floor : r.reach ? at - *r.reach : instant::min();
  std::vector<row_view const*> due;
  for (auto const& [seq, row] : seen) {
    if (claimable_some_day(row) && claimable(row) >= floor && claimable(row) <= at) due.push_back(&row);
  }
  std::ranges::sort(due, {}, [](row_view const* row) { return std::pair{claimable(*row), row->seq}; });
  std::vector<looked> found;
  for (auto const* const row : due) {
    auto const* const now_there = latest(s, row->seq);
    if (now_there == nullptr || !claimable_some_day(*now_there) || claimable(*now_there) > at) continue;
    if (!try_lock(s, row->seq)) continue;
    looked one{.row = *now_there, .key = {}, .before = {}, .next_blocked = false};
    if (in_line(one.row)) {
      one.key = key_of(one.row.event);
      for (auto const* const other : line(seen, one.key)) {
        if (other->seq < row->seq) one.before = other->event.id();
        if (other->seq <= row->seq) continue;
        one.next_blocked = other->blocked == true;
        break;
      }
    }
    found.push_back(std::move(one));
  }
  return found;
}

void stepwise_store::choose(std::vector<looked> const& found, claim_filter& filter, std::vector<seq_t>& take,
                            std::vector<seq_t>& dead, std::vector<seq_t>& note, std::vector<looked const*>& heads) {
  for (auto const& each : found) {
    auto seen = candidate_of(each.row, claimable(each.row));
    seen.key = each.key;
    seen.before = each.before;
    seen.next_blocked = each.next_blocked;
    auto const chosen = filter.consider(seen);
    if (chosen == choice::stop) return;
    if (chosen == choice::dead) dead.push_back(each.row.seq);
    if (chosen == choice::note) note.push_back(each.row.seq);
    if (chosen != choice::take) continue;
    take.push_back(each.row.seq);
    if (filter.room_behind(seen) > 0) heads.push_back(&each);
  }
}

// The rows behind a head, as far as they can be locked without a gap.
std::vector<row_view> stepwise_store::follow(session& s, rows const& seen, row_view const& head, std::size_t room,
                                             instant at) {
  std::vector<row_view> behind;
  bool gap = false;
  for (auto const* const row : line(seen, key_of(head.event))) {
    if (row->seq <= head.seq || room == 0) continue;
    --room;
    auto const* const now_there = latest(s, row->seq);
    bool const fits = now_there != nullptr && pending(*now_there) && claimable(*now_there) <= at;
    bool const got = fits && try_lock(s, row->seq);
    gap = gap || (!got && !has_bug(planted_bug::run_with_a_hole));
    if (got && !gap) behind.push_back(*row);
  }
  return behind;
}

void stepwise_store::run(std::vector<row_view> const& behind, std::string const& key, claim_filter& filter,
                         std::vector<seq_t>& take) {
  for (auto const& row : behind) {
    auto seen = candidate_of(row, claimable(row));
    seen.key = key;
    if (row.blocked != true || filter.follow(seen) != choice::take) return;
    take.push_back(row.seq);
  }
}

void stepwise_store::take(session& s, claim_request const& r, std::vector<seq_t> const& chosen,
                          std::vector<seq_t> const& dead, claim_reply& reply) {
  for (auto const seq : dead) {
    auto row = *latest(s, seq);
    row.crashes += row.locked_by.empty() ? 0 : 1;
    row.status = event_status::dead;
    row.done_at = now();
    row.locked_by.clear();
    row.lease_until.reset();
    row.last_error = crash_budget_exhausted(row.crashes);
    reply.dead.push_back({row.event.id(), row.event.type(), row.crashes, {}});
    s.changed.insert_or_assign(seq, row);
  }
  for (auto const seq : chosen) {
    auto row = *latest(s, seq);
    if (!row.locked_by.empty()) row.crashes += 1;
    row.locked_by = r.token;
    row.lease_until = now() + r.lease;
    if (row.blocked) row.blocked = false;
    reply.rows.push_back(claim_of(row_view{row}, r.token, seq));
    s.changed.insert_or_assign(seq, row);
  }
}

std::vector<stepwise_store::noting> stepwise_store::to_note(rows const& seen, std::vector<seq_t> const& chosen) const {
  std::vector<noting> pairs;
  for (auto const seq : chosen) {
    auto const at = seen.find(seq);
    if (at == seen.end() || !pending(at->second) || at->second.blocked != false) continue;
    auto const key = key_of(at->second.event);
    std::optional<seq_t> before;
    for (auto const* const other : line(seen, key)) {
      bool const the_head = has_bug(planted_bug::note_with_the_heads_lock);
      if (other->seq < seq && (!the_head || !before)) before = other->seq;
    }
    if (before) pairs.push_back({seq, *before});
  }
  return pairs;
}

// Under the lock of the row before, which is still in line.
std::size_t stepwise_store::note(session& s, std::vector<noting> const& pairs) {
  std::size_t noted = 0;
  for (auto const& [seq, before] : pairs) {
    auto const* const ahead = latest(s, before);
    bool const unsafe = has_bug(planted_bug::note_without_the_lock);
    bool const stands = unsafe || (ahead != nullptr && in_line(*ahead) && try_lock(s, before));
    if (!stands) world_.note("note leaves a row whose predecessor is locked");
    if (!stands || !try_lock(s, seq)) continue;
    auto const* const row = latest(s, seq);
    if (row == nullptr || !pending(*row) || row->blocked != false || claimable(*row) > now()) continue;
    auto noted_row = *row;
    noted_row.blocked = true;
    s.changed.insert_or_assign(seq, noted_row);
    ++noted;
  }
  return noted;
}

stepwise_store::step stepwise_store::claim(client who, claim_request r, told<claim_reply> tell) {
  claim_reply reply;
  bool failed = false;
  try {
    std::vector<seq_t> chosen, dead, left;
    {
      session s{*this};
      claim_filter filter{r, reply};
      reply.now = now();
      auto const seen = view(s);
      for (auto const& [seq, row] : seen) {
        bool const later = claimable_some_day(row) && claimable(row) > reply.now;
        if (later && (!reply.next_due || claimable(row) < *reply.next_due)) reply.next_due = claimable(row);
      }
      co_await statement(s);
      auto const found = look(s, r, seen, reply.now);
      co_await statement(s);
      for (int i = 0; who.is_frozen() && i < 100; ++i) co_await pause{s, milliseconds{50}};
      if (who.is_gone()) throw error{errc::unavailable, "the client is gone"};
      std::vector<looked const*> heads;
      choose(found, filter, chosen, dead, left, heads);
      if (!heads.empty()) {
        auto const at = now();
        auto const behind = view(s);
        co_await statement(s);
        for (auto const* const head : heads) {
          auto seen_head = candidate_of(head->row, claimable(head->row));
          seen_head.key = head->key;
          seen_head.next_blocked = true;
          run(follow(s, behind, head->row, filter.room_behind(seen_head), at), head->key, filter, chosen);
        }
        co_await statement(s);
        if (who.is_gone()) throw error{errc::unavailable, "the client is gone"};
      }
      take(s, r, chosen, dead, reply);
      co_await statement(s);
      commit(s);
      oracle_.claimed(r, reply);
    }
    if (!left.empty()) {
      session s{*this};
      auto const pairs = to_note(view(s), left);
      co_await statement(s);
      reply.noted = note(s, pairs);
      co_await statement(s);
      commit(s);
      if (reply.noted > 0) world_.note("noted");
      if (reply.noted < left.size()) reply.look_again = milliseconds{20};
      oracle_.changed();
    }
  } catch (std::exception const&) {
    failed = true;
  }
  tell(failed ? std::nullopt : std::optional{std::move(reply)});
}

// The statements of a settlement.

bool stepwise_store::settle_one(session& s, seq_t seq, settlement const& item) {
  auto const* const there = latest(s, seq);
  if (there == nullptr || !pending(*there) || there->locked_by != item.row.token) return false;
  auto row = *there;
  memory::settle_row(row, item, now());
  s.changed.insert_or_assign(seq, row);
  return true;
}

// Of each key, the first blocked row behind the lowest that was settled, if no row in line stands between it and the
// settled row before it.
std::vector<stepwise_store::seq_t> stepwise_store::next_blocked(rows const& seen, settled_rows const& settled) const {
  std::vector<row_view const*> found;
  for (auto const& [key, seqs] : settled) {
    auto const in_order = line(seen, key);
    auto const waits = [&](row_view const* row) {
      return row->seq > *seqs.begin() && row->blocked == true && pending(*row);
    };
    auto const next = std::ranges::find_if(in_order, waits);
    if (next == in_order.end()) continue;
    auto const before = *std::prev(seqs.lower_bound((*next)->seq));
    bool const stands_behind = next != in_order.begin() && (*std::prev(next))->seq >= before;
    if (!stands_behind) found.push_back(*next);
  }
  std::ranges::sort(found, {}, [](row_view const* row) { return row->event.id(); });
  std::vector<seq_t> seqs;
  for (auto const* const row : found) seqs.push_back(row->seq);
  return seqs;
}

void stepwise_store::unblock(session& s, seq_t seq) {
  auto const* const there = latest(s, seq);
  if (there == nullptr || there->blocked != true || !pending(*there)) return;
  auto row = *there;
  row.blocked = false;
  row.available_at = std::max(row.available_at, now());
  s.changed.insert_or_assign(seq, row);
}

stepwise_store::step stepwise_store::settle(std::vector<settlement> items, told<spi::settle_reply> tell) {
  spi::settle_reply reply;
  reply.applied.assign(items.size(), false);
  std::set<std::string> keys;
  bool failed = false;
  try {
    session s{*this};
    std::map<std::string, std::size_t> by_id;  // own rows are locked by id
    auto const seen = view(s);
    for (std::size_t i = 0; i < items.size(); ++i) {
      auto const seq = seq_of(items[i].row.id);
      if (!seq || !pending(seen.at(*seq)) || seen.at(*seq).locked_by != items[i].row.token) continue;
      by_id.emplace(items[i].row.id, i);
      if (!items[i].key.empty()) keys.insert(items[i].key);
    }
    for (auto const& key : keys) {
      if (++leaving_[key] == 2) world_.note("two finishers of one key");
    }
    co_await statement(s);
    settled_rows settled;
    for (auto const& item : items) {
      if (!item.key.empty()) settled[item.key].insert(item.seq);
    }
    for (auto const& [id, i] : by_id) {
      auto const seq = seq_of(id);
      if (!seq) continue;
      co_await lock_of{s, *seq};
      reply.applied[i] = settle_one(s, *seq, items[i]);
    }
    co_await statement(s);
    auto const blocked = next_blocked(view(s), settled);  // a newer snapshot
    co_await statement(s);
    for (auto const seq : blocked) {
      co_await lock_of{s, seq};
      unblock(s, seq);
    }
    reply.unblocked = blocked.size();
    co_await statement(s);
    commit(s);
    oracle_.settled(items, reply);
  } catch (std::exception const&) {
    failed = true;
  }
  for (auto const& key : keys) leaving_[key] -= 1;
  tell(failed ? std::nullopt : std::optional{std::move(reply)});
}

stepwise_store::step stepwise_store::renew(std::vector<row_handle> handles, milliseconds lease,
                                           told<std::vector<bool>> tell) {
  std::vector<bool> kept(handles.size(), false);
  bool failed = false;
  try {
    session s{*this};
    auto const until = now() + lease;
    auto const seen = view(s);
    std::map<std::string, std::size_t> by_id;
    for (std::size_t i = 0; i < handles.size(); ++i) {
      auto const seq = seq_of(handles[i].id);
      if (seq && owns(seen.at(*seq), handles[i])) by_id.emplace(handles[i].id, i);
    }
    co_await statement(s);
    for (auto const& [id, i] : by_id) {
      auto const seq = seq_of(id);
      if (!seq) continue;
      co_await lock_of{s, *seq};
      auto const* const there = latest(s, *seq);
      kept[i] = there != nullptr && owns(*there, handles[i]);
      if (!kept[i]) continue;
      auto row = *there;
      row.lease_until = until;
      if (row.blocked) row.blocked = false;
      s.changed.insert_or_assign(*seq, row);
    }
    co_await statement(s);
    commit(s);
    oracle_.changed();
  } catch (std::exception const&) {
    failed = true;
  }
  tell(failed ? std::nullopt : std::optional{std::move(kept)});
}

stepwise_store::step stepwise_store::discard(std::string id, std::shared_ptr<void> /*while_open*/) {
  session s{*this};
  auto const seq = seq_of(id);
  if (!seq || !is_parking(s, *seq)) co_return;
  auto const key = key_of(latest(s, *seq)->event);
  if (++leaving_[key] == 2) world_.note("two finishers of one key");
  try {
    co_await statement(s);
    co_await lock_of{s, *seq};
    if (is_parking(s, *seq)) {
      auto row = *latest(s, *seq);
      row.blocked.reset();
      s.changed.insert_or_assign(*seq, row);
      co_await statement(s);
      auto const blocked = next_blocked(view(s), {{key, {*seq}}});
      co_await statement(s);
      for (auto const next : blocked) {
        co_await lock_of{s, next};
        unblock(s, next);
      }
      co_await pause{s, commit_length()};
      commit(s);
      oracle_.discarded(id, true);
    }
  } catch (std::exception const&) {  // NOLINT(bugprone-empty-catch): it had no effect, and the oracle remembers
  }
  leaving_[key] -= 1;
}

std::size_t stepwise_store::release(std::span<owner_token const> tokens) {
  auto const at = now();
  std::vector<row_view> released;
  for (auto const& [seq, row] : table_.rows()) {
    bool const ours = pending(row) && std::ranges::find(tokens, row.locked_by) != tokens.end();
    if (!ours || row.lease_until <= at || locks_.contains(seq)) continue;
    released.push_back(row);
  }
  for (auto& row : released) {
    row.locked_by.clear();
    row.lease_until.reset();
    table_.put(row);
  }
  return released.size();
}

}  // namespace outbox::sim
