#pragma once

#include <outbox/memory.hpp>
#include <outbox/testing.hpp>

#include "contract/backend.hpp"

namespace outbox::contract {

class memory_backend final : public backend {
 public:
  static constexpr char const* name = "memory";

  explicit memory_backend(bool erase_done = false)
      : store_{memory::open({.clock = clock_, .erase_done = erase_done})} {}

  spi::store& store() override { return store_->backend(); }
  std::unique_ptr<caller_transaction> begin() override { return std::make_unique<caller>(*store_); }
  void advance(std::chrono::milliseconds by) override { clock_->advance(by); }
  std::unique_ptr<backend> other() override { return std::make_unique<memory_backend>(); }

 private:
  class caller final : public caller_transaction {
   public:
    explicit caller(outbox::store& s) : tx_{s} {}
    transaction_ref ref() override { return join(tx_); }
    void savepoint(std::string const& name) override { tx_.savepoint(name); }
    void rollback_to(std::string const& name) override { tx_.rollback_to(name); }
    void commit() override { tx_.commit(); }
    void rollback() override { tx_.rollback(); }

   private:
    memory::transaction tx_;
  };

  std::shared_ptr<testing::manual_clock> clock_ = std::make_shared<testing::manual_clock>();
  std::shared_ptr<outbox::store> store_;
};

/// The same, but a row that is done is gone.
class erasing_backend final : public backend {
 public:
  static constexpr char const* name = "erasing";

  spi::store& store() override { return memory_.store(); }
  std::unique_ptr<caller_transaction> begin() override { return memory_.begin(); }
  void advance(std::chrono::milliseconds by) override { memory_.advance(by); }
  std::unique_ptr<backend> other() override { return std::make_unique<erasing_backend>(); }

 private:
  memory_backend memory_{/*erase_done=*/true};
};

}  // namespace outbox::contract
