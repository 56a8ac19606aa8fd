// The store on Redis. Every change is one script, so it is atomic without the caller's transaction.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <outbox/redis.hpp>
#include <outbox/spi/store.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/base/resumed_walk.hpp"
#include "redis/server.hpp"
#include "redis/wake.hpp"

namespace outbox::inline v0::redis {

/// Thread-safe.
class redis_store final : public spi::store, public inspector {
 public:
  /// `identity` is what the outbox calls itself in its key "meta".
  redis_store(std::shared_ptr<server> where, options o, std::string identity);
  ~redis_store() override;

  store_capabilities capabilities() const noexcept override;
  instant now() override;
  inspector& inspect() override { return *this; }

  using spi::store::insert;
  void insert(transaction_ref tx, std::span<spi::insertion const> rows,
              std::shared_ptr<spi::insert_receipt> const& receipt) override;
  spi::claim_reply claim(spi::claim_request const& request) override;
  spi::settle_reply settle(std::span<spi::settlement const> items) override;
  std::vector<bool> renew(std::span<spi::row_handle const> rows, std::chrono::milliseconds lease) override;
  std::vector<spi::place> places(std::span<std::string const> ids) override;
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override;

  std::unique_ptr<spi::dispatch_lock> try_dispatch_lock(std::string_view incarnation,
                                                        std::chrono::milliseconds lease) override;
  void heartbeat(node_row const& node) override;
  void retire(std::string_view incarnation) override;
  spi::table_settings settings() override;
  bool pause(route_pause const& what) override;
  bool resume(route_pause const& what) override;

  std::size_t purge(spi::purge_request const& request) override;
  std::size_t purge_by_age(spi::age_purge_request const& request) override;
  std::vector<row_view> list(event_filter const& filter, spi::list_order order, std::size_t limit) override;
  std::uint64_t count(event_filter const& filter, std::uint64_t up_to) override;
  std::vector<spi::error_group> errors(event_filter const& filter, std::size_t limit) override;
  std::size_t cancel(event_filter const& filter, std::string_view reason, std::size_t limit) override;
  std::size_t replay(event_filter const& filter, std::size_t limit) override;
  std::size_t discard(event_filter const& filter, std::size_t limit) override;
  std::size_t purge(event_filter const& filter, std::size_t limit) override;
  std::int64_t begin_audit(spi::audit_entry const& entry) override;
  bool end_audit(std::int64_t id, std::uint64_t changed) override;
  std::vector<spi::audit_entry> audit(std::size_t limit) override;
  std::vector<spi::event_type_counts> event_types() override;
  std::vector<spi::event_type_counts> waiting_types(std::size_t rows) override;
  spi::table_overview overview(std::uint64_t limit) override;
  std::vector<parked_key> parked_keys(std::size_t limit) override;
  std::size_t heal(std::size_t limit) override;
  void set_keyed(bool keyed) override;
  std::vector<spi::finding> findings(spi::finding_limits const& limits) override;

  spi::subscription on_change(std::function<void()> callback) override;
  void hint() noexcept override;
  spi::subscription on_wait(std::function<void(std::chrono::nanoseconds)> callback) override;

  std::optional<row_view> find(std::string_view id) override;
  table_counts counts() override;
  std::vector<node_row> nodes() override;

  // For transactions.
  [[nodiscard]] server& place() noexcept { return *server_; }
  [[nodiscard]] std::string const& identity() const noexcept { return identity_; }
  [[nodiscard]] std::size_t replicas() const noexcept { return options_.replicas; }

 private:
  /// Runs a script that changes something. Throws `error` (unsupported) if the store only reads.
  answer change(script const& s, arguments const& args, std::string_view doing, bool* sent = nullptr);
  answer read(script const& s, arguments const& args, std::string_view doing) { return server_->run(s, args, doing); }

  void insert_at_once(std::span<spi::insertion const> rows, spi::insert_receipt* receipt);
  void check_writable() const;
  bool change_pauses(std::function<bool(std::vector<route_pause>&)> const& edit);

  /// Calls `see` with each row that matches, an answer of page.lua, until it returns false.
  void for_each(event_filter const& filter, std::string_view what, spi::list_order order, std::uint64_t limit,
                std::function<bool(answer_view)> const& see);
  std::size_t change_rows(std::string_view verb, std::string_view reason, event_filter filter,
                          std::vector<event_status> const& possible, std::size_t limit);
  /// A row in a sorted set, and its score. Empty: before the first one.
  struct place_of_row {
    std::string row, score;
    bool operator==(place_of_row const&) const = default;
  };
  /// Clears notes that rows wait, of those behind a place, in one script. Returns the number of rows. The place is then
  /// where the next script goes on; empty if there are no more rows.
  std::size_t clear_notes(std::string_view which, std::size_t limit, place_of_row& behind, std::string_view doing);
  using counts_by_type = std::map<std::pair<std::string, std::string>, table_counts>;
  void count_types(std::string_view set, std::size_t most, counts_by_type& into);

  std::shared_ptr<server> const server_;
  options const options_;
  std::string const identity_;
  std::string const shown_;  ///< In log lines.
  std::unique_ptr<wake_line> wake_;
  core::resumed_walk<place_of_row> healing_;
};

}  // namespace outbox::inline v0::redis
