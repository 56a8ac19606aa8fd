// Writes, claims, settles and renews many rows at once: for database servers, where every statement is a round trip.
//
// The algorithms are here: which rows a claim looks at and takes, how it goes on without rows that cannot be claimed,
// how settlements are grouped, sorted and applied, how a write is divided, how conflicts are tried again. A database
// adds the sends, each of which should be one round trip.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <outbox/spi/claim_filter.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/resumed_walk.hpp"
#include "sql/note_pace.hpp"
#include "sql/row_chooser.hpp"
#include "sql/sql_store.hpp"
#include "sql/stored_event.hpp"

namespace outbox::inline v0::sql {

using optional_text = std::optional<std::string_view>;

/// Settlements of one outcome as columns, in the order of their ids. No id occurs twice.
struct OUTBOX_SQL_EXPORT settle_group {
  spi::outcome outcome{};
  bool of_one = false;               ///< All are delivered, have the same token, and no progress.
  std::vector<std::size_t> indexes;  ///< Their places in the call.
  std::vector<optional_text> id, token, progress, error;
  std::vector<std::int64_t> locator;         ///< The row's `seq` if a claim has told it, else 0.
  std::vector<std::int64_t> delay, counted;  ///< Delays in microseconds.
  std::vector<std::int64_t> leaves;          ///< 1: the row leaves the line of its key.

  void add(std::size_t index, settlement const& s);

  /// Adds item `i` of another group.
  void add_from(settle_group const& other, std::size_t i);

  /// Notes that the row with this id was settled.
  void apply(std::string_view row_id, std::vector<bool>& applied) const;
};

/// A row in line.
struct line_position {
  std::string key{};
  std::int64_t seq = 0;
};

/// Rows that should have left the line of their key when their settlements are applied.
struct left_rows {
  std::vector<optional_text> key, id;
  std::vector<std::int64_t> seq;
};

class OUTBOX_SQL_EXPORT set_store : public sql_store {
 public:
  ~set_store() override;

  using sql_store::insert;
  void insert(transaction_ref tx, std::span<insertion const> rows,
              std::shared_ptr<insert_receipt> const& receipt) override;
  claim_reply claim(claim_request const& request) override;
  settle_reply settle(std::span<settlement const> items) override;
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override;
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override;
  std::vector<place> places(std::span<std::string const> ids) override;
  std::size_t heal(std::size_t limit) override;
  void set_keyed(bool keyed) override;

 protected:
  explicit set_store(dialect d);

  /// Runs `f` with a connection of the store that no other thread uses meanwhile.
  virtual void with_connection(work const& f) = 0;

  /// Runs `f` again if it met a conflict with other transactions, a few times.
  void with_writer(work const& f) override;
  void with_reader(work const& f) override { with_writer(f); }

  // The sends.

  /// One event, or many, on the caller's connection. `receipt` is null if the node does not ask where the rows stand.
  /// Else it has an entry for each row of the whole write; those of these rows begin at `at`. A store that cannot tell
  /// leaves them as they are: not known.
  virtual void send_insert(connection& c, stored_event const& e, std::shared_ptr<insert_receipt> const& receipt,
                           std::size_t at) = 0;
  virtual void send_insert(connection& c, std::span<insertion const> rows,
                           std::shared_ptr<insert_receipt> const& receipt, std::size_t at) = 0;

  /// Begins the transaction of a claim, unless a narrower look of the same claim has; locks up to `window` claimable
  /// rows, passing over those that others have locked, and shows them in claim order.
  virtual void send_look(connection& c, claim_request const& request, std::size_t window, row_chooser& choose) = 0;

  /// In the transaction of a look: reads the rows behind `choose.heads()`, locks those of them that no other
  /// transaction has locked, and shows them, head by head and by `seq`.
  virtual void send_run(connection& c, row_chooser& choose) = 0;

