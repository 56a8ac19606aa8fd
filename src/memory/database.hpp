// The table of the memory store: rows, one index over what can be claimed, and a registry of nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <outbox/memory.hpp>
#include <outbox/spi/store.hpp>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace outbox::inline v0::memory {

struct lock_state {
  std::mutex mutex;
  std::string holder;
};

class database final : public spi::store, public inspector, public std::enable_shared_from_this<database> {
 public:
  explicit database(options o);

  store_capabilities capabilities() const noexcept override;
  void insert(transaction_ref tx, std::span<spi::insertion const> rows) override;
  spi::claim_reply claim(spi::claim_request const& request) override;
  std::vector<bool> settle(std::span<spi::settlement const> items) override;
  std::vector<bool> renew(std::span<spi::row_handle const> rows, std::chrono::milliseconds lease) override;
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override;
  std::unique_ptr<spi::dispatch_lock> try_dispatch_lock(std::string_view incarnation) override;
  void heartbeat(node_row const& node) override;
  void retire(std::string_view incarnation) override;
  std::size_t purge(spi::purge_request const& request) override;
  std::size_t purge_by_age(spi::age_purge_request const& request) override;
  std::vector<dead_event> dead(dead_filter const& filter, std::size_t limit) override;
  std::uint64_t count_dead(dead_filter const& filter) override;
  bool replay(std::string_view id) override;
  std::size_t replay_some(dead_filter const& filter, instant died_by, std::size_t limit) override;
  std::vector<route_pause> pauses() override;
  bool pause(route_pause const& what) override;
  bool resume(route_pause const& what) override;
  instant now() override;
  inspector& inspect() override { return *this; }

  std::optional<row_view> find(std::string_view id) override;
  table_counts counts() override;
  std::vector<node_row> nodes() override;

  std::size_t expire_others(std::string_view incarnation);

  /// Makes a transaction's rows visible, all or none. Throws `error` (duplicate_event).
  void apply(std::vector<row_view> const& rows);
  [[nodiscard]] commit_fate next_fate();

 private:
  using due_key = std::pair<instant, std::int64_t>;  ///< Claimable instant, seq.

  struct candidates {
    std::vector<std::int64_t> take, kill;
  };

  void insert_into(transaction& joined, std::span<spi::insertion const> rows);
  [[nodiscard]] candidates choose(spi::claim_request const& request, instant now, spi::claim_reply& reply) const;
  [[nodiscard]] row_view* owned(spi::row_handle const& handle);
  void update(row_view& row, std::function<void(row_view&)> const& change);
  void apply(row_view& row, spi::settlement const& s, instant now);
  void erase(std::int64_t seq);
  void revive(row_view& row, instant now);
  [[nodiscard]] std::optional<instant> next_due(instant now, spi::claim_request const& request) const;

  options options_;
  std::mutex mutex_;
  std::map<std::int64_t, row_view> rows_;
  std::unordered_map<std::string, std::int64_t> by_id_;
  std::set<due_key> due_;  ///< Pending rows only.
  std::map<std::string, std::pair<node_row, instant>, std::less<>> nodes_;
  std::vector<route_pause> pauses_;
  std::shared_ptr<lock_state> lock_ = std::make_shared<lock_state>();
  std::int64_t last_seq_ = 0;
};

/// What the store needs from a transaction.
struct transaction_access {
  static database& owner(transaction& tx) noexcept;
  static void enlist(transaction& tx, std::shared_ptr<transaction_observer> observer);
  static void wrote(transaction& tx);  ///< The write that was enlisted last goes to this store.
  static void add(transaction& tx, row_view row);
  static bool has(transaction const& tx, std::string_view id) noexcept;
};

}  // namespace outbox::inline v0::memory
