// A store that is developed elsewhere: it counts the rows that change hands, and keeps them in a memory store.
#pragma once

#include <atomic>
#include <outbox/spi/forwarding_store.hpp>

class audited_store final : public outbox::spi::forwarding_store {
 public:
  /// `fault`: settlements are applied whatever their token, which the contract forbids.
  audited_store(std::shared_ptr<outbox::store> behind, bool fault)
      : forwarding_store{std::move(behind)}, fault_{fault} {}

  outbox::spi::claim_reply claim(outbox::spi::claim_request const& request) override {
    auto reply = forwarding_store::claim(request);
    claimed_ += reply.rows.size();
    return reply;
  }

  outbox::spi::settle_reply settle(std::span<outbox::spi::settlement const> items) override {
    std::vector<outbox::spi::settlement> changed{items.begin(), items.end()};
    for (auto& item : changed) {
      auto const row = inspect().find(item.row.id);
      if (fault_ && row) item.row.token = row->locked_by;
    }
    return forwarding_store::settle(changed);
  }

  [[nodiscard]] std::size_t claimed() const noexcept { return claimed_; }

 private:
  bool fault_;
  std::atomic<std::size_t> claimed_ = 0;
};
