// Bugs that are planted on purpose. The simulation must find each of them; a build of the library has none.
#pragma once

namespace outbox::inline v0::core {

enum class planted_bug {
  none,
  settle_without_token,           // a settlement touches a row that another claim owns
  hot_push_before_commit,         // an event is queued when it is written
  registration_ends_too_early,    // a taken settlement is forgotten before it is durable
  claim_takes_own_live_lease,     // a claim returns rows that the same node holds
  crashes_blamed_on_neighbours,   // suspects are claimed among others
  deferral_is_overtaken,          // in order: a row that waits for its retry is passed over
  replay_of_a_done_row,           // an operator's replay brings back what was delivered
  purge_without_status,           // purge deletes what is old, finished or not
  work_goes_on_without_the_lock,  // a node that lost the dispatch lock delivers what it has
  unknown_claim_never_released,   // a claim whose reply was lost keeps its rows until the lease ends
  old_rows_are_not_looked_for,    // after one slow claim every claim begins where the last one did
  birth_swallows_a_claim,         // a claimed row is taken for a birth of the same id, and forgotten with it
  stop_forgets_open_births,       // a node that stops does not wait for transactions that are still open

  // Of order per key.
  note_without_the_lock,          // a row is noted although the row before it may be leaving the line
  note_with_the_heads_lock,       // the lock of the first row of the key is taken for that of the row before
  next_row_is_not_unblocked,      // a settlement leaves the note of the row behind
  run_with_a_hole,                // a run goes on behind a row that could not be taken
  chain_goes_on_after_a_failure,  // the next event of a key begins although the one before it failed
  birth_trusts_its_token,         // a row of this node that the engine does not hold is taken for delivered
  hook_overtakes_its_forerunner,  // a birth begins although the commit of the one before was not heard of
  late_row_is_settled_first,      // an event is DONE before the one before it
};

#ifdef OUTBOX_PLANTED_BUGS
inline planted_bug& planted() noexcept {
  static planted_bug bug = planted_bug::none;
  return bug;
}
inline bool has_bug(planted_bug b) noexcept { return planted() == b; }
#else
constexpr bool has_bug(planted_bug) noexcept { return false; }
#endif

}  // namespace outbox::inline v0::core
