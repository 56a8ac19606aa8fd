// Runs the contract suite against audited_store. With PLANTED_FAULT in the environment the store breaks the contract.
#include <cstdlib>
#include <outbox/memory.hpp>
#include <outbox/testing.hpp>
#include <outbox/testing/contract/backend.hpp>

#include "audited_store.hpp"

class audited_backend final : public outbox::contract::backend {
 public:
  static constexpr char const* name = "audited";

  outbox::spi::store& store() override { return store_; }
  std::unique_ptr<outbox::contract::caller_transaction> begin() override { return std::make_unique<caller>(*memory_); }
  void advance(std::chrono::milliseconds by) override { clock_->advance(by); }
  [[nodiscard]] bool has_savepoints() const override { return false; }
  void block(std::string const& id) override { outbox::memory::block(*memory_, id); }

 private:
  class caller final : public outbox::contract::caller_transaction {
   public:
    explicit caller(outbox::store& s) : tx_{s} {}
    outbox::transaction_ref ref() override { return outbox::join(tx_); }
    void commit() override { tx_.commit(); }
    void rollback() override { tx_.rollback(); }

   private:
    outbox::memory::transaction tx_;
  };

  std::shared_ptr<outbox::testing::manual_clock> clock_ = std::make_shared<outbox::testing::manual_clock>();
  std::shared_ptr<outbox::store> memory_ = outbox::memory::open({.clock = clock_});
  audited_store store_{memory_, std::getenv("PLANTED_FAULT") != nullptr};
};

#define OUTBOX_CONTRACT_BACKENDS audited_backend
#include <outbox/testing/contract.hpp>
