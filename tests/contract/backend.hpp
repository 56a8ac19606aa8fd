// What a store brings along to run the contract suite.
#pragma once

#include <chrono>
#include <memory>
#include <outbox/store.hpp>
#include <outbox/transaction.hpp>
#include <string>
#include <string_view>

namespace outbox::contract {

/// A caller's transaction on some backend.
class caller_transaction {
 public:
  virtual ~caller_transaction() = default;
  virtual transaction_ref ref() = 0;
  virtual void savepoint(std::string const& name) = 0;
  virtual void rollback_to(std::string const& name) = 0;
  virtual void commit() = 0;
  virtual void rollback() = 0;
};

/// The statement with {table} replaced.
inline std::string with_name(std::string sql, std::string const& table) {
  constexpr std::string_view mark = "{table}";
  for (auto at = sql.find(mark); at != std::string::npos; at = sql.find(mark)) sql.replace(at, mark.size(), table);
  return sql;
}

/// A fresh, empty database.
class backend {
 public:
  virtual ~backend() = default;
  virtual spi::store& store() = 0;
  virtual std::unique_ptr<caller_transaction> begin() = 0;

  /// Lets this long pass as far as the rows are concerned: no case ever sleeps.
  virtual void advance(std::chrono::milliseconds by) = 0;

  /// Returns when no transaction that was under way before can still commit something: others use the same server.
  virtual void wait_for_earlier_transactions() {}

  /// Runs SQL of another program's, in which {table} is the table. False if no other program can write to this store.
  virtual bool foreign(std::string const& /*sql*/) { return false; }

  /// Has every change of rows fail whose id is LIKE this, as a trigger of the user's would. Once. False: there are no
  /// triggers.
  virtual bool refuse_changes_of(std::string const& /*ids*/) { return false; }

  /// Puts `text` where the store keeps what is paused, as somebody else would. False if it keeps no text.
  virtual bool overwrite_pauses(std::string const& /*text*/) { return false; }

  /// The column as other programs see it, as text that grows with it; empty where there is none.
  virtual std::string locked_at(std::string const& /*id*/) { return {}; }

  /// A second database of the same kind.
  virtual std::unique_ptr<backend> other() = 0;
};

}  // namespace outbox::contract
