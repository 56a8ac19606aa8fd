// The caller's transaction of any backend.
#pragma once

#include <outbox/testing/contract/backend.hpp>
#include <string>
#include <utility>

namespace outbox {

template <class Backend, class Transaction>
class caller final : public contract::caller_transaction {
 public:
  /// Begins a transaction on `on`: a connection, or a store that needs none.
  template <class On>
  caller(Backend& b, On& on) : backend_{b}, tx_{on} {}

  transaction_ref ref() override { return join(tx_); }
  void savepoint(std::string const& name) override { backend_.savepoint(tx_, name); }
  void rollback_to(std::string const& name) override { backend_.rollback_to(tx_, name); }
  void commit() override { tx_.commit(); }
  void rollback() override { tx_.rollback(); }

 private:
  Backend& backend_;
  Transaction tx_;
};

/// Runs `f` in a transaction on `on`, then commits or rolls back.
template <class Transaction, class On, class F>
void transact_on(On& on, bool commit, F&& f) {
  Transaction tx{on};
  std::forward<F>(f)(tx);
  if (commit) tx.commit();
}

}  // namespace outbox
