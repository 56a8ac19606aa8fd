// Writing: birth, INSERT, and what happens when the transaction ends.
#include <outbox/error.hpp>
#include <outbox/node.hpp>

#include "core/node_core.hpp"

namespace outbox::inline v0 {
namespace core {
namespace {

// Stands between a caller's transaction and the engine. May outlive the node: then it does nothing.
class birth_observer final : public transaction_observer {
 public:
  birth_observer(std::weak_ptr<node_core> core, engine::registration const& r)
      : core_{std::move(core)}, birth_{r.birth}, wake_{r.wake}, due_in_{r.due_in} {}

  std::size_t size() const noexcept override { return birth_ ? birth_->tickets.size() : 0; }
  std::string const& event_id(std::size_t index) const noexcept override { return birth_->tickets[index]->what.id(); }
  std::string const& token() const noexcept override { return birth_->token; }
  void absent(std::size_t index) noexcept override { birth_->tickets[index]->absent = true; }

  void committed() noexcept override {
    end([&](engine& e, steady_time now) {
      if (birth_) e.committed(*birth_, now);
      if (wake_) e.wake();
      if (due_in_) e.wake(now + *due_in_);
    });
  }
  void rolled_back() noexcept override {
    end([&](engine& e, steady_time) {
      if (birth_) e.rolled_back(*birth_);
    });
  }
  void in_doubt() noexcept override {
    end([&](engine& e, steady_time now) {
      if (birth_) e.in_doubt(*birth_, now);
      e.wake();
    });
  }

 private:
  template <class F>
  void end(F&& f) noexcept {
    auto const core = core_.lock();
    if (core) core->with_engine_quietly([&](engine& e) { f(e, core->now()); });
    birth_.reset();
    core_.reset();
  }

  std::weak_ptr<node_core> core_;
  std::shared_ptr<birth> birth_;
  bool wake_;
  std::optional<milliseconds> due_in_;
};

std::vector<insertion> insertions_of(std::span<event const> events, engine::registration const& r, milliseconds lease) {
  std::vector<insertion> rows(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    rows[i].what = &events[i];
    if (!r.owned[i]) continue;
    rows[i].token = r.birth->token;
    rows[i].lease = lease;
  }
  return rows;
}

}  // namespace

std::vector<event_id> node_core::write(transaction_ref tx, std::span<event const> events) {
  auto const can = store().capabilities();
  if (can.requires_transaction && !tx.active()) {
    throw error{errc::no_transaction, "write() needs an active transaction: begin one, and write before its commit"};
  }
  if (tx.kind() != can.kind) {
    throw error{errc::wrong_transaction, "the transaction is of kind '" + std::string{tx.kind()} +
                                             "', the store of kind '" + std::string{can.kind} + "'"};
  }
  for (auto const& e : events) check_limits(e, settings_.limits);
  if (events.empty()) return {};

  auto r = with_engine_quietly([&](engine& e) { return e.register_births(events, now()); });
  try {
    // Enlisted before the INSERT: what can fail for want of memory fails while nothing is written.
    bool const reports = tx.enlist(std::make_shared<birth_observer>(weak_from_this(), r));
    if (!reports && r.birth) {
      with_engine_quietly([&](engine& e) { e.cancel(*r.birth); });
      r.owned.assign(events.size(), false);
    }
    store().insert(tx, insertions_of(events, r, settings_.engine.lease.duration));
  } catch (...) {
    if (r.birth) with_engine_quietly([&](engine& e) { e.cancel(*r.birth); });
    throw;
  }
  std::vector<event_id> ids;
  ids.reserve(events.size());
  for (auto const& e : events) ids.emplace_back(e.id());
  return ids;
}

}  // namespace core

event_limits const& writer::limits() const noexcept { return core_->settings().limits; }

event_id writer::write_one(transaction_ref tx, event const& e) const {
  auto ids = core_->write(tx, std::span{&e, 1});
  return ids.empty() ? event_id{} : std::move(ids.front());
}

std::vector<event_id> writer::write_many(transaction_ref tx, std::span<event const> events) const {
  return core_->write(tx, events);
}

}  // namespace outbox::inline v0
