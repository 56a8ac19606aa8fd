// What a claim that changes many rows at once wants: chosen from the rows that its statements show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <outbox/detail/sql_export.hpp>
#include <outbox/spi/claim_filter.hpp>
#include <span>
#include <string>
#include <vector>

namespace outbox::inline v0::sql {

using namespace spi;

/// About how many rows a claim looks at.
inline constexpr std::size_t widest_window = 10'000;

/// The rows that a claim wants. They are locked.
struct chosen_rows {
  std::vector<std::string> ids;        ///< In the order of the claim.
  std::vector<std::string> types;      ///< One for each id.
  std::vector<std::int64_t> locators;  ///< One for each id, as the look told it.
  std::vector<dead_row> dead;          ///< To be made DEAD.

  // Of a keyed claim.
  std::vector<std::string> keys;     ///< One for each id. Empty if it is in no line.
  std::vector<std::string> note;     ///< Rows that wait for another row of their key.
  std::vector<std::string> delayed;  ///< Rows before others that another program wrote with a delay.

  [[nodiscard]] std::size_t size() const noexcept { return ids.size() + dead.size(); }
  [[nodiscard]] std::string const& first_id() const { return ids.empty() ? dead.front().id : ids.front(); }
  [[nodiscard]] std::string const& first_type() const { return ids.empty() ? dead.front().type : types.front(); }
};

/// A row that a claim takes, and whose next row in line is blocked: the claim may take its run.
struct run_head {
  std::string key;
  std::int64_t seq;
};

/// Chooses from the rows that `send_look` and `send_run` show.
class OUTBOX_SQL_EXPORT row_chooser {
 public:
  /// One note holds the locks of so many rows, and of those before them, which are other nodes' rows.
  static constexpr std::size_t most_notes = 500;

  /// Chooses at most `most` rows. Both references must outlive it.
  row_chooser(claim_request const& request, std::size_t window, std::size_t most, claim_reply& reply) noexcept;

  /// Tells the server's time of the claim. Called before the first row is shown.
  void begin(instant now) noexcept { reply_.now = now; }
  [[nodiscard]] instant now() const noexcept { return reply_.now; }

  /// What a database may tell of a row besides.
  struct more {
    /// False if a transaction that is still open may commit a row that belongs before this one; only a claim in order
    /// asks.
    bool nothing_earlier = true;
    std::int64_t locator = 0;  ///< The database's own way to find the row.

    // Of a keyed claim.
    std::int64_t seq = 0;
    bool before_is_delayed = false;  ///< Another program wrote the row before it with a delay.
  };

  /// Shows the next row in claim order. Returns false if no other row is wanted.
  bool see(claim_filter::candidate const& row, more const& also);

  /// How wide the next look must be, because rows that must be left filled this one; 0 if this look was enough.
  [[nodiscard]] std::size_t finish(bool notes_are_stuck);

  /// Those whose runs the claim wants, after the look.
  [[nodiscard]] std::span<run_head const> heads() const noexcept { return heads_; }

  /// How many rows behind each head are worth reading and locking: together little more than the claim has room for.
  [[nodiscard]] std::size_t longest_run() const noexcept;

  /// Shows the next row behind `heads()[head]`, whatever it is. `locked`: this claim has its lock, and it is pending
  /// and due.
  void see_behind(std::size_t head, claim_filter::candidate const& row, more const& also, bool locked);

  /// After the last run: rows that a run took wait for nothing.
  void finish_runs();

  [[nodiscard]] chosen_rows& chosen() noexcept { return chosen_; }

 private:
  [[nodiscard]] bool stop() noexcept {
    stopped_ = true;
    return false;
  }
  void take(claim_filter::candidate const& row, more const& also);
  void note(claim_filter::candidate const& row, more const& also);

  claim_request const& request_;
  std::size_t window_;
  std::size_t most_;
  claim_reply& reply_;
  claim_filter filter_;
  chosen_rows chosen_;
  std::vector<run_head> heads_;
  std::vector<bool> ended_;  ///< One per head: its run is over.
  std::size_t seen_ = 0;
  bool stopped_ = false;
};

}  // namespace outbox::inline v0::sql
