#include "memory/database.hpp"

#include <algorithm>
#include <outbox/error.hpp>

#include <outbox/spi/claim_filter.hpp>
#include <outbox/spi/codecs.hpp>
#include "core/base/planted.hpp"
#include "memory/rows.hpp"

namespace outbox::inline v0::memory {
namespace {

using core::has_bug;
using core::planted_bug;
using std::chrono::milliseconds;

bool of_incarnation(std::string_view token, std::string_view incarnation) noexcept {
  return token.starts_with(incarnation) && token.size() > incarnation.size() && token[incarnation.size()] == '/';
}

bool is_over(lock_state const& s, clock const& c) { return s.until && *s.until <= c.now(); }

// A lock may outlive its store, so they share the state.
class held_lock final : public spi::dispatch_lock {
 public:
  held_lock(std::shared_ptr<lock_state> state, std::shared_ptr<clock const> c, std::weak_ptr<database> of,
            std::string_view incarnation, milliseconds lease)
      : state_{std::move(state)},
        clock_{std::move(c)},
        of_{std::move(of)},
        incarnation_{incarnation},
        lease_{lease},
        fence_{state_->fence} {}
  ~held_lock() override {
    std::lock_guard const lock{state_->mutex};
    if (state_->fence == fence_) state_->taken = false;
  }
  bool held() const noexcept override {
    std::lock_guard const lock{state_->mutex};
    return is_ours();
  }
  bool renew() override {
    std::lock_guard const lock{state_->mutex};
    if (!is_ours()) return false;
    if (state_->until) state_->until = clock_->now() + lease_;
    return true;
  }
  std::size_t expire_others() override {
    std::lock_guard const lock{state_->mutex};
    auto const table = of_.lock();
    if (!table || !is_ours()) throw error{errc::unavailable, "the dispatch lock was lost"};
    return table->expire_others(incarnation_);
  }

 private:
  [[nodiscard]] bool is_ours() const { return state_->fence == fence_ && !is_over(*state_, *clock_); }

  std::shared_ptr<lock_state> state_;
  std::shared_ptr<clock const> clock_;
  std::weak_ptr<database> of_;
  std::string incarnation_;
  milliseconds lease_;
  std::uint64_t fence_;
};

}  // namespace

std::shared_ptr<store> open(options o) { return std::make_shared<database>(std::move(o)); }

database::database(options o) : options_{std::move(o)} {
  if (!options_.clock) options_.clock = machine_clock();
}

store_capabilities database::capabilities() const noexcept {
  return {.kind = "memory",
          .requires_transaction = options_.requires_transaction,
          .keeps_done_rows = options_.done_rows == done_rows::keep,
          .table = "the store in memory",
          .dispatch_lock = options_.dispatch_lock,
          .no_lock_reason = options_.dispatch_lock == lock_kind::none ? "its options say so" : "",
          .event_filters = true,
          .audit = true,
          .event_types = true,
          .keys = true,
          .findings = true,
          .overview = true,
          .waiting_types = true};
}

instant database::now() { return options_.clock->now(); }

commit_fate database::next_fate() { return options_.at_commit ? options_.at_commit() : commit_fate::ok; }

// Without a transaction: committed as a transaction with only these rows would be.
void database::insert_at_once(std::span<spi::insertion const> rows, spi::insert_receipt* receipt) {
  if (options_.requires_transaction) {
    throw error{errc::no_transaction, "this memory store takes events only in a transaction: its options say so"};
  }
  auto const fate = next_fate();
  if (fate == commit_fate::refused) throw error{errc::store_failure, "the write was refused"};
  if (fate != commit_fate::lost_undone) {
    auto const fresh = [&] {
      std::lock_guard const lock{mutex_};
      auto made = new_rows(rows, [](std::string const&) { return false; });
      fill(receipt, made, {});
      return made;
    }();
    apply(fresh);
  }
  if (fate != commit_fate::ok) throw error{errc::commit_in_doubt, "the connection was lost during the write"};
}

void database::insert(transaction_ref tx, std::span<spi::insertion const> rows,
                      std::shared_ptr<spi::insert_receipt> const& receipt) {
  if (tx.none()) return insert_at_once(rows, receipt.get());
  auto const refuse = [](char const* why) { throw error{errc::wrong_transaction, why}; };
  if (tx.kind() != "memory") refuse("a memory store needs a memory transaction");
  bool const joined = tx.run<transaction>([&](transaction& t) {
    if (&transaction_access::owner(t) != this) refuse("the transaction belongs to another memory store");
    insert_into(t, rows, receipt.get());
  });
  if (!joined) refuse("this transaction gives its store nothing to work on");
}

void database::insert_into(transaction& joined, std::span<spi::insertion const> rows, spi::insert_receipt* receipt) {
  transaction_access::wrote(joined);
  std::lock_guard const lock{mutex_};
  auto fresh = new_rows(rows, [&](std::string const& id) { return transaction_access::has(joined, id); });
  fill(receipt, fresh, transaction_access::rows(joined));
  for (auto& row : fresh) transaction_access::add(joined, std::move(row));
}

// Under the lock. `taken`: an id that is not in the table is taken nevertheless.
std::vector<row_view> database::new_rows(std::span<spi::insertion const> rows,
                                         std::function<bool(std::string const& id)> const& taken) {
  auto const at = now();
  std::vector<row_view> fresh;
  for (auto const& r : rows) {
    auto const& e = *r.event;
    auto const same = [&](row_view const& other) { return other.event.id() == e.id(); };
    if (by_id_.contains(e.id()) || taken(e.id()) || std::ranges::any_of(fresh, same)) {
      throw error{errc::duplicate_event, "event id '" + e.id() + "' is in the table already"};
    }
    row_view row{.event = e, .seq = ++last_seq_, .available_at = at, .inserted_at = at};
    auto const due = spi::due_of(e);
    row.available_at = due.at.value_or(at + due.after);
    if (e.delayed()) row.blocked.reset();
    if (!r.token.empty()) {
      row.locked_by = r.token;
      row.lease_until = at + r.lease;
    }
    fresh.push_back(std::move(row));
  }
  return fresh;
}

void database::fill(spi::insert_receipt* receipt, std::span<row_view const> fresh,
                    std::span<row_view const> written) const {
  if (receipt == nullptr) return;
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    receipt->rows.push_back({fresh[i].seq, before(fresh, i, written, receipt->finished)});
  }
}

