// The store that keeps its rows in memory: for tests, examples, and programs whose events may die with the process.
#pragma once

#include <functional>
#include <memory>
#include <outbox/clock.hpp>
#include <outbox/detail/memory_export.hpp>
#include <outbox/store.hpp>
#include <outbox/transaction.hpp>
#include <string>
#include <vector>

namespace outbox::inline v0::memory {

/// What a COMMIT does to a transaction: for tests of the outcomes that a database has and memory does not.
enum class commit_fate {
  ok,
  refused,       ///< Throws `error`; rolled back.
  lost_applied,  ///< Throws `error` (commit_in_doubt); it was applied.
  lost_undone,   ///< Throws `error` (commit_in_doubt); it was not.
};

struct options {
  /// Default: the machine's clock.
  std::shared_ptr<outbox::v0::clock const> clock{};

  /// True: a done row is deleted. Default false: it stays until it is purged.
  bool erase_done = false;

  /// Asked at every COMMIT. Default: ok.
  std::function<commit_fate()> at_commit{};
};

class database;

/// Opens a new, empty store. All of its functions are safe to call from several threads.
[[nodiscard]] OUTBOX_MEMORY_EXPORT std::shared_ptr<store> open(options o = {});

/// A transaction on a memory store: its rows are visible to nobody until it commits. Used by one thread at a time.
/// It begins when it is made, and rolls back when it is destroyed unfinished.
class OUTBOX_MEMORY_EXPORT transaction {
 public:
  /// Throws `error` (wrong_transaction) if `s` is not a memory store.
  explicit transaction(store& s);
  transaction(transaction const&) = delete;
  transaction& operator=(transaction const&) = delete;
  ~transaction();

  [[nodiscard]] bool active() const noexcept;

  /// A mark to roll back to.
  void savepoint(std::string name);

  /// Undoes what was written since the mark, which stays. Throws `error` (no_transaction) if there is no such mark.
  void rollback_to(std::string const& name);

  /// Throws `error` if it cannot, as with an event id that is taken; everything is rolled back then.
  void commit();
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
