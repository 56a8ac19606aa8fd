// An event procedure of libpq that sees how transactions on a connection end, whoever ends them.
#pragma once

#include <libpq-events.h>

#include <cstdint>
#include <memory>
#include <outbox/transaction.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::postgres {

/// What is known of one connection; it lives as long as that does. Used by the connection's thread.
class watch {
 public:
  /// The one of `c`, which is made if there is none yet; null if libpq has no memory for it.
  static watch* of(PGconn* c);

  /// Told of the end of the transaction that is open now.
  void enlist(std::shared_ptr<transaction_observer> observer);

  /// A savepoint was set since the transaction began, or may have been before we looked.
  [[nodiscard]] bool savepoints() const noexcept { return savepoints_ || !whole_; }

  /// How often on this connection a statement failed, or something was begun, rolled back or reset: rows written before
  /// may be gone.
  [[nodiscard]] std::uint64_t setbacks() const noexcept { return setbacks_; }
  [[nodiscard]] std::uint64_t setbacks_at_commit() const noexcept { return setbacks_at_commit_; }  ///< The last one.

  /// How often on this connection a transaction was committed or prepared, and how often one ended, as far as tags tell
  /// for certain: with AND CHAIN the next one is open already.
  [[nodiscard]] std::uint64_t commits() const noexcept { return commits_; }
  [[nodiscard]] std::uint64_t ends() const noexcept { return ends_; }

  /// Rows of the open transaction were suppressed when they were inserted.
  void doubt_rows() noexcept { suspect_ = true; }

  /// It is certain that no transaction is open.
  void idle() noexcept;

  /// What is known about a table that this connection reaches.
  struct reach {
    std::string table_id;
    bool may_look;  ///< Its role sees the rows that it has written.
  };

  /// Null if it is not known yet that the connection reaches the table.
  [[nodiscard]] reach const* find(std::string_view table_id) const noexcept;
  reach const* add(reach r) { return &reached_.emplace_back(std::move(r)); }

 private:
  static int on_event(PGEventId id, void* info, void* self) noexcept;
  void on_result(PGresult const* r) noexcept;
  void on_tag(std::string_view tag) noexcept;
  void note_setback() noexcept {
    suspect_ = true;
    ++setbacks_;
  }
  template <class Tell>
  void end(Tell&& tell) noexcept;
  void end_in_doubt() noexcept;

  std::vector<std::shared_ptr<transaction_observer>> observers_;
  std::vector<reach> reached_;
  bool open_ = false;   ///< A transaction is, as far as tags tell.
  bool whole_ = false;  ///< It was seen from its beginning.
  bool savepoints_ = false;
  bool suspect_ = false;  ///< Rows that were written since the first observer was enlisted may not be there.
  std::uint64_t setbacks_ = 0;
  std::uint64_t setbacks_at_commit_ = 0;
  std::uint64_t commits_ = 0;
  std::uint64_t ends_ = 0;
};

}  // namespace outbox::inline v0::postgres