// The id of the row before `fresh[at]`: in the same call, else in the transaction, else in the table, where the caller
// knows that no row up to `finished` is in line.
std::string database::before(std::span<row_view const> fresh, std::size_t at, std::span<row_view const> written,
                             std::int64_t finished) const {
  auto const key = spi::key_of(fresh[at].event);
  if (key.empty() || !in_line(fresh[at])) return {};
  auto const precedes = [&](row_view const& r) {
    return r.seq < fresh[at].seq && in_line(r) && spi::key_of(r.event) == key;
  };
  for (std::size_t i = at; i-- > 0;) {
    if (precedes(fresh[i])) return fresh[i].event.id();
  }
  for (std::size_t i = written.size(); i-- > 0;) {
    if (precedes(written[i])) return written[i].event.id();
  }
  auto const before = around(fresh[at]).before;
  if (before != nullptr && before->seq > finished) return before->event.id();
  return {};
}

void database::apply(std::vector<row_view> const& rows) {
  {
    std::lock_guard const lock{mutex_};
    add(rows);
  }
  // Rows with an owner are delivered by it.
  if (std::ranges::any_of(rows, [](row_view const& r) { return r.locked_by.empty(); })) changes_.notify();
}

void database::add(std::vector<row_view> const& rows) {
  for (auto const& r : rows) {
    if (by_id_.contains(r.event.id())) {
      throw error{errc::duplicate_event, "event id '" + r.event.id() + "' is in the table already"};
    }
  }
  for (auto const& r : rows) {
    by_id_.emplace(r.event.id(), r.seq);
    enter_indexes(rows_.emplace(r.seq, r).first->second);
  }
}

// Keeps the indexes in step with the row, whatever changes.
void database::update(row_view& row, std::function<void(row_view&)> const& change) {
  leave_indexes(row);
  change(row);
  enter_indexes(row);
}

void database::enter_indexes(row_view const& row) {
  if (claimable_some_day(row)) due_.emplace(claimable(row), row.seq);
  if (!in_line(row)) return;
  if (auto key = spi::key_of(row.event); !key.empty()) lines_[std::move(key)].insert(row.seq);
}

void database::leave_indexes(row_view const& row) {
  if (claimable_some_day(row)) due_.erase({claimable(row), row.seq});
  if (!in_line(row)) return;
  auto const line = lines_.find(spi::key_of(row.event));
  if (line == lines_.end()) return;
  line->second.erase(row.seq);
  if (line->second.empty()) lines_.erase(line);
}

