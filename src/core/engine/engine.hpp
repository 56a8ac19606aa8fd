// The engine: every decision of a node, and nothing else (decision 001).
//
// A state machine without threads, clocks or randomness of its own: time is an argument, randomness comes from one
// seed, and the node's threads carry its requests to the store. Every loop is a step of two halves: `plan_…(now)`
// returns a request, `apply_…` takes the reply. Use from one thread at a time; `node_core` guards it.
//
// An event in the engine is a ticket. It moves through stages, and through one list per stage:
//
//   registered ──commit──▶ queued ──worker──▶ running ──result──▶ finished ──settler──▶ settling ──reply──▶ gone
//       └─ rollback, doubt, half a lease: gone          └─ timeout: finished       ◀── error ──┘
//
// It keeps its slot from registration (or claim) until its settlement is durable. On a keyed node, the tickets of one
// key form a chain (chain.hpp): one is queued or running, and the others wait behind it.
//
// Decisions that rule here: 002 a claim beside a settlement without a reply, 008 tokens in doubt, 017 a lost dispatch
// lock, 018 where claims begin, 028 suspects, 029 rows that cannot be claimed.
// The words, such as birth, doubt or floor, are in docs/explanation/glossary.md.
#pragma once

#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/random.hpp"
#include "core/engine/chain.hpp"
#include "core/engine/claim_pace.hpp"
#include "core/engine/claim_size.hpp"
#include "core/engine/isolation.hpp"
#include "core/engine/lease_schedule.hpp"
#include "core/engine/note.hpp"
#include "core/engine/quarantine.hpp"
#include "core/engine/requests.hpp"
#include "core/engine/route_holds.hpp"
#include "core/engine/route_load.hpp"
#include "core/engine/settle_pace.hpp"
#include "core/engine/slots.hpp"
#include "core/engine/store_health.hpp"
#include "core/engine/ticket.hpp"
#include "core/node/settings.hpp"

namespace outbox::inline v0::core {

/// Which loops should look again. `signal_hint`: the store should tell the other nodes that there are new rows.
enum signal : unsigned {
  signal_work = 1,
  signal_settle = 2,
  signal_poll = 4,
  signal_renew = 8,
  signal_hint = 16,
  signal_place = 32
};

/// What became of the events of one write.
struct registration {
  std::shared_ptr<outbox::v0::core::birth> birth;  ///< Null if no event got an owner.
  std::vector<bool> owned;                         ///< One per event.
  bool wake = false;                               ///< Some event is for the poller.
  std::optional<milliseconds> due_in{};            ///< The earliest delay of a delayed event.
};

/// The settled events of one route.
struct route_outcomes {
  std::uint64_t delivered = 0;
  std::uint64_t failed = 0;
  std::uint64_t deferred = 0;
  std::uint64_t dead = 0;
};

/// How many rows of one key a claim takes. It doubles while whole runs are delivered.
inline constexpr std::size_t shortest_run = 64;
inline constexpr std::size_t longest_run = 512;

class engine {
 public:
  /// `settings` must outlive the engine.
  explicit engine(node_settings const& settings);

  // Life.
  void open(steady_time now);                                            ///< Births may be owned, the poller may claim.
  void close(steady_time now, stop_queued what = stop_queued::deliver);  ///< No new births, no claims.
  void release_queued(steady_time now);         ///< What has not begun will not; running calls are told to stop.
  [[nodiscard]] bool drained() const noexcept;  ///< Nothing queued, no listener running, not even past its timeout.
  [[nodiscard]] std::size_t open_births() const noexcept { return births_.size(); }
  [[nodiscard]] std::size_t unsettled() const noexcept { return finished_.size() + settling_.size(); }
  [[nodiscard]] bool poll_busy() const noexcept { return poll_busy_; }

