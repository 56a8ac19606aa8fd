// Writing: birth, INSERT, and what happens when the transaction ends.
#include <unistd.h>

#include <outbox/error.hpp>
#include <outbox/hooks.hpp>
#include <outbox/node.hpp>

#include "core/node/node_core.hpp"

namespace outbox::inline v0 {
namespace core {
namespace {

// Runs a hook of the application. An exception goes to the log, which the node's threads write.
template <class F>
void guarded(std::weak_ptr<node_core> const& weak, F&& hook) noexcept {
  try {
    auto const say = [&](std::string text, log_facts facts) {
      if (auto const core = weak.lock()) {
        core->with_engine_quietly([&](engine& g) { g.remark(log_level::warning, std::move(text), std::move(facts)); });
      }
    };
    try {
      hook();
    } catch (std::exception const& e) {
      say(std::string{"a writer hook failed: "} + e.what(), {{"error", e.what()}});
    } catch (...) {
      say("a writer hook threw something that is not an exception", {});
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): not even the log could be told
  }
}

// Stands between the caller's transaction and the engine. It may outlive the node: then it only tells the hook. It runs
// on the caller's thread and touches the engine's state under the engine's lock only, which `end` takes.
class birth_observer final : public transaction_observer {
  static constexpr std::size_t not_owned = SIZE_MAX;

 public:
  birth_observer(std::weak_ptr<node_core> core, engine::registration const& r, std::shared_ptr<writer_hook> hook,
                 std::span<event const> events)
      : core_{std::move(core)}, birth_{r.birth}, wake_{r.wake}, due_in_{r.due_in}, hook_{std::move(hook)} {
    if (birth_) absent_.assign(birth_->tickets.size(), false);  // not later: after COMMIT nothing is allocated
    if (!hook_) return;
    // The hook hears of every event; the engine only needs those that it owns.
    events_.assign(events.begin(), events.end());
    owned_.assign(events.size(), not_owned);
    for (std::size_t i = 0, next = 0; i < events.size(); ++i) {
      if (r.owned[i]) owned_[i] = next++;
    }
    gone_.assign(events.size(), false);
  }

  std::size_t size() const noexcept override { return hook_ ? events_.size() : birth_ ? birth_->tickets.size() : 0; }
  std::string const& event_id(std::size_t i) const noexcept override {
    return hook_ ? events_[i].id() : birth_->tickets[i]->event.id();
  }
  std::string const& token(std::size_t i) const noexcept override {
    static std::string const none;
    return !hook_ || owned_[i] != not_owned ? birth_->token : none;
  }
  void absent(std::size_t i) noexcept override {
    if (!hook_) {
      absent_[i] = true;
      return;
    }
    gone_[i] = true;
    if (owned_[i] != not_owned) absent_[owned_[i]] = true;
  }

  void committed() noexcept override {
    end([&](engine& e, steady_time now) {
      if (birth_) e.committed(*birth_, absent_, now);
      if (wake_) e.wake();
      if (due_in_) e.wake(now + *due_in_);
      if (wake_ || due_in_) e.hint();
    });
    tell([&](writer_hook& h) {
      std::size_t kept = 0;
      for (std::size_t i = 0; i < events_.size(); ++i) {
        if (!gone_[i]) std::swap(events_[kept++], events_[i]);
      }
      h.after_commit(std::span{events_}.first(kept));
    });
  }
  void rolled_back() noexcept override {
    end([&](engine& e, steady_time) {
      if (birth_) e.rolled_back(*birth_);
    });
    tell([&](writer_hook& h) { h.after_rollback(events_); });
  }
  void committed_in_part() noexcept override { leave_to_poller(&engine::committed_in_part); }
  void in_doubt() noexcept override { leave_to_poller(&engine::in_doubt); }

  /// The write failed: its end concerns neither the engine nor the hook.
  void disarm() noexcept {
    hook_.reset();
    birth_.reset();
    wake_ = false;
    due_in_.reset();
  }

 private:
  template <class F>
  void end(F&& f) noexcept {
    if (auto const core = core_.lock()) core->with_engine_quietly([&](engine& e) { f(e, core->now()); });
  }

  void leave_to_poller(void (engine::*how)(birth&, steady_time) noexcept) noexcept {
    end([&](engine& e, steady_time now) {
      if (birth_) (e.*how)(*birth_, now);
      e.wake();
      e.hint();
    });
  }

  template <class F>
  void tell(F&& f) noexcept {
    if (hook_) guarded(core_, [&] { f(*hook_); });
    hook_.reset();
    birth_.reset();
  }