  /// Gives `chosen.ids` to the claim, makes `chosen.dead` DEAD and commits. Unless there is more, also asks when the
  /// next row can be claimed. Shows the rows that were taken, in any order, with the columns `{claimed}`.
  ///
  /// Behind the commit, in the same round trip and in a transaction of its own, notes `chosen.note`. Why not in that of
  /// the claim, which waits for this program: a note holds the lock of the row before, which is another node's, and
  /// whose settlement and renewal wait for it. A failure of the note alone is returned.
  virtual std::optional<error> send_take(connection& c, claim_request const& request, chosen_rows const& chosen,
                                         claim_reply& reply, row_function const& on_row) = 0;

  /// Notes that these rows wait for the row before them. A row is noted only by a transaction that holds the lock of
  /// the row immediately before it and sees that this one is in line. Never waits for a lock. Returns the number of
  /// rows.
  virtual std::size_t send_note(connection& c, std::span<std::string const> ids) = 0;

  /// Puts rows of other programs outside the order that were written with a delay, and unblocks what is behind them.
  /// Passes over rows that others have locked. Returns the number of rows that left.
  virtual std::size_t send_leave(connection& c, std::span<std::string const> ids) = 0;

  /// Tells where rows stand: one entry for each id.
  virtual void send_places(connection& c, std::span<std::string const> ids, std::vector<place>& places) = 0;

  /// Looks at the first rows in line of the keys behind `after`, at most `keys` of them, and unblocks those that are
  /// blocked. Returns the number of rows. Sets `after` to the last key that it saw, or empties it if it saw the last
  /// one.
  virtual std::size_t send_heal(connection& c, std::string& after, std::size_t keys) = 0;

  /// Clears the notes of at most `limit` rows in line behind `after`, by key and `seq`. Sets `after` to the last row
  /// that it saw. Returns false if it saw the last one.
  virtual bool send_clear_notes(connection& c, line_position& after, std::size_t limit) = 0;

  /// Settles all groups in one transaction, and calls `settle_group::apply` for each row. Behind them, in the same
  /// transaction, unblocks the rows behind those that have left the line of their key.
  virtual void send_settle(connection& c, std::span<settle_group const> groups, left_rows const& left,
                           settle_reply& reply) = 0;

  /// Extends the leases of rows that are named by id and token, sorted. Shows the id and token of each that it
  /// extended.
  virtual void send_renew(connection& c, std::span<optional_text const> ids, std::span<optional_text const> tokens,
                          std::chrono::milliseconds lease, row_function const& on_row) = 0;

  /// Returns the number of rows that it released.
  virtual std::size_t send_release(connection& c, std::span<owner_token const> tokens,
                                   std::chrono::milliseconds lease) = 0;

  /// A claim in order has left a backlog.
  virtual void on_ordered_backlog() noexcept {}

 private:
  [[nodiscard]] chosen_rows look(connection& c, claim_request const& request, std::size_t most, claim_reply& reply);
  void take(connection& c, claim_request const& request, chosen_rows const& chosen, claim_reply& reply,
            std::vector<settlement>& behind_refused);
  [[nodiscard]] static bool notes_can_wait(claim_request const& request, chosen_rows const& chosen) noexcept;
  void finish_notes(connection& c, chosen_rows const& chosen, std::optional<error> const& failure, claim_reply& reply);
  void note_one_by_one(connection& c, chosen_rows const& chosen, claim_reply& reply);
  void let_leave(connection& c, chosen_rows const& chosen, claim_reply& reply);
  std::size_t try_to_leave(connection& c, std::span<std::string const> ids, claim_reply& reply);
  void clear_notes();
  [[nodiscard]] claim_reply claim_or_isolate(connection& c, claim_request request, bool& partly,
                                             std::vector<settlement>& behind_refused);

  core::resumed_walk<std::string> healing_;  ///< Behind a key.
  note_pace note_pace_;
  std::atomic<std::size_t> last_notes_ = 0;    ///< The number of rows that the last keyed claim noted,
  std::atomic<std::size_t> last_unnoted_ = 0;  ///< and of those that it could have noted and left.
};

}  // namespace outbox::inline v0::sql
