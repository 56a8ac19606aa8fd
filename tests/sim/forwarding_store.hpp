// A store that passes everything on. What watches a store overrides what it wants to see.
#pragma once

#include <memory>
#include <outbox/store.hpp>

namespace outbox::sim {

class forwarding_store : public store {
 public:
  explicit forwarding_store(std::shared_ptr<store> to) : to_{std::move(to)} {}

  store_capabilities capabilities() const noexcept override { return to_->capabilities(); }
  void insert(transaction_ref tx, std::span<insertion const> rows) override { to_->insert(tx, rows); }
  claim_reply claim(claim_request const& r) override { return to_->claim(r); }
  std::vector<bool> settle(std::span<settlement const> items) override { return to_->settle(items); }
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override {
    return to_->renew(rows, lease);
  }
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override {
    return to_->release(tokens, lease);
  }
  std::unique_ptr<dispatch_lock> try_dispatch_lock(std::string_view i) override { return to_->try_dispatch_lock(i); }
  void announce(node_row const& node) override { to_->announce(node); }
  void retire(std::string_view incarnation) override { to_->retire(incarnation); }
  std::size_t purge(purge_request const& r) override { return to_->purge(r); }
  std::size_t purge_by_age(age_purge_request const& r) override { return to_->purge_by_age(r); }
  std::vector<dead_event> dead(dead_filter const& f, std::size_t limit) override { return to_->dead(f, limit); }
  std::uint64_t count_dead(dead_filter const& f) override { return to_->count_dead(f); }
  bool replay(std::string_view id) override { return to_->replay(id); }
  std::size_t replay_some(dead_filter const& f, instant by, std::size_t limit) override {
    return to_->replay_some(f, by, limit);
  }
  std::vector<route_pause> pauses() override { return to_->pauses(); }
  bool pause(route_pause const& p) override { return to_->pause(p); }
  bool resume(route_pause const& p) override { return to_->resume(p); }
  std::size_t ignored_pauses() noexcept override { return to_->ignored_pauses(); }
  instant now() override { return to_->now(); }
  inspector& inspect() override { return to_->inspect(); }

 protected:
  std::shared_ptr<store> to_;
};

}  // namespace outbox::sim
