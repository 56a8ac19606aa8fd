// The memory store in tests.
#pragma once

#include <outbox/memory.hpp>
#include <outbox/testing.hpp>

#include "backends/backend_clock.hpp"
#include "backends/caller.hpp"

namespace outbox {

class memory_backend : public contract::backend {
 public:
  static constexpr char const* name = "memory";

  explicit memory_backend(backend_clock c = backend_clock::manual, done_rows done = done_rows::keep)
      : clock_{c == backend_clock::manual ? std::make_shared<testing::manual_clock>() : nullptr},
        store_{memory::open({.clock = clock_, .done_rows = done})} {}

  /// On a clock that the test moves.
  explicit memory_backend(memory::options o)
      : clock_{std::make_shared<testing::manual_clock>()}, store_{memory::open(on(clock_, std::move(o)))} {}

  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<contract::caller_transaction> begin() override {
    return std::make_unique<caller<memory_backend, memory::transaction>>(*this, *store_);
  }
  void advance(std::chrono::milliseconds by) override { clock_->advance(by); }
  std::unique_ptr<backend> other() override { return std::make_unique<memory_backend>(); }
  void block(std::string const& id) override { memory::block(*store_, id); }

  [[nodiscard]] std::shared_ptr<outbox::store> const& shared_store() const { return store_; }

  template <class F>
  void transact(bool commit, F&& f) {
    transact_on<memory::transaction>(*store_, commit, std::forward<F>(f));
  }
  void savepoint(memory::transaction& tx, std::string const& mark) { tx.savepoint(mark); }
  void rollback_to(memory::transaction& tx, std::string const& mark) { tx.rollback_to(mark); }

 private:
  static memory::options on(std::shared_ptr<clock const> c, memory::options o) {
    o.clock = std::move(c);
    return o;
  }

  std::shared_ptr<testing::manual_clock> clock_;
  std::shared_ptr<outbox::store> store_;
};

/// A memory store that deletes a row when its event is delivered.
class erasing_memory_backend final : public memory_backend {
 public:
  static constexpr char const* name = "erasing";

  explicit erasing_memory_backend(backend_clock c = backend_clock::manual) : memory_backend{c, done_rows::erase} {}
};

/// A memory store as a key-value server would be: its dispatch lock is a lease, and a write needs no transaction.
class leasing_memory_backend final : public memory_backend {
 public:
  static constexpr char const* name = "leasing";

  leasing_memory_backend()
      : memory_backend{memory::options{.dispatch_lock = lock_kind::lease, .requires_transaction = false}} {}
};

}  // namespace outbox
