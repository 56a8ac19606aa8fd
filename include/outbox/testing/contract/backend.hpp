// What the author of a store provides so that the contract suite can run against it.
#pragma once

#include <chrono>
#include <memory>
#include <outbox/spi/store.hpp>
#include <outbox/transaction.hpp>
#include <string>
#include <string_view>

namespace outbox::contract {

/// A transaction of the caller, on any kind of store. The destructor rolls back what was not committed.
class caller_transaction {
 public:
  virtual ~caller_transaction() = default;
  virtual transaction_ref ref() = 0;
  virtual void commit() = 0;
  virtual void rollback() = 0;

  /// Only called if `backend::has_savepoints()`.
  virtual void savepoint(std::string const& /*name*/) {}
  /// Only called if `backend::has_savepoints()`.
  virtual void rollback_to(std::string const& /*name*/) {}
};

/// Returns the statement with {table} replaced by the table's name.
inline std::string with_name(std::string sql, std::string const& table) {
  constexpr std::string_view mark = "{table}";
  for (auto at = sql.find(mark); at != std::string::npos; at = sql.find(mark)) sql.replace(at, mark.size(), table);
  return sql;
}

/// A fresh, empty store. The suite makes one for each case, by the default constructor, and needs a
/// `static constexpr char const* name` in the class: lower-case letters and underscores, part of each case's name.
///
/// The first three functions are required. The others have defaults for stores that lack a feature: the suite then
/// skips the cases that need it and prints the reason.
///
/// The suite calls these functions from one thread at a time, and `store()` from several.
class backend {
 public:
  virtual ~backend() = default;
  virtual spi::store& store() = 0;
  virtual std::unique_ptr<caller_transaction> begin() = 0;

  /// Lets this much time pass for the rows, by moving the store's clock forward or the rows' instants back. The suite
  /// never sleeps.
  virtual void advance(std::chrono::milliseconds by) = 0;

  /// Makes a second database of the same kind. Null if there can be only one.
  virtual std::unique_ptr<backend> other() { return nullptr; }

  /// True if transactions have savepoints.
  [[nodiscard]] virtual bool has_savepoints() const { return true; }

  /// Returns when no transaction that began earlier can still commit. Needed where other tests use the same server.
  virtual void wait_for_earlier_transactions() {}

  /// Runs SQL as another program would. {table} stands for the table; $1, $2, … stand for the values, in this order.
  /// False if other programs cannot use SQL here.
  virtual bool foreign(std::string const& /*sql*/, std::vector<std::string> const& /*values*/ = {}) { return false; }

  /// Makes every change of a row fail if its id is LIKE `ids`, as a trigger of the application would, with a message
  /// that contains "it is stuck". Called once at most. False if the store has no triggers.
  virtual bool refuse_changes_of(std::string const& /*ids*/) { return false; }

  /// Replaces the text in which the store keeps its pauses, as another program would. False if there is no such text.
  virtual bool overwrite_pauses(std::string const& /*text*/) { return false; }

  /// Notes on a row that it waits for another row of its key, as a claim that keeps an order per key does. Only called
  /// if `capabilities().keys`.
  virtual void block(std::string const& id) { foreign("UPDATE {table} SET blocked = true WHERE event_id = $1", {id}); }

  /// Returns why a case is left out, or nothing to run it. `name` is as in "Claim.OldestDueFirst". For stores that
  /// cannot do what the case asks; a missing capability leaves its cases out by itself.
  [[nodiscard]] virtual std::string left_out(std::string_view /*name*/) const { return {}; }

  /// Returns the column locked_at as other programs see it, as text that sorts by time. Empty if there is no column.
  virtual std::string locked_at(std::string const& /*id*/) { return {}; }
};

}  // namespace outbox::contract
