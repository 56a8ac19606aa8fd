// How a transaction ends: its observers, the rows that they wait for, and one of four outcomes. For authors of stores
// and of adapters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <outbox/detail/core_export.hpp>
#include <outbox/transaction.hpp>
#include <string_view>
#include <vector>

namespace outbox::inline v0::spi {

/// The writes that joined one transaction, in the order in which they were made. The object that ends the transaction
/// owns one of these: it enlists observers, may find out which rows are missing, and then calls one of `committed`,
/// `committed_in_part`, `rolled_back` and `in_doubt`. Each of these calls every observer once and leaves the object
/// empty before it calls the first one, because an observer may begin the next transaction on the same connection.
///
/// Use from one thread at a time. It shares the observers with the writer.
class OUTBOX_CORE_EXPORT enlisted {
 public:
  /// The table of a write whose store has not said where the rows go.
  static constexpr std::size_t no_table = SIZE_MAX;

  /// A row that must be there when the transaction commits. The views live as long as the observer is enlisted.
  struct row {
    std::size_t table = no_table;  ///< The number that was passed to `writes_to`.
    std::string_view event_id{};   ///< The id of its event.
    std::string_view token{};      ///< Empty: the row has no owner.
  };

  /// Begins a write and registers its observer.
  void enlist(std::shared_ptr<transaction_observer> observer);

  /// Says that the write that began last goes to `table`, a number that the caller chooses. A write that has no
  /// observer begins here. Returns the number of the write.
  std::size_t writes_to(std::size_t table);

  /// Returns the table of a write.
  [[nodiscard]] std::size_t table_of(std::size_t write) const noexcept { return writes_[write].table; }

  /// Says that it cannot be found out which rows of this write are there. `committed` then tells its observer
  /// `committed_in_part`.
  void doubt(std::size_t write) noexcept { writes_[write].doubted = true; }

  /// Does the same for all writes to `table`.
  void doubt_table(std::size_t table) noexcept;

  /// Shows the rows of every write that is not in doubt.
  void for_each_row(std::function<void(row const&)> const& show) const;

  /// Asks `present` for the rows of every write that is not in doubt, and tells the observers which are absent. Of two
  /// rows with the same table, id and token the later one counts: it could not have been written while the earlier one
  /// was there. What `present` throws passes through; then `confirm` may be called again.
  void confirm(std::function<bool(row const&)> const& present);

  [[nodiscard]] bool empty() const noexcept { return writes_.empty(); }

  void committed() noexcept;
  void committed_in_part() noexcept;  ///< It has committed; it is unknown which of the rows are there.
  void rolled_back() noexcept;
  void in_doubt() noexcept;  ///< It is unknown whether it has committed.

 private:
  struct one_write {
    std::shared_ptr<transaction_observer> observer{};  ///< May be null.
    std::size_t table = no_table;                      ///< The number that was passed to `writes_to`.
    bool doubted = false;                              ///< Which of its rows are there is unknown.
  };

  template <class Tell>
  void end(Tell&& tell) noexcept;

  std::vector<one_write> writes_;
};

}  // namespace outbox::inline v0::spi
