// The transaction of the current thread, for code that cannot pass it along.
//
// Passing the transaction as an argument is better, because then it cannot be the wrong one. Where a call goes through
// layers that do not know about transactions, a context carries it past them.
#pragma once

#include <optional>
#include <outbox/detail/core_export.hpp>
#include <outbox/transaction.hpp>
#include <utility>

namespace outbox::inline v0 {

/// Knows which transaction is current. `write(context, …)` joins that transaction. It throws `error` (no_transaction)
/// if there is none.
class OUTBOX_CORE_EXPORT tx_context {
 public:
  tx_context() = default;
  tx_context(tx_context const&) = delete;
  tx_context& operator=(tx_context const&) = delete;
  virtual ~tx_context();

  /// Returns the current transaction, or nothing if there is none.
  [[nodiscard]] virtual std::optional<transaction_ref> current() const noexcept = 0;
};

/// One current transaction per thread; scopes nest. Thread-safe: each thread sees its own transaction. It must outlive
/// its scopes.
class OUTBOX_CORE_EXPORT thread_local_context final : public tx_context {
 public:
  /// Makes `tx` current on this thread as long as the scope lives. Scopes end in reverse order, on the thread that made
  /// them. The transaction must outlive the scope.
  class OUTBOX_CORE_EXPORT scope {
   public:
    template <joinable Tx>
    scope(thread_local_context const& context, Tx& tx) : scope{context, join(tx)} {}
    scope(thread_local_context const& context, transaction_ref tx);
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;
    ~scope();

   private:
    thread_local_context const* context_;
  };

  ~thread_local_context() override;
  [[nodiscard]] std::optional<transaction_ref> current() const noexcept override;
};

/// A transaction that is current as long as this object lives:
///
///     outbox::managed_transaction<outbox::sqlite::transaction> tx{context, db};
template <class Tx>
class managed_transaction {
 public:
  /// Begins a `Tx` made from `args`.
  template <class... Args>
  explicit managed_transaction(thread_local_context const& context, Args&&... args)
      : tx_{std::forward<Args>(args)...}, scope_{context, tx_} {}

  void commit() { tx_.commit(); }
  void rollback() noexcept { tx_.rollback(); }
  [[nodiscard]] Tx& get() noexcept { return tx_; }

 private:
  Tx tx_;
  thread_local_context::scope scope_;
};

template <>
struct transaction_traits<tx_context> {
  /// Returns the current transaction, or one that is not active if there is none.
  OUTBOX_CORE_EXPORT static transaction_ref join(tx_context const& context) noexcept;
};

template <>
struct transaction_traits<thread_local_context> : transaction_traits<tx_context> {};

}  // namespace outbox::inline v0
