// The table of the memory store: rows, one index over what can be claimed, and a registry of nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <outbox/memory.hpp>
#include <outbox/spi/claim_filter.hpp>
#include <outbox/spi/store.hpp>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace outbox::inline v0::memory {

/// The dispatch lock. It may outlive its store.
struct lock_state {
  std::mutex mutex;
  std::uint64_t fence = 0;  ///< Grows with every holder, so that an earlier lock of the same node is not this one.
  bool taken = false;
  std::optional<instant> until{};  ///< A lease ends then, by the store's clock; no value: it does not end.
};

class database final : public spi::store, public inspector, public std::enable_shared_from_this<database> {
 public:
  explicit database(options o);

  store_capabilities capabilities() const noexcept override;
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
  spi::table_settings settings() override;
  bool pause(route_pause const& what) override;
  bool resume(route_pause const& what) override;
  instant now() override;
  spi::subscription on_change(std::function<void()> callback) override {
    return changes_.subscribe(std::move(callback));
  }
  void hint() noexcept override {}  // every node of the process has heard of the commit already
  inspector& inspect() override { return *this; }

  std::optional<row_view> find(std::string_view id) override;
  table_counts counts() override;
  std::vector<node_row> nodes() override;

  std::size_t expire_others(std::string_view incarnation);

  /// Makes a transaction's rows visible, all or none. Throws `error` (duplicate_event).
  void apply(std::vector<row_view> const& rows);
  [[nodiscard]] commit_fate next_fate();

  // For a test that models the statements of a server one by one, in one thread.
  [[nodiscard]] std::map<std::int64_t, row_view> const& rows() const noexcept { return rows_; }
  void put(row_view const& row);  ///< Replaces the row of that number, if there is one.

  /// Notes that a row waits for another one of its key. Does nothing if there is no such row.
  void block(std::string_view id);

 private:
  using due_key = std::pair<instant, std::int64_t>;  ///< Claimable instant, seq.

  struct candidates {
    std::vector<std::int64_t> take, dead, note;
  };

  /// Where a row stands in its key.
  struct neighbours {
    std::string key{};  ///< Empty if the row is not in line.
    row_view const* before = nullptr;
    row_view const* next = nullptr;
  };

  void insert_into(transaction& joined, std::span<spi::insertion const> rows, spi::insert_receipt* receipt);
  [[nodiscard]] candidates choose(spi::claim_request const& request, instant now, spi::claim_reply& reply) const;
  [[nodiscard]] row_view* owned(spi::row_handle const& handle);
  void update(row_view& row, std::function<void(row_view&)> const& change);
  void enter_indexes(row_view const& row);
  void leave_indexes(row_view const& row);
  [[nodiscard]] neighbours around(row_view const& row) const;
  void follow(row_view const& head, std::size_t room, spi::claim_filter& filter, candidates& c) const;
  void note(std::vector<std::int64_t> const& rows, instant now, spi::claim_reply& reply);
  void apply(row_view& row, spi::settlement const& s, instant now);
  void insert_at_once(std::span<spi::insertion const> rows, spi::insert_receipt* receipt);
  [[nodiscard]] std::vector<row_view> new_rows(std::span<spi::insertion const> rows,
                                               std::function<bool(std::string const& id)> const& taken);
  void add(std::vector<row_view> const& rows);
  void erase(std::int64_t seq);
  void revive(row_view& row, instant now);
  [[nodiscard]] std::int64_t oldest_of(event_filter const& filter) const;
  [[nodiscard]] std::vector<std::int64_t> select(event_filter const& filter, std::size_t limit,
                                                 std::function<bool(row_view const&)> const& wanted);
  void fill(spi::insert_receipt* receipt, std::span<row_view const> fresh, std::span<row_view const> written) const;
  [[nodiscard]] std::string before(std::span<row_view const> fresh, std::size_t at, std::span<row_view const> written,
                                   std::int64_t finished) const;
  std::size_t unblock_next(std::string const& key, std::int64_t seq, instant now);
  void unblock(row_view& row, instant now);
  [[nodiscard]] bool parks(row_view const& row) const;
  static void count(table_counts& c, event_status status) noexcept;
  [[nodiscard]] std::optional<instant> next_due(instant now, spi::claim_request const& request) const;

  options options_;
  std::mutex mutex_;
  std::map<std::int64_t, row_view> rows_;
  std::unordered_map<std::string, std::int64_t> by_id_;
  std::set<due_key> due_;                                ///< Pending rows that are not blocked.
  std::map<std::string, std::set<std::int64_t>> lines_;  ///< The rows in line of each key, by seq.
  std::map<std::string, std::pair<node_row, instant>, std::less<>> nodes_;
  spi::table_settings settings_;
  std::vector<spi::audit_entry> audit_;
  std::shared_ptr<lock_state> lock_ = std::make_shared<lock_state>();
  spi::change_signal changes_;
  std::int64_t last_seq_ = 0;
};

/// What the store needs from a transaction.
struct transaction_access {
  static database& owner(transaction& tx) noexcept;
  static void enlist(transaction& tx, std::shared_ptr<transaction_observer> observer);
  static void wrote(transaction& tx);  ///< The write that was enlisted last goes to this store.
  static void add(transaction& tx, row_view row);
  static bool has(transaction const& tx, std::string_view id) noexcept;
  static std::span<row_view const> rows(transaction const& tx) noexcept;
};

}  // namespace outbox::inline v0::memory