  // Births. What follows COMMIT does not allocate and does not throw.
  using registration = outbox::v0::core::registration;
  /// If memory runs out, nothing is registered.
  [[nodiscard]] registration register_births(std::span<event const> events, steady_time now);
  void cancel(birth& b) noexcept;  ///< The INSERT failed, or the transaction cannot report its end.
  /// `absent` has one entry per ticket: a savepoint took its row back. Empty: all rows are there.
  void committed(birth& b, std::vector<bool> const& absent, steady_time now) noexcept;
  void rolled_back(birth& b) noexcept;
  void committed_in_part(birth& b, steady_time now) noexcept;
  void in_doubt(birth& b, steady_time now) noexcept;
  void wake(std::optional<steady_time> due = {}) noexcept;  ///< The poller should look, now or at `due`.
  void hint() noexcept { signals_ |= signal_hint; }         ///< Other nodes may claim what was just written.

  // Work.
  [[nodiscard]] assignment start_next(steady_time now);
  void finish(ticket& t, call_result v, steady_time now);
  void detach(ticket& t, steady_time now);                    ///< The listener's function returned without a result.
  void answer_arrived(ticket& t, bool is_done) noexcept;      ///< Its completion was called. `detach` comes after it.
  void remember(ticket& t, std::string&& progress) noexcept;  ///< Keeps what a running call has done so far.

  // Pauses. What was read before a newer reading was set is out of date.
  void set_pauses(std::vector<route_pause> pauses);
  bool set_pauses_if(std::uint64_t version, std::vector<route_pause> pauses);
  [[nodiscard]] std::uint64_t pauses_version() const noexcept { return pauses_version_; }
  [[nodiscard]] std::vector<route_pause> const& pauses() const noexcept { return pauses_; }
  void note_ignored_pauses(std::size_t entries);

  // The poller's step.
  [[nodiscard]] plan<poll_request> plan_poll(steady_time now);
  void apply_released(release_request const& sent, steady_time now);
  void apply_lock(bool acquired, steady_time now);
  void lock_lost(steady_time now);
  void apply_expired(std::size_t rows, steady_time now);
  std::size_t apply_claim(claim_request const& claim, steady_time sent, claim_reply reply, steady_time now);
  void apply_poll_failure(poll_request const& sent, error const& e, steady_time now);
  void ask_poll() noexcept { pace_.ask(); }
  void look_everywhere() noexcept { pace_.look_everywhere(); }  ///< The next claim begins at the oldest row.

  // The settler's step.
  [[nodiscard]] plan<settle_request> plan_settle(steady_time now, bool flush = false);
  void apply_settled(settle_request const& sent, std::vector<bool> const& applied, steady_time now);
  void note_unblocked(std::size_t rows) noexcept;  ///< Rows can be claimed because a row before them left its key.
  void apply_settle_failure(settle_request const& sent, error const& e, steady_time now);

  // The placer's step, of keyed nodes: where births stand whose transactions could not tell.
  [[nodiscard]] plan<place_request> plan_place();
  void apply_placed(place_request const& sent, std::vector<place> const& places, steady_time now);
  void apply_place_failure(place_request const& sent, error const& e);

  // The renewer's step.
  [[nodiscard]] plan<renew_request> plan_renew(steady_time now, bool flush = false);
  void apply_renewed(renew_request const& sent, std::vector<bool> const& kept, steady_time now);
  void apply_doubts_released(renew_request const& sent, steady_time now);
  void apply_renew_failure(renew_request const& sent, error const& e, steady_time now);
  void apply_heartbeat() noexcept { heartbeat_said_.clear(); }
  void apply_healed(std::size_t rows, steady_time now);
  void apply_heal_failure(steady_time now) noexcept;  ///< Renewals must not wait for it each time.

  /// Why the node may not take events from this table. Empty: it may. The node finishes what it holds.
  void set_refusal(std::string why);
  void apply_heartbeat_failure(error const& e);  ///< The leases are renewed; the registry or the pauses are not.
  [[nodiscard]] std::vector<owner_token> doubts() const;
  [[nodiscard]] bool has_doubts() const noexcept { return !doubts_.empty(); }
  void forget_doubts(std::span<owner_token const> released);

