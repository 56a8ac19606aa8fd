// The oracle: knows what was committed, sees what really happens to the table, and says when a rule is broken.
//
// It watches every operation that takes effect (behind the faults), so it judges by the table, not by what a node
// believes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <outbox/store.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <outbox/spi/forwarding_store.hpp>
#include "core/engine/engine.hpp"

namespace outbox::sim {

using namespace spi;

/// A rule was broken; the message begins with its number.
class violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What an event's listener will do, try by try; after the last, it succeeds.
enum class act { succeed, fail, fail_later, throw_up, defer, die, stall, crash };

struct fact {
  std::string id;
  bool committed = false;
  bool undone = false;  ///< Rolled back, or its savepoint was.
  instant committed_at{};
  std::vector<act> script;
  std::size_t next = 0;
  bool poison = false;         ///< Crashes its process every time.
  int epoch = 0;               ///< Grows when a second call becomes legal: a takeover or a timeout.
  bool running = false;        ///< A call of this epoch is under way in a live process.
  bool answered = false;       ///< A call of this epoch ended done or dead.
  std::size_t companions = 0;  ///< What else its last holder held beside it.
  bool purged = false;
  instant claimed_at{};   ///< The last time.
  instant replayed_at{};  ///< The last time.

  // In a world that keeps the order of keys.
  std::string key{};                ///< Empty: it has none.
  std::string runner{};             ///< The incarnation whose listener was called last.
  std::uint64_t call = 0;           ///< The number of that call.
  bool delivered = false;           ///< A listener of its present owner, in time, said done.
  std::set<std::string> lost_by{};  ///< Incarnations that lost its lease.
  std::set<owner_token> untold{};   ///< Lost leases of which their owners have not heard.
};

/// What the world did to one incarnation of a node.
struct life_story {
  bool ended = false;
  instant disturbed{};  ///< The last time a request of it failed (but a claim), or it was frozen or cut off.
  std::optional<instant> stopped{};  ///< Everything was finished, it said.
};

/// How often each thing happened over all seeds: a fault that never happens tests nothing.
using coverage = std::map<std::string, std::uint64_t>;

class oracle {
 public:
  oracle(std::shared_ptr<outbox::store> table, std::chrono::milliseconds lease, std::int32_t max_attempts,
         std::int32_t max_crashes, coverage& seen);

  // The world tells.
  fact& birth(std::string const& id, std::vector<act> script, bool poison);
  void committed(std::string const& id);
  void undone(std::string const& id);
  void disturbed(std::string const& incarnation, std::chrono::milliseconds length = {});
  void ended(std::string const& incarnation);
  void stopped(std::string const& incarnation);
  int listener_starts(core::ticket const& t);  ///< The epoch of the call.
  void listener_ends(std::string const& id, int epoch, bool final, bool done = false);
  void timed_out(std::string const& id, int epoch);
  void child_starts(core::ticket const& t, int epoch, std::string const& child);  ///< Of a fan_out.

  // The table tells, through `watched_store`.
  void claimed(claim_request const& r, claim_reply const& reply);
  void settled(std::span<settlement const> items, spi::settle_reply const& reply);
  void purged(purge_request const& r);
  void replayed(std::string const& id, bool done);
  void paused(std::string const& type);
  void resumed(std::string const& type);
  void changed();  ///< Something else happened to the table.
  void expect_order() noexcept { in_order_ = true; }

  // Of a world that keeps the order of keys: oracle_lines.cpp.
  void expect_keys(outbox::on_dead on_dead, std::set<std::string> keeps_order);
  void discarded(std::string const& id, bool done);
  void cancelled(std::string const& id);
  void placed(std::span<place const> places);
  void healed(std::size_t rows);
  void told_of_loss(row_handle const& row);  ///< By a reply that has reached its node.

  /// After every step of a node: I8, I13, and that no claim returned a held row.
  void check(core::engine const& e);
  /// After everything has healed: I1, I3, I13.
  void check_end();

  [[nodiscard]] fact& of(std::string const& id) { return facts_.at(id); }
  [[nodiscard]] std::vector<std::string> dead();    ///< What an operator may replay or discard.
  [[nodiscard]] bool waits(std::string const& id);  ///< In line, behind others, and nobody has it.
  [[nodiscard]] bool all_terminal();

  /// The first rule that was broken, or empty. Remembered, because a store's caller turns what is thrown into a reply.
  [[nodiscard]] std::string const& broken() const noexcept { return broken_; }
  [[nodiscard]] std::vector<std::string> pending();
  [[nodiscard]] std::string describe(std::string const& id);

 private:
  [[noreturn]] void broken(std::string const& rule, std::string const& id, std::string const& what);
  void new_epoch(fact& f);
  void check_order(core::ticket const& t, row_view const& row);

  // Rows in line, by key.
  template <class F>
  void for_each_before(row_view const& row, F&& f);  ///< Those in line before it, the nearest first.
  [[nodiscard]] bool in_line(row_view const& row);
  [[nodiscard]] bool is_parked(std::string const& id);
  [[nodiscard]] bool stands_before(std::string const& earlier, core::ticket const& t);
  void check_line(core::ticket const& t, row_view const& row);
  void check_claimed_lines(claim_reply const& reply);
  void check_settled_lines(std::span<settlement const> items, std::vector<bool> const& applied);
  void check_heads();
  void check_takeover(row_view const& before, instant now);
  void check_budget(row_view const& before);
  void refresh(std::string const& id, bool by_owner);
  void leave_line(std::string const& id);  ///< It may: an operator or `on_dead` says so.
  [[nodiscard]] static std::string incarnation_of(std::string const& token) { return token.substr(0, token.find('/')); }

