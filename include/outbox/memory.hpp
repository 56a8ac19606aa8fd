// The store that keeps its rows in memory: for tests, examples, and programs whose events may end with the process.
#pragma once

#include <functional>
#include <memory>
#include <outbox/clock.hpp>
#include <outbox/detail/memory_export.hpp>
#include <outbox/store.hpp>
#include <outbox/transaction.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::memory {

/// What a COMMIT does to a transaction. Tests use it for outcomes that a database has and memory does not.
enum class commit_fate {
  ok,            ///< It is committed.
  refused,       ///< Throws `error`; rolled back.
  lost_applied,  ///< Throws `error` (commit_in_doubt); it is committed.
  lost_undone,   ///< Throws `error` (commit_in_doubt); it is not.
};

/// How a memory store behaves.
struct options {
  /// The store's clock, which it shares. Default: the machine's clock.
  std::shared_ptr<outbox::v0::clock const> clock{};

  /// What becomes of the row of a delivered event. Default `keep`: it stays until it is purged.
  outbox::v0::done_rows done_rows = done_rows::keep;

  /// Called at every COMMIT and at every write without a transaction, on its thread. Default: always ok.
  std::function<commit_fate()> at_commit{};

  /// The kind of the dispatch lock, for tests of nodes with each of them. Default: session, which here means that the
  /// lock lasts until it is destroyed.
  lock_kind dispatch_lock = lock_kind::session;

  /// False: `write(no_transaction, …)` works too. Default true, as with databases.
  bool requires_transaction = true;
};

class database;

/// Opens a new, empty store. Thread-safe. Its rows live as long as the store.
[[nodiscard]] OUTBOX_MEMORY_EXPORT std::shared_ptr<store> open(options o = {});

/// For tests: notes on a row that it waits for another row of its key, as a claim that keeps an order per key does.
/// Throws `error` (invalid_option) if `s` is not a memory store. Does nothing if there is no such event.
OUTBOX_MEMORY_EXPORT void block(store& s, std::string_view event_id);

/// A transaction on a memory store: its rows are invisible until it commits. It begins when it is made, and rolls back
/// when it is destroyed unfinished.
///
/// Use from one thread at a time. The store must outlive it.
class OUTBOX_MEMORY_EXPORT transaction {
 public:
  /// Throws `error` (wrong_transaction) if `s` is not a memory store.
  explicit transaction(store& s);
  transaction(transaction const&) = delete;
  transaction& operator=(transaction const&) = delete;
  ~transaction();

  /// True until the transaction ends.
  [[nodiscard]] bool active() const noexcept;

  /// Sets a mark to roll back to. Throws `error` (no_transaction) after the end.
  void savepoint(std::string name);

  /// Removes the rows that were written since the mark, which stays. Throws `error` (no_transaction) if there is no
  /// such mark.
  void rollback_to(std::string const& name);

  /// Throws `error` (duplicate_event) if an event id is taken; then the transaction is rolled back.
  void commit();

  /// Does nothing after the end.
  void rollback() noexcept;

 private:
  friend class database;
  friend struct transaction_access;
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace outbox::inline v0::memory

namespace outbox::inline v0 {

template <>
struct transaction_traits<memory::transaction> {
  OUTBOX_MEMORY_EXPORT static transaction_ref join(memory::transaction& tx) noexcept;
};

}  // namespace outbox::inline v0
