// A store that passes every call on to another store. Derive from it to watch, delay or change some of the calls.
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

  using store::insert;
  void insert(transaction_ref tx, std::span<insertion const> rows,
              std::shared_ptr<insert_receipt> const& receipt) override;
  claim_reply claim(claim_request const& request) override;
  settle_reply settle(std::span<settlement const> items) override;
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override;
  std::vector<place> places(std::span<std::string const> ids) override;
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override;

  std::unique_ptr<dispatch_lock> try_dispatch_lock(std::string_view incarnation,
                                                   std::chrono::milliseconds lease) override;
  void heartbeat(node_row const& node) override;
  void retire(std::string_view incarnation) override;
  table_settings settings() override;
  bool pause(route_pause const& what) override;
  bool resume(route_pause const& what) override;

  std::size_t purge(purge_request const& request) override;
  std::size_t purge_by_age(age_purge_request const& request) override;
  std::vector<row_view> list(event_filter const& filter, list_order order, std::size_t limit) override;
  std::uint64_t count(event_filter const& filter, std::uint64_t up_to) override;
  std::vector<error_group> errors(event_filter const& filter, std::size_t limit) override;
  std::size_t cancel(event_filter const& filter, std::string_view reason, std::size_t limit) override;
  std::size_t replay(event_filter const& filter, std::size_t limit) override;
  std::size_t discard(event_filter const& filter, std::size_t limit) override;
  std::size_t purge(event_filter const& filter, std::size_t limit) override;
  std::int64_t begin_audit(audit_entry const& entry) override;
  bool end_audit(std::int64_t id, std::uint64_t changed) override;
  std::vector<audit_entry> audit(std::size_t limit) override;
  std::vector<event_type_counts> event_types() override;
  std::vector<event_type_counts> waiting_types(std::size_t rows) override;
  table_overview overview(std::uint64_t limit) override;
  std::vector<parked_key> parked_keys(std::size_t limit) override;
  std::size_t heal(std::size_t limit) override;
  void prepare_for_keys() override;
  void set_keyed(bool keyed) override;
  std::vector<finding> findings(finding_limits const& limits) override;

  instant now() override;
  subscription on_change(std::function<void()> callback) override;
  subscription on_wait(std::function<void(std::chrono::nanoseconds)> callback) override;
  void hint() noexcept override;

 protected:
  [[nodiscard]] store& behind() const noexcept { return *to_; }

 private:
  std::shared_ptr<outbox::v0::store> kept_;
  store* to_;
};

}  // namespace outbox::inline v0::spi