database::neighbours database::around(row_view const& row) const {
  if (!in_line(row)) return {};
  neighbours n{.key = spi::key_of(row.event)};
  auto const line = lines_.find(n.key);
  if (line == lines_.end()) return n;
  auto const at = line->second.lower_bound(row.seq);
  if (at != line->second.begin()) n.before = &rows_.at(*std::prev(at));
  if (auto const next = line->second.upper_bound(row.seq); next != line->second.end()) n.next = &rows_.at(*next);
  return n;
}

void database::erase(std::int64_t seq) {
  auto const it = rows_.find(seq);
  leave_indexes(it->second);
  by_id_.erase(it->second.event.id());
  rows_.erase(it);
}

database::candidates database::choose(spi::claim_request const& request, instant now, spi::claim_reply& reply) const {
  using choice = spi::claim_filter::choice;
  candidates c;
  spi::claim_filter filter{request, reply};
  auto const goes_on = [&](row_view const& row) {
    auto seen = spi::candidate_of(row, claimable(row));
    auto const beside = request.keyed ? around(row) : neighbours{};
    seen.key = beside.key;
    if (beside.before != nullptr) seen.before = beside.before->event.id();
    seen.next_blocked = beside.next != nullptr && beside.next->blocked == true;
    auto const chosen = filter.consider(seen);
    if (chosen == choice::dead) c.dead.push_back(row.seq);
    if (chosen == choice::note) c.note.push_back(row.seq);
    if (chosen == choice::take) {
      c.take.push_back(row.seq);
      if (auto const room = filter.room_behind(seen); room > 0) follow(row, room, filter, c);
    }
    return chosen != choice::stop;
  };
  if (request.in_order) {
    for (auto const& [seq, row] : rows_) {
      if (claimable_some_day(row) && !goes_on(row)) break;
    }
    return c;
  }
  auto const floor = request.floor ? request.floor : request.reach ? std::optional{now - *request.reach} : std::nullopt;
  auto const first = floor ? due_.lower_bound({*floor, 0}) : due_.begin();
  for (auto it = first; it != due_.end() && it->first <= now; ++it) {
    if (!goes_on(rows_.at(it->second))) break;
  }
  if (has_bug(planted_bug::claim_takes_own_live_lease)) {
    auto const incarnation = std::string_view{request.token}.substr(0, request.token.find('/'));
    for (auto const& [instant, seq] : due_) {
      if (c.take.size() < request.limit && of_incarnation(rows_.at(seq).locked_by, incarnation) && instant > now) {
        c.take.push_back(seq);
      }
    }
  }
  return c;
}

// The run of `head`: the rows behind it that wait for it, without a gap.
void database::follow(row_view const& head, std::size_t room, spi::claim_filter& filter, candidates& c) const {
  auto const key = spi::key_of(head.event);
  auto const& line = lines_.at(key);
  for (auto at = line.upper_bound(head.seq); at != line.end() && room > 0; ++at, --room) {
    auto const& row = rows_.at(*at);
    if (!pending(row) || row.blocked != true) return;
    auto seen = spi::candidate_of(row, claimable(row));
    seen.key = key;
    if (filter.follow(seen) != spi::claim_filter::choice::take) {
      if (has_bug(planted_bug::run_with_a_hole)) continue;
      return;
    }
    c.take.push_back(row.seq);
  }
}

// Under the same lock as the look, so the row before each of them is still in line. A row of another program that was
// written with a delay would hold up its key until it is due: it is put outside the order instead.
void database::note(std::vector<std::int64_t> const& rows, instant now, spi::claim_reply& reply) {
  if (!settings_.keyed) return;  // the caller has not heard of that yet, and no node would clear the note
  for (auto const seq : rows) {
    auto& row = rows_.at(seq);
    auto const* const before = around(row).before;
    if (before == nullptr) continue;
    if (delayed_by_writer(*before, now)) {
      update(rows_.at(before->seq), [](row_view& r) { r.blocked.reset(); });
      reply.more = true;
      continue;
    }
    update(row, [](row_view& r) { r.blocked = true; });
    reply.noted += 1;
  }
}

spi::claim_reply database::claim(spi::claim_request const& request) {
  std::lock_guard const lock{mutex_};
  spi::claim_reply reply;
  auto const at = now();
  reply.now = at;
  auto const chosen = choose(request, at, reply);
  if (auto const next = next_due(at, request); next && (!reply.next_due || *next < *reply.next_due)) {
    reply.next_due = next;
  }
  for (auto const seq : chosen.dead) {
    update(rows_.at(seq), [&](row_view& r) {
      r.crashes += r.locked_by.empty() ? 0 : 1;
      r.status = event_status::dead;
      r.done_at = at;
      r.locked_by.clear();
      r.lease_until.reset();
      r.last_error = spi::crash_budget_exhausted(r.crashes);
      reply.dead.push_back({r.event.id(), r.event.type(), r.crashes});
    });
  }
  for (auto const seq : chosen.take) {
    update(rows_.at(seq), [&](row_view& r) {
      if (!r.locked_by.empty()) r.crashes += 1;
      r.locked_by = request.token;
      r.lease_until = at + request.lease;
      if (r.blocked) r.blocked = false;
      reply.rows.push_back(spi::claim_of(row_view{r}, request.token, r.seq));
    });
  }
  note(chosen.note, at, reply);
  return reply;
}