  // Views.
  [[nodiscard]] node_counters counters() const noexcept;
  /// By the index of the route; the last entry is that of events without a listener.
  [[nodiscard]] std::vector<route_outcomes> const& outcomes_by_route() const noexcept { return outcomes_; }
  [[nodiscard]] std::size_t hot_depth() const noexcept { return hot_.size(); }
  [[nodiscard]] std::size_t cold_depth() const noexcept { return cold_.size(); }
  [[nodiscard]] std::size_t chains() const noexcept { return chains_.size(); }
  [[nodiscard]] milliseconds oldest_lag() const noexcept { return oldest_lag_; }
  [[nodiscard]] slots const& used() const noexcept { return slots_; }
  [[nodiscard]] bool active() const noexcept { return !settings_.exclusive || (lock_held_ && others_expired_); }
  [[nodiscard]] std::string unhealthy() const;  ///< Why, or empty.
  [[nodiscard]] bool healthy() const noexcept;  ///< The same without the text.
  [[nodiscard]] std::vector<std::string> isolated() const { return isolation_.some(); }
  [[nodiscard]] bool holds(std::string_view id) const noexcept { return by_id_.contains(id); }
  [[nodiscard]] node_settings const& settings() const noexcept { return settings_; }

  void count_commits(std::uint64_t n) noexcept { counters_.commits += n; }  ///< Of the node's threads, in the store.

  // What the steps leave for the threads.
  void remark(log_level level, std::string text, log_facts facts) { say(level, std::move(text), {}, std::move(facts)); }
  [[nodiscard]] bool has_notes() const noexcept { return !notes_.empty(); }
  [[nodiscard]] bool has_news() const noexcept { return signals_ != 0 || !notes_.empty() || !stops_.empty(); }
  [[nodiscard]] unsigned take_signals() noexcept { return std::exchange(signals_, 0U); }
  [[nodiscard]] std::vector<note> take_notes() noexcept { return std::exchange(notes_, {}); }

  /// The calls that must be told to stop. That runs code of the listener, so it is done when no lock is held.
  [[nodiscard]] std::vector<std::stop_source> take_stops() { return std::exchange(stops_, {}); }

 private:
  // Slots and stages.
  [[nodiscard]] owner_token new_token();
  ticket_list& list_of(ticket const& t) noexcept;
  void admit(ticket_ptr const& t, stage at);
  void move_to(ticket& t, stage at) noexcept;
  void leave_queue(ticket const& t) noexcept;
  void remove(ticket& t) noexcept;
  void remove_lost(ticket& t);
  void no_longer_elder(ticket& t) noexcept;
  void ask_stop(ticket& t);
  void give_back(ticket& t) noexcept;
  void give_back_queued() noexcept;
  void abandon(ticket& t);
  void say(log_level level, std::string text, std::string_view kind = {}, log_facts facts = {}) {
    notes_.push_back({level, std::move(text), kind, std::move(facts)});
  }

  [[nodiscard]] static log_facts about(ticket const& t);  ///< The fields of a line about its event.

