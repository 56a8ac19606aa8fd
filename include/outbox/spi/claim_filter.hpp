// Which due rows a claim takes: the same rule for every store that walks its rows in claim order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <outbox/detail/core_export.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace outbox::inline v0::spi {

/// Decides for each row whether a claim takes it. The store shows it due rows, oldest due instant first; for a claim in
/// order, pending rows by `seq`. It sees blocked rows only in a run. It writes into the reply what the engine must know
/// about rows that it leaves.
///
/// A keyed claim asks `room_behind` for each row that was taken and whose next row is blocked. If there is room, the
/// store shows the rows behind it to `follow`, by `seq`, until one of them is not taken.
///
/// Use from one thread at a time.
class OUTBOX_CORE_EXPORT claim_filter {
 public:
  enum class choice {
    leave,  ///< Not for this claim.
    dead,   ///< Its crashes are used up: make it DEAD.
    take,   ///< Give it to the claim.
    note,   ///< It waits for another row of its key: note that it is blocked.
    stop,   ///< Neither this row nor any behind it.
  };

  /// What the rule asks of a row.
  struct candidate {
    std::string_view id{};                  ///< The event id.
    std::string_view event_type{};          ///< The event type.
    std::string_view aggregate_type{};      ///< `global_aggregate` if the row names none.
    bool owned = false;                     ///< It has an owner whose lease is over (in order: or still runs).
    std::optional<instant> foreign_lock{};  ///< When a program without leases locked it.
    std::string_view foreign_owner{};       ///< The name of that program in `locked_by`.
    bool tried = false;                     ///< A settlement put it back: it is RETRY, or has an error.
    std::int32_t crashes = 0;               ///< As stored; the present owner is not counted.
    instant inserted_at{};                  ///< By the store's clock.
    instant claimable_at{};                 ///< The later of `available_at` and `lease_until`.
    std::size_t bytes = 0;                  ///< The size of its event.

    // What only a keyed claim asks.
    std::string_view key{};     ///< Its key. Empty if it has none or is outside the order.
    std::string_view before{};  ///< The id of the row before it in its key, or empty.
    bool next_blocked = false;  ///< The row behind it in its key is blocked.
  };

  /// Both references must outlive the filter.
  claim_filter(claim_request const& request, claim_reply& reply) noexcept;

  /// Decides about the next row.
  [[nodiscard]] choice consider(candidate const& row);

  /// How many rows behind `head`, which was taken, the claim may take besides. 0: its run is not for this claim.
  [[nodiscard]] std::size_t room_behind(candidate const& head) const;

  /// Decides about the row right behind one that was taken: `take`, or `stop`. The store has locked it, or knows in
  /// another way that no other program changes it.
  [[nodiscard]] choice follow(candidate const& row);

 private:
  [[nodiscard]] bool waits_for_another(candidate const& row) const;
  void remember(candidate const& row);
  [[nodiscard]] choice by_due_instant(candidate const& row);
  [[nodiscard]] choice in_order(candidate const& row);
  [[nodiscard]] bool too_young(candidate const& row) const noexcept;
  [[nodiscard]] bool locked_elsewhere(candidate const& row);
  void note_lag(candidate const& row);
  [[nodiscard]] choice take(candidate const& row);

  claim_request const& request_;
  claim_reply& reply_;
  std::size_t const limit_;
  std::size_t taken_ = 0;
  std::size_t bytes_ = 0;
  bool first_ = true;
  bool suspect_taken_ = false;
  bool left_one_ = false;
  std::unordered_set<std::string> taken_ids_;                  ///< Of rows in line; keyed claims only.
  std::unordered_map<std::string, std::size_t> taken_of_key_;  ///< The number of rows; keyed claims only.
};

/// What a claim looks at in a row. `claimable_at` is the instant from which the row can be claimed; `locked_at` matters
/// only where other programs lock rows. Points into `row`.
[[nodiscard]] OUTBOX_CORE_EXPORT claim_filter::candidate candidate_of(row_view const& row, instant claimable_at,
                                                                      std::optional<instant> locked_at = {});

/// The reply for a row that was claimed, as it is after the claim: its crashes include the claim's. `locator` is the
/// store's own; `malformed` says why the row cannot be read, if it cannot.
[[nodiscard]] OUTBOX_CORE_EXPORT claimed_row claim_of(row_view&& row, owner_token const& token, std::int64_t locator,
                                                      std::string malformed = {});

/// The error of a row that becomes DEAD because its crashes are used up.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string crash_budget_exhausted(std::int32_t crashes);

}  // namespace outbox::inline v0::spi