// When the next row can be claimed: the first instant after now, or the end of `skip_recent` for one that is due
// already.
std::optional<instant> database::next_due(instant now, spi::claim_request const& request) const {
  auto const left = [&](auto const& entry) {
    auto const& e = rows_.at(entry.second).event;
    return paused(request.pauses, e.aggregate_type(), e.type());
  };
  auto const later = due_.upper_bound({now, INT64_MAX});
  std::optional<instant> next;
  if (auto const first = std::find_if_not(later, due_.end(), left); first != due_.end()) next = first->first;
  if (request.skip_recent.count() == 0) return next;
  for (auto it = due_.begin(); it != later; ++it) {
    auto const grown = rows_.at(it->second).inserted_at + request.skip_recent;
    if (grown > now && (!next || grown < *next) && !left(*it)) next = grown;
  }
  return next;
}

row_view* database::owned(spi::row_handle const& handle) {
  auto const seq = by_id_.find(handle.id);
  if (seq == by_id_.end()) return nullptr;
  auto& row = rows_.at(seq->second);
  return pending(row) && row.locked_by == handle.token ? &row : nullptr;
}

spi::settle_reply database::settle(std::span<spi::settlement const> items) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  spi::settle_reply reply;
  reply.applied.reserve(items.size());
  std::map<std::string, std::int64_t> left;  // the lowest of each key
  for (auto const& s : items) {
    row_view* row = owned(s.row);
    if (has_bug(planted_bug::settle_without_token) && by_id_.contains(s.row.id)) row = &rows_.at(by_id_.at(s.row.id));
    reply.applied.push_back(row != nullptr);
    if (row == nullptr) continue;
    apply(*row, s, at);
    if (s.key.empty()) continue;
    auto const [lowest, first] = left.emplace(s.key, s.seq);
    if (!first) lowest->second = std::min(lowest->second, s.seq);
  }
  for (auto const& [key, seq] : left) reply.unblocked += unblock_next(key, seq, at);
  return reply;
}

// The first row in line behind `seq`, if it is blocked.
std::size_t database::unblock_next(std::string const& key, std::int64_t seq, instant now) {
  auto const line = lines_.find(key);
  if (line == lines_.end()) return 0;
  auto const next = line->second.upper_bound(seq);
  if (next == line->second.end()) return 0;
  auto& row = rows_.at(*next);
  if (row.blocked != true || !pending(row)) return 0;
  unblock(row, now);
  return 1;
}

void database::unblock(row_view& row, instant now) {
  update(row, [&](row_view& r) {
    r.blocked = false;
    r.available_at = std::max(r.available_at, now);
  });
}

void database::apply(row_view& row, spi::settlement const& s, instant now) {
  update(row, [&](row_view& r) { settle_row(r, s, now); });
  if (s.outcome == spi::outcome::delivered && options_.done_rows == done_rows::erase) erase(row.seq);
}

std::vector<bool> database::renew(std::span<spi::row_handle const> rows, milliseconds lease) {
  std::lock_guard const lock{mutex_};
  auto const until = now() + lease;
  std::vector<bool> kept;
  kept.reserve(rows.size());
  for (auto const& handle : rows) {
    row_view* const row = owned(handle);
    kept.push_back(row != nullptr);
    if (row == nullptr) continue;
    update(*row, [&](row_view& r) {
      r.lease_until = until;
      if (r.blocked) r.blocked = false;
    });
  }
  return kept;
}

std::vector<spi::place> database::places(std::span<std::string const> ids) {
  std::lock_guard const lock{mutex_};
  std::vector<spi::place> all;
  for (auto const& id : ids) {
    auto const seq = by_id_.find(id);
    auto& told = all.emplace_back();
    told.known = seq != by_id_.end();
    if (!told.known) continue;
    told.seq = seq->second;
    if (auto const* const before = around(rows_.at(seq->second)).before) told.before = before->event.id();
  }
  return all;
}