  // Chains.
  [[nodiscard]] bool may_be_owned(std::string const& key, steady_time now);
  void join(ticket& t, std::shared_ptr<chain> const& c);
  void join_birth(ticket& t, std::string key);
  void join_claimed(ticket& t, std::string key, std::int64_t seq);
  void leave_chain(ticket& t) noexcept;
  void forget_chain(chain const& c) noexcept;
  void place_births(birth& b, std::vector<bool> const& absent, steady_time now) noexcept;
  void place_birth(ticket& t, steady_time now) noexcept;
  void look_at_loose(chain& c, steady_time now) noexcept;
  [[nodiscard]] static bool is_unplaced(ticket const& t) noexcept {
    return t.stage == stage::waiting && t.placing == ticket::placing::not_asked;
  }
  [[nodiscard]] ticket_list::iterator first_unplaced() noexcept;
  void enter_line(ticket& t) noexcept;
  [[nodiscard]] bool leaves_line(ticket const& t) const noexcept;
  [[nodiscard]] bool lets_next_begin(ticket const& t) const noexcept;
  [[nodiscard]] static bool has_been_taken(ticket const& ahead, ticket const& t) noexcept;
  [[nodiscard]] bool is_next(ticket const& t) const noexcept;
  [[nodiscard]] bool may_settle(ticket const& t) const noexcept;
  void begin_waiting(ticket& t, steady_time now) noexcept;
  void enqueue(ticket& t, steady_time now) noexcept;
  void follow_up(ticket& t, steady_time now);
  void pass(ticket& t, steady_time now);
  void start_from(ticket* next, steady_time now) noexcept;
  void start_beside(ticket const& t, steady_time now) noexcept;
  void hold_up_queued(ticket const& t) noexcept;
  void break_chain(ticket& t, bool repeat = true) noexcept;
  void break_all_chains() noexcept;
  static void put_back(ticket& t);
  void give_back_alone(ticket& t) noexcept;
  void rest(std::string const& key, steady_time now);
  [[nodiscard]] std::int64_t finished_up_to(std::string const& key) const;
  void note_finished(ticket const& t) noexcept;
  void heal_soon() noexcept;
  void note_unblocked_unheard() noexcept;
  steady_time shorten_runs(steady_time now) noexcept;
  void shorten(chain& c) noexcept;

  // Births.
  [[nodiscard]] bool births_may_be_owned() const noexcept;
  [[nodiscard]] std::shared_ptr<birth> begin_birth(std::size_t events, steady_time now);
  void register_births(std::span<event const> events, registration& r, steady_time now);
  [[nodiscard]] bool has_hot_slot(event const& e);
  void end_birth(birth& b) noexcept;
  void doubt_birth(birth& b, steady_time until) noexcept;

  // Work.
  [[nodiscard]] retry_policy const& retry_of(ticket const& t) const noexcept;
  [[nodiscard]] milliseconds timeout_of(ticket const& t) const noexcept;
  [[nodiscard]] steady_time end_of_waiting(ticket const& t, steady_time now) const noexcept;
  [[nodiscard]] ticket* next_of(ticket_list& queue, steady_time now);
  [[nodiscard]] bool may_begin(ticket const& t, steady_time now) const noexcept;
  [[nodiscard]] bool is_paused(ticket const& t) const noexcept;
  [[nodiscard]] bool must_wait(ticket const& t, steady_time now) const noexcept;
  void begin(ticket& t, steady_time now);
  void gather_batch(assignment& a, ticket_list& queue, steady_time now);
  void gather_chain(assignment& a, ticket const& first, steady_time now);
  void end_call(ticket& t) noexcept;
  void worker_returned(ticket const& t) noexcept;
  void decide(ticket& t, call_result v, steady_time now);
  void hold_route(ticket const& t, steady_time now);
  void decide_failure(ticket& t, std::string reason, std::optional<milliseconds> after);
  void time_out(ticket& t, steady_time now);

  // Poll.
  [[nodiscard]] bool may_claim(steady_time now) const noexcept;
  [[nodiscard]] bool leases_are_fresh(steady_time now) const noexcept;
  [[nodiscard]] claim_request next_claim(steady_time now);
  void note_dead_and_foreign(claim_reply const& reply);
  void note_suspects(claim_request const& claim, claim_reply const& reply, steady_time now);
  void wait_for_elders();
  void pace_quarantine(steady_time now);
  void receive(claimed_row row, steady_time sent, steady_time now);
  [[nodiscard]] bool held_already(claimed_row& row, steady_time lease_end);
  void forget(ticket& t);
  void own_again(ticket& t, row_handle handle, steady_time lease_end);
  void note_released(std::span<owner_token const> tokens);
  void prove_what_is_held(steady_time now);

