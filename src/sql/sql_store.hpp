// What the stores of all SQL databases share. A database adds its connections, and how rows are written, claimed,
// settled and renewed: row by row (row_store) or many at once (set_store).
#pragma once

#include <atomic>
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
  std::vector<dead_event> dead(dead_filter const& filter, std::size_t limit) override;
  std::uint64_t count_dead(dead_filter const& filter) override;
  bool replay(std::string_view id) override;
  std::size_t replay_some(dead_filter const& filter, instant died_by, std::size_t limit) override;
  std::vector<route_pause> pauses() override;
  bool pause(route_pause const& what) override;
  bool resume(route_pause const& what) override;
  std::size_t ignored_pauses() noexcept override { return ignored_pauses_; }
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

  /// Runs `f` in a transaction of its own on the writer, which is rolled back if `f` throws.
  void in_transaction(work const& f);

  /// Runs one statement on the writer. Returns the number of rows that it matched.
  std::size_t change(std::string const& sql, std::initializer_list<value> parameters);

  /// Ends the leases of all owners of other incarnations. Returns the number of rows.
  std::size_t expire_others(std::string_view incarnation);
  [[nodiscard]] dialect const& statements() const noexcept { return dialect_; }

 private:
  [[nodiscard]] std::vector<route_pause> read_pauses(connection& c);
  bool change_pauses(std::function<bool(std::vector<route_pause>&)> const& change);

  dialect dialect_;
  std::atomic<std::size_t> ignored_pauses_ = 0;
};

}  // namespace outbox::inline v0::sql
