// What the stores of all SQL databases share. A database adds its connections, and how rows are written, claimed,
// settled and renewed: row by row (row_store) or many at once (set_store).
#pragma once

#include <functional>
#include <outbox/spi/sql_connection.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

#include "sql/dialect.hpp"

namespace outbox::inline v0::sql {

using namespace spi;

class OUTBOX_SQL_EXPORT sql_store : public spi::store, public inspector {
 public:
  ~sql_store() override;

  store_capabilities capabilities() const noexcept override;
  void heartbeat(node_row const& node) override;
  void retire(std::string_view incarnation) override;
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
  std::vector<spi::place> places(std::span<std::string const> ids) override;
  void set_keyed(bool keyed) override;
  table_settings settings() override;
  bool pause(route_pause const& what) override;
  bool resume(route_pause const& what) override;
  inspector& inspect() override { return *this; }

  std::optional<row_view> find(std::string_view id) override;
  table_counts counts() override;
  std::vector<node_row> nodes() override;

 protected:
  using work = std::function<void(connection&)>;

  explicit sql_store(dialect d);

  /// Runs `f` on a connection of the store: the writer for statements that change rows, the reader for the others, so
  /// that reads never wait for changes.
  virtual void with_writer(work const& f) = 0;
  virtual void with_reader(work const& f) = 0;

  /// Runs `f` on the caller's connection. Throws `error` (wrong_transaction) if it is not to this database.
  virtual void with_caller(transaction_ref tx, work const& f) = 0;

  /// True if the table has an index for keys that statements must name.
  [[nodiscard]] virtual bool has_key_index() const noexcept { return false; }

  /// Runs `f` in a transaction of its own on the writer, which is rolled back if `f` throws.
  void in_transaction(work const& f);

  /// Runs one statement on the writer. Returns the number of rows that it matched.
  std::size_t change(std::string const& sql, std::initializer_list<value> parameters);

  /// Ends the leases of all owners of other incarnations. Returns the number of rows.
  std::size_t expire_others(std::string_view incarnation);
  [[nodiscard]] dialect const& statements() const noexcept { return dialect_; }

  /// Tells in the receipt where the rows stand that were just inserted on this connection.
  void tell(connection& c, std::span<insertion const> rows, insert_receipt& receipt) const;

  /// Unblocks the rows behind those that have left the line of their key. Returns the number of rows. Behind the
  /// settlements, in their transaction.
  std::size_t unblock(connection& c, std::span<settlement const> items) const;

 private:
  [[nodiscard]] std::vector<route_pause> read_pauses(connection& c);
  std::vector<event_type_counts> read_types(std::string const& statement, std::initializer_list<value> parameters);
  std::size_t change_rows(std::string const& statement, event_filter const& filter, bool dead,
                          std::vector<value> first);
  bool change_pauses(std::function<bool(std::vector<route_pause>&)> const& change);

  dialect dialect_;
};

/// Notes the number of rows of one status.
void add_to(table_counts& counts, std::int64_t status, std::uint64_t n) noexcept;

// The widths of columns, in characters.
inline constexpr std::size_t longest_error = 4000;
inline constexpr std::size_t width_of_who = 128;
inline constexpr std::size_t width_of_verb = 32;

}  // namespace outbox::inline v0::sql
