// The caller's transaction: what an outbox needs to know about it. Applications use `transaction_ref` and `join`;
// authors of stores and adapters use the rest.
#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <memory>
#include <outbox/detail/core_export.hpp>
#include <outbox/error.hpp>  // before `no_transaction`: g++ warns of a shadow in the other order
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace outbox::inline v0 {

/// Is told how a transaction ended: exactly one of `committed`, `rolled_back`, `committed_in_part` and `in_doubt` is
/// called, once, on the thread that ended it. `outbox::spi::enlisted` makes these calls.
///
/// All functions are noexcept and do no I/O: after COMMIT the outbox must not harm the caller. They may call a writer
/// hook of the application, which may use the connection. An observer may outlive its node; it then does nothing.
class OUTBOX_CORE_EXPORT transaction_observer {
 public:
  transaction_observer() = default;
  transaction_observer(transaction_observer const&) = delete;
  transaction_observer& operator=(transaction_observer const&) = delete;
  virtual ~transaction_observer();

  /// The number of rows that must be there when the transaction commits.
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;

  /// The event of row `index`.
  [[nodiscard]] virtual std::string const& event_id(std::size_t index) const noexcept = 0;

  /// The token that row `index` was written with; empty if it has no owner. A row with the same id and another token
  /// is another row, written after a savepoint had taken this one back.
  [[nodiscard]] virtual std::string const& token(std::size_t index) const noexcept = 0;

  /// Row `index` is gone, because a savepoint was rolled back. It will not be delivered. Called before the end.
  virtual void absent(std::size_t index) noexcept = 0;

  virtual void committed() noexcept = 0;
  virtual void rolled_back() noexcept = 0;
  virtual void committed_in_part() noexcept = 0;  ///< It has committed; it is unknown which of the rows are there.
  virtual void in_doubt() noexcept = 0;           ///< It is unknown whether it has committed.
};

/// What a kind of transaction can do; one static table per kind. `tx` is the pointer that the `transaction_ref` was
/// made with.
struct transaction_operations {
  /// "memory", "sqlite", …: a store refuses a transaction of another kind. Empty for `no_transaction` alone.
  std::string_view kind;

  /// Returns true between BEGIN and the end of the transaction. Makes no round trip.
  bool (*active)(void const* tx) noexcept;

  /// Registers an observer and returns true. Returns false if this kind cannot tell how the transaction ends.
  bool (*enlist)(void* tx, std::shared_ptr<transaction_observer> observer);

  /// Calls `use(what, session)` once. The kind defines what `session` points to: a `memory::transaction` for "memory",
  /// and a `sql::connection`, converted to exactly that type, for the kinds of SQL stores. Null: nothing to work on.
  void (*run)(void* tx, void (*use)(void* what, void* session), void* what) = nullptr;
};

/// A caller's transaction without its type: two pointers that own nothing, like a string_view. For layers that must not
/// be templates; other code passes the transaction itself. The transaction must outlive it.
class transaction_ref {
 public:
  transaction_ref(void* tx, transaction_operations const& operations) noexcept : tx_{tx}, operations_{&operations} {}

  [[nodiscard]] std::string_view kind() const noexcept { return operations_->kind; }

  /// True for `no_transaction`.
  [[nodiscard]] bool none() const noexcept { return kind().empty(); }
  [[nodiscard]] bool active() const noexcept { return operations_->active(tx_); }
  [[nodiscard]] bool enlist(std::shared_ptr<transaction_observer> observer) const {
    return operations_->enlist(tx_, std::move(observer));
  }

  /// For stores: calls `use(Session&)` with what stores of this kind work on. Check the kind first: it defines the
  /// type. Returns false if there is nothing to work on.
  template <class Session, class F>
  bool run(F&& use) const {
    if (operations_->run == nullptr) return false;
    using function = std::remove_reference_t<F>;
    operations_->run(
        tx_, [](void* what, void* session) { (*static_cast<function*>(what))(*static_cast<Session*>(session)); }, &use);
    return true;
  }

 private:
  void* tx_;
  transaction_operations const* operations_;
};

/// Teaches `write()` to join transactions of type `Tx`. The header of a store or of an adapter specialises it with
///
///     static transaction_ref join(Tx& tx);
template <class Tx>
struct transaction_traits;

template <>
struct transaction_traits<transaction_ref> {
  static transaction_ref join(transaction_ref& tx) noexcept { return tx; }
};

/// The type of `no_transaction`.
struct no_transaction_t {
  explicit no_transaction_t() = default;
};

/// Passed to `write()` instead of a transaction, for a store whose `requires_transaction` is false. The events are in
/// the store when `write()` returns. Other stores throw `error` (no_transaction).
inline constexpr no_transaction_t no_transaction{};

template <>
struct transaction_traits<no_transaction_t> {
  OUTBOX_CORE_EXPORT static transaction_ref join(no_transaction_t const& none) noexcept;
};

/// A transaction type that `write()` accepts.
template <class Tx>
concept joinable = requires(std::remove_reference_t<Tx>& tx) {
  { transaction_traits<std::remove_cvref_t<Tx>>::join(tx) } -> std::same_as<transaction_ref>;
};

/// Returns the transaction without its type.
template <class Tx>
[[nodiscard]] transaction_ref join(Tx&& tx) {
  static_assert(joinable<Tx>,
                "outbox cannot join this: pass a transaction, not a connection or a nontransaction, and include the "
                "header that joins it (<outbox/sqlite.hpp>, <outbox/postgres.hpp>, <outbox/mysql.hpp>, "
                "<outbox/adapt/pqxx.hpp>); with <outbox/adapt/soci.hpp>, <outbox/adapt/sqlitecpp.hpp> and "
                "<outbox/adapt/qt.hpp> pass the session or the database that is in a transaction; or specialise "
                "outbox::transaction_traits<Tx>");
  if constexpr (joinable<Tx>) {
    return transaction_traits<std::remove_cvref_t<Tx>>::join(tx);
  } else {
    std::terminate();
  }
}

}  // namespace outbox::inline v0