  // Settle and renew.
  [[nodiscard]] bool may_gather() const noexcept;
  [[nodiscard]] steady_time settle_due() const noexcept;
  void call_settler(ticket const& t) noexcept;
  void take_for_settling(ticket_ptr const& t, settle_request& request);
  void settled(ticket& t, bool applied, steady_time now);
  void count_settled(ticket const& t) noexcept;
  [[nodiscard]] steady_time end_what_is_late(steady_time now);

  // The store's health.
  [[nodiscard]] steady_time store_failed(request_kind kind, error const& e, char const* what, steady_time now);
  void store_answered(request_kind kind, steady_time now);

  node_settings const& settings_;
  lease_schedule const leases_;
  detail::routes const& routes_;
  random_source random_;
  std::uint64_t next_token_ = 0;
  unsigned signals_ = 0;
  std::vector<note> notes_;
  std::vector<std::stop_source> stops_;
  node_counters counters_;
  std::vector<route_outcomes> outcomes_;

  bool open_ = false;
  bool takes_over_ = true;  ///< What is committed is delivered here. False once a stop has released what was queued.
  ticket_list registered_, waiting_, hot_, cold_, running_, finished_, settling_;
  std::unordered_map<std::string_view, ticket*> by_id_;  ///< The tickets of the lists, except those that `forget` took
                                                         ///< out. The keys live in the tickets.
  std::unordered_map<std::string_view, std::shared_ptr<chain>> chains_;  ///< By key. The keys live in the chains.
  std::unordered_map<std::string, steady_time> resting_;         ///< Keys whose births go through the table until then.
  std::unordered_map<std::string, std::int64_t> finished_keys_;  ///< Of each key: no row up to this `seq` is in line.
  std::size_t run_ = shortest_run;                               ///< How many rows of a key a claim takes.
  std::optional<steady_time> no_room_since_;  ///< Tickets that wait for their turn leave none for claims.
  std::list<std::shared_ptr<birth>> births_;
  std::list<doubt> doubts_;
  slots slots_;
  route_load load_;
  route_holds holds_;
  std::size_t stuck_workers_ = 0;  ///< Workers whose call outlived its timeout.
  std::vector<route_pause> pauses_;
  std::uint64_t pauses_version_ = 0;
  std::size_t ignored_pauses_ = 0;
  unsigned turn_ = 0;  ///< Of the 2:1 rotation between hot and cold.
  bool hot_full_said_ = false;

  bool poll_busy_ = false;
  claim_pace pace_;
  steady_time next_round_{};  ///< Without draining: when new rows are claimed again.
  claim_size claim_size_;
  core::quarantine quarantine_;
  core::isolation isolation_;
  bool lock_held_ = false;
  bool others_expired_ = false;  ///< The leases of earlier holders of the dispatch lock were ended.
  bool standby_said_ = false;
  steady_time doubted_at_{};  ///< A renewal that was sent before this proves nothing.
  milliseconds oldest_lag_{};
  std::string foreign_owner_said_;

  bool settle_busy_ = false;
  settle_pace settle_pace_;
  bool awaited_result_ = false;  ///< Of those that are finished.
  steady_time settle_not_before_{}, settler_wakes_{steady_time::max()};

  bool place_busy_ = false;
  std::size_t unplaced_ = 0;  ///< Births that wait and that the store is to be asked about.

  bool renew_busy_ = false;
  steady_time next_heal_{}, last_heal_{};
  steady_time next_renew_{}, renewer_wakes_{};
  std::string heartbeat_said_;  ///< The last error of the registry; the log has it already.

  store_health health_;
  std::string refusal_;  ///< Why the table is not for this node.
};

}  // namespace outbox::inline v0::core