  std::shared_ptr<outbox::store> table_;
  std::chrono::milliseconds lease_;
  std::int32_t max_attempts_;
  std::int32_t max_crashes_;
  coverage& seen_;
  std::map<std::string, fact> facts_;
  std::map<std::string, row_view> shadow_;  ///< The table after the last operation.
  std::map<std::string, life_story> lives_;
  std::set<std::string> tokens_;
  std::map<std::string, instant> paused_;   ///< Since when.
  std::map<std::string, instant> resumed_;  ///< The last time.
  std::uint64_t calls_ = 0;
  bool in_order_ = false;
  bool keyed_ = false;
  outbox::on_dead on_dead_ = outbox::on_dead::park;
  std::set<std::string> keeps_order_;                                ///< Event types whose listener does.
  std::map<std::string, std::map<std::int64_t, std::string>> keys_;  ///< The committed events of each key.
  std::map<std::string, std::uint64_t> chains_broken_;               ///< By incarnation.
  std::string broken_;
};

/// Lasts as long as its session, which the server may end while the node lives.
class watched_lock final : public dispatch_lock {
 public:
  using session = std::unique_ptr<dispatch_lock>;

  watched_lock(std::shared_ptr<session> s, oracle& o) : session_{std::move(s)}, oracle_{o} {}
  ~watched_lock() override { session_->reset(); }
  bool held() const noexcept override { return *session_ != nullptr && (*session_)->held(); }
  bool renew() override { return *session_ != nullptr && (*session_)->renew(); }
  std::size_t expire_others() override {
    if (*session_ == nullptr) throw error{errc::unavailable, "the session was ended"};
    auto const n = (*session_)->expire_others();
    oracle_.changed();
    return n;
  }

 private:
  std::shared_ptr<session> session_;
  oracle& oracle_;
};

/// Between the faults and the table.
class watched_store final : public forwarding_store {
 public:
  watched_store(std::shared_ptr<outbox::store> to, oracle& o) : forwarding_store{std::move(to)}, oracle_{o} {}

  claim_reply claim(claim_request const& r) override {
    auto reply = behind().claim(r);
    oracle_.claimed(r, reply);
    return reply;
  }
  settle_reply settle(std::span<settlement const> items) override {
    auto reply = behind().settle(items);
    oracle_.settled(items, reply);
    return reply;
  }
  std::vector<place> places(std::span<std::string const> ids) override {
    auto all = behind().places(ids);
    oracle_.placed(all);
    return all;
  }
  std::size_t heal(std::size_t limit) override {
    auto const n = behind().heal(limit);
    oracle_.healed(n);
    return n;
  }
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override {
    auto kept = behind().renew(rows, lease);
    oracle_.changed();
    return kept;
  }
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override {
    auto const n = release_ ? release_(tokens) : behind().release(tokens, lease);
    oracle_.changed();
    return n;
  }
  using forwarding_store::purge;
  std::size_t purge(purge_request const& r) override {
    auto const n = behind().purge(r);
    oracle_.purged(r);
    return n;
  }
  std::size_t replay(event_filter const& filter, std::size_t limit) override {
    auto const done = behind().replay(filter, limit);
    oracle_.replayed(filter.ids.at(0), done > 0);
    return done;
  }
  bool pause(route_pause const& p) override {
    auto const changed = behind().pause(p);
    if (changed) oracle_.paused(p.event_type);
    return changed;
  }
  bool resume(route_pause const& p) override {
    auto const changed = behind().resume(p);
    if (changed) oracle_.resumed(p.event_type);
    return changed;
  }
  std::size_t cancel(event_filter const& filter, std::string_view reason, std::size_t limit) override {
    auto const done = behind().cancel(filter, reason, limit);
    if (done > 0) oracle_.cancelled(filter.ids.at(0));
    return done;
  }
  std::size_t discard(event_filter const& filter, std::size_t limit) override {
    auto const done = behind().discard(filter, limit);
    oracle_.discarded(filter.ids.at(0), done > 0);
    return done;
  }
  using forwarding_store::insert;
  void insert(transaction_ref tx, std::span<insertion const> rows,
              std::shared_ptr<insert_receipt> const& receipt) override {
    behind().insert(tx, rows, receipt);
    if (!receipt || !receipt_is_lost_ || !receipt_is_lost_()) return;
    for (auto& each : receipt->rows) each = {.known = false};
  }
  void lose_receipts(std::function<bool()> lost) { receipt_is_lost_ = std::move(lost); }
  void release_with(std::function<std::size_t(std::span<owner_token const>)> f) { release_ = std::move(f); }
  std::unique_ptr<dispatch_lock> try_dispatch_lock(std::string_view incarnation,
                                                   std::chrono::milliseconds lease) override {
    auto lock = behind().try_dispatch_lock(incarnation, lease);
    if (!lock) return nullptr;
    session_ = std::make_shared<watched_lock::session>(std::move(lock));
    return std::make_unique<watched_lock>(session_, oracle_);
  }

  /// Ends the session that holds the dispatch lock; false if none does.
  bool end_session() {
    if (!session_ || *session_ == nullptr) return false;
    session_->reset();
    return true;
  }

 private:
  oracle& oracle_;
  std::function<bool()> receipt_is_lost_{};
  std::function<std::size_t(std::span<owner_token const>)> release_{};
  std::shared_ptr<watched_lock::session> session_;  ///< The last one.
};

}  // namespace outbox::sim