  std::weak_ptr<node_core> core_;
  std::shared_ptr<birth> birth_;
  bool wake_;
  std::optional<milliseconds> due_in_;
  std::shared_ptr<writer_hook> hook_;
  std::vector<bool> absent_;        ///< One per ticket of the birth: its row is gone.
  std::vector<event> events_;       ///< With a hook only, like the rest.
  std::vector<std::size_t> owned_;  ///< One per event: its ticket in the birth, or `not_owned`.
  std::vector<bool> gone_;          ///< One per event: its row is gone.
};

std::vector<insertion> insertions_of(std::span<event const> events, engine::registration const& r, milliseconds lease) {
  std::vector<insertion> rows(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    rows[i].event = &events[i];
    if (!r.owned[i]) continue;
    rows[i].token = r.birth->token;
    rows[i].lease = lease;
  }
  return rows;
}

void check_transaction(transaction_ref tx, store_capabilities const& can) {
  auto const kind = "'" + std::string{can.kind} + "'";
  if (tx.none()) {
    if (!can.requires_transaction) return;
    throw error{errc::no_transaction, "a store of kind " + kind +
                                          " writes events in a transaction of the caller: pass that transaction to "
                                          "write() instead of outbox::no_transaction"};
  }
  if (!tx.active()) {
    throw error{errc::no_transaction, "write() needs an active transaction: begin one, and write before its commit"};
  }
  if (tx.kind() != can.kind) {
    throw error{errc::wrong_transaction,
                "the transaction is of kind '" + std::string{tx.kind()} + "', the store of kind " + kind};
  }
}

// Gives a UUID to events whose id the library made, for a table that holds UUIDs.
std::vector<event> with_uuids(std::span<event const> events) {
  std::vector<event> changed;
  for (auto const& e : events) {
    if (!e.record().made_id) {
      changed.push_back(e);
      continue;
    }
    auto r = e.record();
    r.id = new_uuid();
    r.made_id = false;  // a hook has seen it
    changed.push_back(event::restore(std::move(r)));
  }
  return changed;
}

// After this, rows that were sent without a transaction may be in the store: the answer was lost.
bool leaves_in_doubt(error const& e) noexcept { return e.transient() || e.in_doubt(); }

}  // namespace

std::vector<event_id> node_core::write(transaction_ref tx, std::span<event const> events) {
  check_transaction(tx, store().capabilities());
  std::vector<event> changed;
  bool const uuids = store().capabilities().uuid_ids;
  if (uuids) events = changed = with_uuids(events);
  if (settings_.hook && !events.empty()) {
    changed = settings_.hook->before_write({events.begin(), events.end()});
    if (uuids) changed = with_uuids(changed);
    events = changed;
  }
  for (auto const& e : events) check_limits(e, settings_.limits);
  if (events.empty()) return {};

  // A forked child has none of the node's threads, and the parent's threads may have held the engine's lock when it was
  // forked: the child leaves the engine alone, and its rows to a poller.
  bool const forked = ::getpid() != process_;
  auto const self = forked ? std::weak_ptr<node_core>{} : weak_from_this();
  engine::registration r;
  if (forked) {
    r.owned.assign(events.size(), false);
  } else {
    r = with_engine_quietly([&](engine& e) { return e.register_births(events, now()); });
  }
  std::vector<event_id> ids;  // made now: nothing is allocated once rows may be in the store
  std::shared_ptr<birth_observer> observer;
  bool sent = false;
  auto const give_up = [&](bool in_doubt) {
    if (tx.none() && sent && in_doubt) return observer->in_doubt();
    if (r.birth) with_engine_quietly([&](engine& e) { e.cancel(*r.birth); });
    if (observer) observer->disarm();
  };
  try {
    // The observer is enlisted before the INSERT: if memory runs out, it does so while nothing is written.
    ids.reserve(events.size());
    for (auto const& e : events) ids.emplace_back(e.id());
    observer = std::make_shared<birth_observer>(self, r, settings_.hook, events);
    bool const reports = tx.none() || tx.enlist(observer);
    if (!reports && r.birth) {
      with_engine_quietly([&](engine& e) { e.cancel(*r.birth); });
      r.owned.assign(events.size(), false);
    }
    auto const rows = insertions_of(events, r, settings_.lease.duration);
    bool const placed = reports && r.birth && r.birth->receipt;
    sent = true;
    store().insert(tx, rows, placed ? r.birth->receipt : nullptr);
  } catch (error const& e) {
    give_up(leaves_in_doubt(e));
    throw;
  } catch (...) {
    give_up(/*in_doubt=*/true);
    throw;
  }
  if (settings_.hook) guarded(self, [&] { settings_.hook->after_write(events); });
  if (tx.none()) observer->committed();
  return ids;
}

}  // namespace core

event_limits const& writer::limits() const noexcept {
  static event_limits const none;
  return core_ ? core_->settings().limits : none;
}

event_id writer::write_one(transaction_ref tx, event const& e) const {
  auto ids = write_many(tx, std::span{&e, 1});
  return ids.empty() ? event_id{} : std::move(ids.front());
}

std::vector<event_id> writer::write_many(transaction_ref tx, std::span<event const> events) const {
  if (!core_) throw error{errc::lifecycle, "this writer was moved from"};
  for (auto const& e : events) {
    if (!e) throw error::about(errc::invalid_event, "event", "was moved from");
  }
  return core_->write(tx, events);
}

}  // namespace outbox::inline v0
