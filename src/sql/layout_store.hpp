// Serves a table of another shape. What the table has no column for is in the memory of this process.
//
// A claim reads which rows are pending, marks those that it wants in memory, and only then reads them whole, if they
// are pending still. So a row that was settled between the two reads is never claimed again. A settlement changes a row
// only while it is pending: what an operator changed meanwhile is lost to its owner.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <outbox/table_layout.hpp>
#include <span>
#include <string>
#include <vector>

#include "sql/layout_statements.hpp"
#include "sql/row_memory.hpp"
#include "sql/sql_store.hpp"

namespace outbox::inline v0::sql {

class OUTBOX_SQL_EXPORT layout_store : public sql_store {
 public:
  ~layout_store() override;

  store_capabilities capabilities() const noexcept override;

  using sql_store::insert;
  void insert(transaction_ref tx, std::span<insertion const> rows,
              std::shared_ptr<insert_receipt> const& receipt) override;
  claim_reply claim(claim_request const& request) override;
  settle_reply settle(std::span<settlement const> items) override;
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override;
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override;

  std::unique_ptr<dispatch_lock> try_dispatch_lock(std::string_view incarnation,
                                                   std::chrono::milliseconds lease) override;
  void heartbeat(node_row const& node) override;
  void retire(std::string_view incarnation) override;
  std::vector<node_row> nodes() override;
  table_settings settings() override { return {}; }

  std::vector<row_view> list(event_filter const& filter, list_order order, std::size_t limit) override;
  std::vector<error_group> errors(event_filter const& filter, std::size_t limit) override;
  std::uint64_t count(event_filter const& filter, std::uint64_t up_to) override;
  std::size_t cancel(event_filter const& filter, std::string_view reason, std::size_t limit) override;
  std::size_t replay(event_filter const& filter, std::size_t limit) override;
  std::size_t purge(event_filter const& filter, std::size_t limit) override;
  std::size_t purge(purge_request const& request) override { return sql_store::purge(request); }
  std::size_t discard(event_filter const& filter, std::size_t limit) override;
  std::optional<row_view> find(std::string_view id) override;
  table_counts counts() override;
  std::vector<event_type_counts> event_types() override;
  std::vector<finding> findings(finding_limits const& limits) override;
  subscription on_change(std::function<void()> callback) override;
  void hint() noexcept override {}

  // What needs a companion table, or an order per key.
  std::size_t purge_by_age(age_purge_request const& request) override;
  bool pause(route_pause const& what) override;
  bool resume(route_pause const& what) override;
  std::int64_t begin_audit(audit_entry const& entry) override;
  bool end_audit(std::int64_t id, std::uint64_t changed) override;
  std::vector<audit_entry> audit(std::size_t limit) override;
  std::vector<parked_key> parked_keys(std::size_t limit) override;
  std::size_t heal(std::size_t limit) override;
  void set_keyed(bool keyed) override;

 protected:
  /// `full_name` is the table's name in log lines.
  layout_store(table_layout l, layout_forms const& f, std::string full_name);

  /// Sends an INSERT of so many rows on the caller's connection.
  virtual void send_insert(connection& c, std::string const& sql, std::span<value const> values, std::size_t rows) = 0;

  /// Null if another node has it.
  virtual std::unique_ptr<dispatch_lock> try_lock(std::string_view incarnation) = 0;

  [[nodiscard]] table_layout const& layout() const noexcept { return layout_; }

  /// Throws `error` (store_failure) unless the table has the columns that its layout names.
  void check_shape();

 private:
  struct seen_row;
  struct chosen;

  layout_store(table_layout l, layout_forms const& f, layout_statements s, std::string full_name);
  [[noreturn]] void unsupported(std::string_view what) const;
  void insert_pieces(connection& c, std::span<insertion const> rows, std::span<std::string const> payloads);
  [[nodiscard]] std::vector<seen_row> look(std::size_t window);
  [[nodiscard]] chosen choose(claim_request const& request, claim_reply& reply);
  void mark(claim_request const& request, std::vector<seen_row> const& seen, claim_reply& reply, chosen& into);
  void make_dead(chosen const& c, claim_reply& reply);
  void fetch(claim_request const& request, chosen const& c, claim_reply& reply);
  [[nodiscard]] std::vector<std::string> pending_of(std::span<row_handle const> rows);
  void settle_all(std::span<settlement const> items, std::vector<bool> const& owned, bool one_by_one,
                  settle_reply& reply);
  void remember(settlement const& s);
  void overlay(row_view& r);
  [[nodiscard]] bool possible(event_filter& f) const;
  [[nodiscard]] instant clock_now() const { return clock_->now(); }

  table_layout layout_;
  layout_statements sql_;
  layout_forms::form finish_;
  bool partial_;
  std::string full_name_;
  std::string remarks_;  ///< What the table cannot do.
  std::shared_ptr<clock const> clock_;
  std::mutex claim_mutex_;  ///< One claim at a time.
  std::shared_ptr<row_memory> memory_ = std::make_shared<row_memory>();

  struct live_node {
    node_row row;
    instant until;
  };
  std::mutex nodes_mutex_;
  std::map<std::string, live_node, std::less<>> nodes_;
};

/// Throws `error` (invalid_option) for options that mean nothing on a table of another shape.
OUTBOX_SQL_EXPORT void check_options_of_layout(table_layout const& l, std::string_view table, done_rows done);

/// Throws `error` (unsupported): `migrate` never touches a table of another shape.
[[noreturn]] OUTBOX_SQL_EXPORT void refuse_to_migrate(table_layout const& l);

}  // namespace outbox::inline v0::sql
