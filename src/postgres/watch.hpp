// An event procedure of libpq that sees how transactions on a connection end, whichever code ends them.
#pragma once

#include <libpq-events.h>

#include <cstdint>
#include <memory>
#include <outbox/spi/enlisted.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::postgres {

/// What is known about one connection. libpq owns it and destroys it with the connection. Use from one thread at a
/// time, like the connection.
class watch {
 public:
  /// Returns the watch of `c` and makes it if there is none yet. Returns null if libpq has no memory for it.
  static watch* of(PGconn* c);

  /// Registers an observer of the transaction that is open now.
  void enlist(std::shared_ptr<transaction_observer> observer);

  /// A savepoint was set since the transaction began, or may have been before we looked.
  [[nodiscard]] bool savepoints() const noexcept { return savepoints_ || !whole_; }

  /// A point in the life of the connection.
  struct mark {
    std::uint64_t setbacks = 0;  ///< Statements that failed, rollbacks and resets: rows written before may be gone.
    std::uint64_t commits = 0;   ///< Transactions that were committed or prepared.
    std::uint64_t ends = 0;      ///< Transactions that ended, as far as tags tell for certain.
    friend bool operator==(mark const&, mark const&) = default;
  };
  [[nodiscard]] mark now() const noexcept { return now_; }

  /// True if no transaction ended since then, and rows that were written since then are there.
  [[nodiscard]] bool unchanged_since(mark const& m) const noexcept { return now_ == m; }

  /// The same, as of the moment before the last COMMIT.
  [[nodiscard]] bool was_unchanged_at_commit(mark const& m) const noexcept { return at_commit_ == m; }

  /// With AND CHAIN the next transaction is open already.
  [[nodiscard]] bool ended_since(mark const& m) const noexcept { return now_.ends != m.ends; }
  [[nodiscard]] bool committed_since(mark const& m) const noexcept { return now_.commits != m.commits; }

  /// Rows of the open transaction were suppressed when they were inserted.
  void doubt_rows() noexcept { suspect_ = true; }

  /// Says that no transaction is open.
  void idle() noexcept;

  /// What is known about a table that this connection reaches.
  struct reach {
    std::string table_id{};
    bool may_look = false;  ///< Its role sees the rows that it has written.
    bool may_read = false;  ///< Its role sees all rows, and may read every column.
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
    ++now_.setbacks;
  }
  void end(void (spi::enlisted::*how)() noexcept) noexcept;
  void end_in_doubt() noexcept { end(&spi::enlisted::in_doubt); }

  spi::enlisted writes_;
  std::vector<reach> reached_;
  bool open_ = false;        ///< A transaction is open, as far as tags tell.
  bool whole_ = false;       ///< It was seen from its beginning.
  bool savepoints_ = false;  ///< One was set.
  bool suspect_ = false;     ///< Rows that were written since the first observer was enlisted may not be there.
  mark now_;
  mark at_commit_;  ///< Before the last COMMIT.
};

}  // namespace outbox::inline v0::postgres
