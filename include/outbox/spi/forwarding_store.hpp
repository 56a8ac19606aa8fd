// A store that passes every call on to another one. Derive from it to watch, delay or change some of the calls.
#pragma once

#include <memory>
#include <outbox/detail/core_export.hpp>
#include <outbox/spi/store.hpp>
#include <span>
#include <string_view>
#include <vector>

namespace outbox::inline v0::spi {

/// Thread-safe if the store behind it is. It keeps that store alive.
class OUTBOX_CORE_EXPORT forwarding_store : public store {
 public:
  /// Throws `error` (invalid_option) if `behind` is null.
  explicit forwarding_store(std::shared_ptr<outbox::v0::store> behind);
  ~forwarding_store() override;

  store_capabilities capabilities() const noexcept override;
  inspector& inspect() override;

  void insert(transaction_ref tx, std::span<insertion const> rows) override;
  claim_reply claim(claim_request const& request) override;
  std::vector<bool> settle(std::span<settlement const> items) override;
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override;
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override;

  std::unique_ptr<dispatch_lock> try_dispatch_lock(std::string_view incarnation) override;
  void heartbeat(node_row const& node) override;
  void retire(std::string_view incarnation) override;
  std::vector<route_pause> pauses() override;
  bool pause(route_pause const& what) override;
  bool resume(route_pause const& what) override;
  std::size_t ignored_pauses() noexcept override;

  std::size_t purge(purge_request const& request) override;
  std::size_t purge_by_age(age_purge_request const& request) override;
  std::vector<dead_event> dead(dead_filter const& filter, std::size_t limit) override;
  std::uint64_t count_dead(dead_filter const& filter) override;
  bool replay(std::string_view id) override;
  std::size_t replay_some(dead_filter const& filter, instant died_by, std::size_t limit) override;

  instant now() override;
  std::uint64_t change_counter() noexcept override;
  void hint() noexcept override;

 protected:
  [[nodiscard]] store& behind() const noexcept { return *to_; }

 private:
  std::shared_ptr<outbox::v0::store> kept_;
  store* to_;
};

}  // namespace outbox::inline v0::spi
