// The caller's transaction, as much of it as an outbox needs to know.
#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <memory>
#include <outbox/detail/core_export.hpp>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace outbox::inline v0 {

namespace sql {
class connection;
}

/// Told how a transaction ended: exactly one of `committed`, `rolled_back`, `committed_in_part` and `in_doubt` is
/// called, once, on the thread that ended it.
///
/// All of it is noexcept and does no I/O of its own: after COMMIT nothing of the outbox may harm the caller. A writer
/// hook of the application's may be called by it and use the connection. An observer may outlive its node; it then does
/// nothing.
class OUTBOX_CORE_EXPORT transaction_observer {
 public:
  transaction_observer() = default;
  transaction_observer(transaction_observer const&) = delete;
  transaction_observer& operator=(transaction_observer const&) = delete;
  virtual ~transaction_observer();

  /// The events whose rows must be there when the transaction commits, and the tokens that they were born with: a row
  /// with the same id and another token is another row, written after a savepoint had taken this one back.
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  [[nodiscard]] virtual std::string const& event_id(std::size_t index) const noexcept = 0;
  [[nodiscard]] virtual std::string const& token(std::size_t index) const noexcept = 0;  ///< Empty: without an owner.

  /// Before COMMIT: row `index` is gone, because a savepoint was rolled back. It will not be delivered.
  virtual void absent(std::size_t index) noexcept = 0;

  virtual void committed() noexcept = 0;
  virtual void rolled_back() noexcept = 0;
  virtual void committed_in_part() noexcept = 0;  ///< It has committed; which of the rows are there is unknown.
  virtual void in_doubt() noexcept = 0;           ///< The outcome of COMMIT is unknown.
};

/// What a kind of transaction can do; one static table per kind. `tx` is what the `transaction_ref` was made with.
struct transaction_operations {
  /// "memory", "sqlite", …: a store refuses a transaction of another kind.
  std::string_view kind;

  /// True between BEGIN and its end. No round trip.
  bool (*active)(void const* tx) noexcept;

  /// Registers an observer and returns true, or returns false if this kind cannot tell how it ends.
  bool (*enlist)(void* tx, std::shared_ptr<transaction_observer> observer);

  /// What the store of this kind works on; null where that is `tx` itself.
  void* (*session)(void* tx) noexcept = nullptr;

  /// Calls `use` with a connection that runs statements in this transaction, through the client that the application
  /// has; null where the store knows how to do that itself.
  void (*run)(void* tx, void (*use)(void* what, sql::connection& on), void* what) = nullptr;
};

/// A caller's transaction with its type gone: two pointers, not owning, like a string_view. For layers that must not be
/// templates; everyone else passes the transaction itself.
class transaction_ref {
 public:
  transaction_ref(void* tx, transaction_operations const& operations) noexcept : tx_{tx}, operations_{&operations} {}

  [[nodiscard]] std::string_view kind() const noexcept { return operations_->kind; }
  [[nodiscard]] bool active() const noexcept { return operations_->active(tx_); }
  [[nodiscard]] bool enlist(std::shared_ptr<transaction_observer> observer) const {
    return operations_->enlist(tx_, std::move(observer));
  }

  /// What the store of this kind casts back; `session()` is null if the kind has none.
  [[nodiscard]] void* target() const noexcept { return tx_; }
  [[nodiscard]] void* session() const noexcept {
    return operations_->session == nullptr ? nullptr : operations_->session(tx_);
  }

  /// Calls `use` with a connection in this transaction; false if this kind has none to offer.
  template <class F>
  bool run(F&& use) const {
    if (operations_->run == nullptr) return false;
    operations_->run(
        tx_, [](void* what, sql::connection& on) { (*static_cast<std::remove_reference_t<F>*>(what))(on); }, &use);
    return true;
  }

 private:
  void* tx_;
  transaction_operations const* operations_;
};

/// Teaches `write()` to join transactions of type `Tx`. Specialised with
///
///     static transaction_ref join(Tx& tx);
///
/// by the header of a store or an adapter.
template <class Tx>
struct transaction_traits;

template <>
struct transaction_traits<transaction_ref> {
  static transaction_ref join(transaction_ref& tx) noexcept { return tx; }
};

/// A transaction type that `write()` accepts.
template <class Tx>
concept joinable = requires(std::remove_reference_t<Tx>& tx) {
  { transaction_traits<std::remove_cvref_t<Tx>>::join(tx) } -> std::same_as<transaction_ref>;
};

/// The transaction with its type gone.
template <class Tx>
[[nodiscard]] transaction_ref join(Tx&& tx) {
  static_assert(joinable<Tx>,
                "outbox cannot join this: pass a transaction, not a connection or a nontransaction, and include the "
                "header that joins it (<outbox/sqlite.hpp>, <outbox/postgres.hpp>, <outbox/adapt/pqxx.hpp>), or "
                "specialise outbox::transaction_traits<Tx>");
  if constexpr (joinable<Tx>) {
    return transaction_traits<std::remove_cvref_t<Tx>>::join(tx);
  } else {
    std::terminate();
  }
}

}  // namespace outbox::inline v0