std::size_t database::release(std::span<owner_token const> tokens, milliseconds /*lease*/) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  std::size_t released = 0;
  for (auto& [seq, row] : rows_) {
    if (!pending(row) || row.lease_until <= at || std::ranges::find(tokens, row.locked_by) == tokens.end()) continue;
    update(row, [](row_view& r) {
      r.locked_by.clear();
      r.lease_until.reset();
    });
    ++released;
  }
  return released;
}

std::size_t database::expire_others(std::string_view incarnation) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  std::size_t expired = 0;
  for (auto& [seq, row] : rows_) {
    if (!pending(row) || row.locked_by.empty() || of_incarnation(row.locked_by, incarnation)) continue;
    if (row.lease_until && *row.lease_until <= at) continue;
    update(row, [&](row_view& r) { r.lease_until = at; });
    ++expired;
  }
  return expired;
}

std::unique_ptr<spi::dispatch_lock> database::try_dispatch_lock(std::string_view incarnation, milliseconds lease) {
  if (options_.dispatch_lock == lock_kind::none) {
    throw error{errc::unsupported, "this memory store has no dispatch lock: its options say so"};
  }
  std::lock_guard const lock{lock_->mutex};
  if (lock_->taken && !is_over(*lock_, *options_.clock)) return nullptr;
  lock_->taken = true;
  lock_->fence += 1;
  lock_->until.reset();
  if (options_.dispatch_lock == lock_kind::lease) lock_->until = now() + lease;
  return std::make_unique<held_lock>(lock_, options_.clock, weak_from_this(), incarnation, lease);
}

void database::heartbeat(node_row const& node) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  auto& [known, until] = nodes_[node.incarnation];
  auto const started_at = known.started_at.value_or(at);
  known = node;
  known.started_at = started_at;
  until = at + node.lease;
  std::erase_if(nodes_, [&](auto const& n) { return n.second.second + std::chrono::hours{24} < at; });
}

void database::retire(std::string_view incarnation) {
  std::lock_guard const lock{mutex_};
  if (auto const it = nodes_.find(incarnation); it != nodes_.end()) nodes_.erase(it);
}

std::vector<node_row> database::nodes() {
  std::lock_guard const lock{mutex_};
  std::vector<node_row> live;
  for (auto const& [incarnation, node] : nodes_) {
    if (node.second > now()) live.push_back(node.first);
  }
  return live;
}

std::size_t database::purge(spi::purge_request const& request) {
  std::lock_guard const lock{mutex_};
  auto const before = now() - request.retention;
  std::vector<std::int64_t> old;
  for (auto const& [seq, row] : rows_) {
    if (old.size() >= request.limit) break;
    if (has_bug(planted_bug::purge_without_status) && row.inserted_at <= before) {
      old.push_back(seq);
      continue;
    }
    bool const wanted =
        (row.status == event_status::delivered && request.done) || (row.status == event_status::dead && request.dead);
    if (wanted && !parks(row) && row.done_at.value_or(row.inserted_at) <= before) old.push_back(seq);
  }
  for (auto const seq : old) erase(seq);
  return old.size();
}

// Such a row stays for the operator to decide: without it, the rows behind it would be delivered.
bool database::parks(row_view const& row) const {
  return settings_.keyed && row.status == event_status::dead && row.blocked && !spi::key_of(row.event).empty();
}

std::size_t database::purge_by_age(spi::age_purge_request const& request) {
  std::lock_guard const lock{mutex_};
  auto const at = now();
  for (auto const& [incarnation, node] : nodes_) {
    if (node.first.mode != node_mode::writer_only && node.second > at) return 0;
  }
  std::vector<std::int64_t> old;
  for (auto const& [seq, row] : rows_) {
    if (old.size() >= request.limit) break;
    if (row.inserted_at <= at - request.age) old.push_back(seq);
  }
  for (auto const seq : old) erase(seq);
  return old.size();
}

std::optional<row_view> database::find(std::string_view id) {
  std::lock_guard const lock{mutex_};
  auto const seq = by_id_.find(std::string{id});
  return seq == by_id_.end() ? std::nullopt : std::optional{rows_.at(seq->second)};
}

void database::count(table_counts& c, event_status status) noexcept {
  switch (status) {
    case event_status::created: ++c.created; break;
    case event_status::retry: ++c.retry; break;
    case event_status::delivered: ++c.done; break;
    case event_status::dead: ++c.dead; break;
  }
}

table_counts database::counts() {
  std::lock_guard const lock{mutex_};
  table_counts c;
  for (auto const& [seq, row] : rows_) count(c, row.status);
  return c;
}

}  // namespace outbox::inline v0::memory
