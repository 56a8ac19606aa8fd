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
