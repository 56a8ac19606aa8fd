// Writes, claims, settles and renews many rows at once: for database servers, where every statement is a round trip.
//
// The algorithms are here: which rows a claim looks at and takes, how it goes on without rows that cannot be claimed,
// how settlements are grouped, sorted and applied, how a write is divided, how conflicts are tried again. A database
// adds the sends, each of which should be one round trip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <outbox/spi/claim_filter.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sql/sql_store.hpp"
#include "sql/stored_event.hpp"

namespace outbox::inline v0::sql {

using optional_text = std::optional<std::string_view>;

/// The rows that a claim wants. They are locked.
struct chosen_rows {
  std::vector<std::string> ids;        ///< In the order of the claim.
  std::vector<std::string> types;      ///< One for each id.
  std::vector<std::int64_t> locators;  ///< One for each id, as the look told it.
  std::vector<dead_row> dead;          ///< To be made DEAD.

  [[nodiscard]] std::size_t size() const noexcept { return ids.size() + dead.size(); }
  [[nodiscard]] std::string const& first_id() const { return ids.empty() ? dead.front().id : ids.front(); }
  [[nodiscard]] std::string const& first_type() const { return ids.empty() ? dead.front().type : types.front(); }
};

/// Chooses from the rows that `send_look` shows.
class OUTBOX_SQL_EXPORT row_chooser {
 public:
  /// Chooses at most `most` rows. Both references must outlive it.
  row_chooser(claim_request const& request, std::size_t window, std::size_t most, claim_reply& reply) noexcept;

  /// Tells the server's time of the claim. Called before the first row is shown.
  void begin(instant now) noexcept { reply_.now = now; }

  /// What a database may tell of a row besides.
  struct more {
    /// False if a transaction that is still open may commit a row that belongs before this one; only a claim in order
    /// asks.
    bool nothing_earlier = true;
    std::int64_t locator = 0;  ///< The database's own way to find the row.
  };

  /// Shows the next row in claim order. Returns false if no other row is wanted.
  bool see(claim_filter::candidate const& row, more const& also);

  /// How wide the next look must be, because rows that must be left filled this one; 0 if this look was enough.
  [[nodiscard]] std::size_t finish();

  [[nodiscard]] chosen_rows& chosen() noexcept { return chosen_; }

 private:
  [[nodiscard]] bool stop() noexcept {
    stopped_ = true;
    return false;
  }

  claim_request const& request_;
  std::size_t window_;
  std::size_t most_;
  claim_reply& reply_;
  claim_filter filter_;
  chosen_rows chosen_;
  std::size_t seen_ = 0;
  bool stopped_ = false;
};

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

 protected:
  explicit set_store(dialect d);

  /// Runs `f` with a connection of the store that no other thread uses meanwhile.
  virtual void with_connection(work const& f) = 0;

  /// Runs `f` again if it met a conflict with other transactions, a few times.
  void with_writer(work const& f) override;
  void with_reader(work const& f) override { with_writer(f); }

  // The sends. Order per key will add a run of rows behind a look, a note as a transaction of its own behind a take,
  // and an unblock behind a settlement: each belongs to the round trip of the send that it follows.

  /// One event, or many, on the caller's connection.
  virtual void send_insert(connection& c, stored_event const& e) = 0;
  virtual void send_insert(connection& c, std::span<insertion const> rows) = 0;

  /// Begins the transaction of a claim, unless a narrower look of the same claim has; locks up to `window` claimable
  /// rows, passing over those that others have locked, and shows them in claim order.
  virtual void send_look(connection& c, claim_request const& request, std::size_t window, row_chooser& choose) = 0;

  /// Gives `chosen.ids` to the claim, makes `chosen.dead` DEAD and commits. Unless there is more, also asks when the
  /// next row can be claimed. Shows the rows that were taken, in any order, with the columns `{claimed}`.
  virtual void send_take(connection& c, claim_request const& request, chosen_rows const& chosen, claim_reply& reply,
                         row_function const& on_row) = 0;

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
  void take(connection& c, claim_request const& request, chosen_rows const& chosen, claim_reply& reply);
  [[nodiscard]] claim_reply claim_or_isolate(connection& c, claim_request request, bool& partly);
};

}  // namespace outbox::inline v0::sql
