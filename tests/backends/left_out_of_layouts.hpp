// The cases of the contract that a table of another shape cannot meet, and why.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace outbox {

struct left_out_cases {
  std::string_view why;
  std::array<std::string_view, 12> names;  ///< Empty ones are ignored.
};

/// For every described table.
inline constexpr std::array<left_out_cases, 11> left_out_of_layouts{{
    {"the table has no column for a due instant: events with a delay are refused",
     {"Claim.OldestDueFirst", "Claim.DeliverAfterCountsFromTheInsert", "Claim.AvailableAtIsAnInstant",
      "Claim.SaysWhenTheNextDelayedRowIsDue", "Claim.DelayedAndLeasedRowsDoNotDelayOthers",
      "Insert.I11_InstantsComeBackToTheMicrosecond", "Lease.ReleaseTakesManyTokensAndLeavesDelayedRowsAlone",
      "Operator.I12_PurgeNeverTakesAPendingRow", "Order.I5_ABirthWithADelayIsPassedOver",
      "Pause.APausedRowIsNotDueNext", "Order.ManyDelayedRowsBeforeTheOthersAreNotInTheWay"}},
    {"the table has no column for the insert: ages count from the event's own instant",
     {"Claim.SkipRecentLeavesYoungRows", "Claim.SaysHowLongTheOldestHasBeenDue", "Filter.AgeCountsFromTheInsert",
      "Order.I5_WhatIsTooYoungHoldsUpTheRest", "Order.WhatIsTooYoungSaysWhenItIsNot"}},
    {"a claim reads all pending rows of the table, oldest first, and has no use for a floor",
     {"Claim.WithAFloorItTakesEveryDueRowFromThereOn", "Claim.WithinItsReachItTakesEverything"}},
    {"the table has no column for an ordering key: events with one are refused",
     {"Filter.EachFieldNarrows", "Filter.DiscardTakesADeadRowOutOfLineAndUnblocksTheNext",
      "Filter.ADiscardedRowThatIsReplayedStaysOutsideTheOrder", "Insert.I11_EveryFieldComesBack",
      "Insert.NamesMayBeAsLongAsTheirColumns"}},
    {"the table has no word for RETRY", {"Filter.ByStatus"}},
    {"the table has no number for its rows",
     {"Filter.AListShowsTheWholeRow", "Insert.SequenceGrowsAndInsertedAtIsTheStoresTime"}},
    {"the table has no column for the end of dead rows: it counts from the event's own instant",
     {"Filter.CancelMakesPendingRowsDeadWithTheReason", "Operator.I12_PurgeTakesTerminalRowsPastRetention",
      "Operator.I12_RetentionCountsFromTheEndNotTheBeginning", "Operator.DeadEventsComeOldestFirstWithErrorAndAttempts",
      "Settle.DeadKeepsItsReasonAndItsTime", "Operator.ReplaySomeInBatchesOldestFirst", "Operator.ReplaySomeByFilter",
      "Operator.ReplaySomeTouchesOnlyThoseDeadBeforeItBegan", "Filter.DiedByMatchesNoPendingRow"}},
    {"the table has no column for an owner: rows are not born with one",
     {"Insert.I2_ARowOfTheSameIdWrittenAfterASavepointIsAnotherRow", "Insert.ARowWrittenWithAnOwnerIsOwned",
      "Insert.ARowWhoseOwnerVanishedCountsACrash", "Lease.ReleaseByTokenReachesBirths",
      "Order.I5_ALiveOwnerHoldsUpTheRest", "Lease.ReleaseFindsItsRowsAmongManyOfOthers"}},
    {"the table holds JSON only: bytes are refused",
     {"Insert.I11_EveryByteValueComesBack", "Insert.I11_EmptyBytesComeBackEmpty"}},
    {"the table has no companion that lists nodes: a purge by age is refused",
     {"Operator.I12_PurgeByAgeTakesWhateverIsOld", "Operator.I12_PurgeByAgeTakesNothingWhileADispatcherLives"}},
    {"the table has no columns for progress and crashes: what ends is forgotten",
     {"Operator.I4_ReplayStartsTheEventAgain", "Settle.EveryOutcomeWritesProgress",
      "Claim.I3_CrashesAddUpUntilTheRowIsDead"}},
}};

/// Besides, for a table without the optional columns.
inline constexpr std::array<left_out_cases, 2> left_out_of_narrow_layouts{{
    {"the table has no columns for headers and tenants: events with them are refused",
     {"Insert.I11_TextOfAnyScriptComesBack"}},
    {"the table has no column for attempts: what ends is forgotten", {"Settle.DoneClearsOwnerAndError"}},
}};

/// Besides, for a table on MariaDB.
inline constexpr std::array<left_out_cases, 2> left_out_on_mysql{{
    {"a TIMESTAMP begins in 1970 and ends in 2038", {"Insert.CallersClockDecidesNothing"}},
    {"the case writes rows with an owner, and the transaction looks for the owner in the table",
     {"Insert.ObserverHearsOfTheCommitOnce", "Insert.I2_ObserverHearsWhichRowsASavepointTook"}},
}};

template <std::size_t N>
std::string why_left_out(std::array<left_out_cases, N> const& all, std::string_view name) {
  for (auto const& group : all) {
    if (std::ranges::find(group.names, name) != group.names.end()) return std::string{group.why};
  }
  return {};
}

}  // namespace outbox
