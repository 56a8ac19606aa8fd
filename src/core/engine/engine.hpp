// The engine: every decision of a node, and nothing else.
//
// A state machine without threads, clocks or randomness of its own: time is an argument, randomness comes from one
// seed, and what must be said to the store is a request that somebody else carries there. Every loop is a step of two
// halves: `plan_…(now)` says what to ask, `apply(…)` takes the answer. Not safe for concurrent use; `node_core` guards
// it.
//
// An event in the engine is a ticket. It moves through stages, and through one list per stage:
//
//   registered ──commit──▶ queued ──worker──▶ running ──result──▶ finished ──settler──▶ settling ──reply──▶ gone
//       └─ rollback, doubt, half a lease: gone          └─ timeout: finished       ◀── error ──┘
//
// It keeps its slot from registration (or claim) until its settlement is durable.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <outbox/error.hpp>
#include <outbox/spi/store.hpp>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/base/random.hpp"
#include "core/engine/claim_floors.hpp"
#include "core/listeners/routes.hpp"
#include "core/node/settings.hpp"

namespace outbox::inline v0::core {

using namespace spi;

using std::chrono::milliseconds;

/// Claims look back at least as far as this: transactions commit later than they write.
inline constexpr milliseconds always_seen{10'000};
inline constexpr milliseconds no_limit = std::chrono::hours{24 * 365};

/// How long a node stands still at first so that it can claim a suspect alone. It doubles each time that is not enough.
inline constexpr milliseconds first_drain{1000};

enum class stage { registered, queued, running, finished, settling, gone };

struct ticket;
using ticket_ptr = std::shared_ptr<ticket>;
using ticket_list = std::list<ticket_ptr>;

/// An event that the node answers for. Only the engine changes it, but for `stop`, which is a thing for threads.
struct ticket {
  ticket(outbox::v0::event e, row_handle h, core::route const* r, outbox::v0::path p)
      : event{std::move(e)}, handle{std::move(h)}, route{r}, path{p}, bytes{event.size_bytes()} {}

  outbox::v0::event event;
  row_handle handle;
  core::route const* route;  ///< Null: no listener serves it.
  outbox::v0::path path;
  std::size_t bytes;
  std::int32_t attempts = 0;
  std::int32_t crashes = 0;
  bool tried = false;  ///< An earlier try ended without success.
  bool unreadable = false;
  core::stage stage = stage::registered;
  steady_time lease_end{};       ///< By this node's clock, so never later than by the store's.
  steady_time limit{};           ///< Queued: released after this. Running: failed after this. Perhaps never.
  spi::settlement settlement{};  ///< From `finished` on.
  std::string progress{};
  std::stop_source stop{std::nostopstate};
  bool absent = false;       ///< Its savepoint was rolled back.
  bool elder = false;        ///< Its call, or its transaction, began before a suspect was found.
  bool stop_asked = false;   ///< Once is enough.
  bool lost = false;         ///< The row is another's; the running call does not know yet.
  bool unproven = false;     ///< The dispatch lock was lost: whoever has had it may have ended the lease.
  bool on_worker = false;    ///< The listener's function has not returned.
  bool leads = false;        ///< Stands for its worker; the rest of a batch does not.
  bool in_call = false;      ///< Counts against its route's limit.
  bool answered = false;     ///< Its completion was called; the answer waits for a worker.
  bool timed_out = false;    ///< The call outlived its limit; its result will be ignored.
  bool resent = false;       ///< A settlement was sent and its reply was not seen.
  bool solo = false;         ///< Its batch was refused: it settles alone.
  bool plain_error = false;  ///< Refused alone too: it settles with a fixed text.
  ticket_list::iterator place{};
};

/// A token that may own rows without the node knowing. Released at once, and again at each renewal until it cannot.
struct doubt {
  owner_token token;
  steady_time until{};
  bool released_once = false;
};

/// The owned events of one `write_all`, from before the INSERT until the transaction ends.
struct birth {
  owner_token token;
  std::vector<ticket_ptr> tickets;
  steady_time began{};
  bool open = true;
  std::list<std::shared_ptr<birth>>::iterator place{};
  std::list<doubt> spare;  ///< One entry, made before COMMIT so that nothing is allocated after it.
};

/// What a worker does next: one event, or several for one listener that takes them together.
struct assignment {
  ticket_ptr first;
  std::vector<ticket_ptr> rest;

  explicit operator bool() const noexcept { return first != nullptr; }
};

/// What a listener's call came to.
struct verdict {
  result answer = failed{};
  std::optional<std::string> progress{};  ///< Nothing: what the row remembers already.
};

struct release_request {
  std::vector<owner_token> tokens;
  milliseconds lease{};
};
struct lock_request {};
struct expire_request {};

struct poll_request {
  std::variant<release_request, lock_request, expire_request, claim_request> request;
  steady_time sent{};
};

struct settle_request {
  std::vector<ticket_ptr> tickets;
  std::vector<settlement> items;  ///< One per ticket.
};

struct renew_request {
  std::vector<ticket_ptr> tickets;
  std::vector<row_handle> rows;  ///< One per ticket.
  std::vector<owner_token> doubts;
  steady_time sent{};
  std::uint64_t held = 0;
  std::uint64_t pauses_version = 0;
};

/// A request, or when to ask again if nothing happens before.
template <class Request>
struct plan {
  std::optional<Request> request;
  steady_time wake = steady_time::max();
};

/// Which loops should look again. `signal_hint`: the store should tell the other nodes that there are new rows.
enum signal : unsigned { signal_work = 1, signal_settle = 2, signal_poll = 4, signal_renew = 8, signal_hint = 16 };

/// A line for the log, said when no lock is held. Lines of one kind are limited; an empty kind: the same text.
struct note {
  log_level level{};
  std::string text{};
  std::string_view kind{};
};

class engine {
 public:
  engine(engine_settings settings, detail::routes const& routes);

  // Life.
  void open(steady_time now);                                            ///< Births may be owned, the poller may claim.
  void close(steady_time now, stop_queued what = stop_queued::deliver);  ///< No new births, no claims.
  void release_queued(steady_time now);         ///< What has not begun will not; running calls are told to stop.
  [[nodiscard]] bool drained() const noexcept;  ///< Nothing queued, no listener running, not even past its timeout.
  [[nodiscard]] std::size_t open_births() const noexcept { return births_.size(); }
  [[nodiscard]] std::size_t unsettled() const noexcept { return finished_.size() + settling_.size(); }
  [[nodiscard]] bool is_open() const noexcept { return open_; }
  [[nodiscard]] bool poll_busy() const noexcept { return poll_busy_; }

  // Births. What follows COMMIT does not allocate and does not throw.
  struct registration {
    std::shared_ptr<outbox::v0::core::birth> birth;  ///< Null if no event got an owner.
    std::vector<bool> owned;                         ///< One per event.
    bool wake = false;                               ///< Some event is the poller's.
    std::optional<milliseconds> due_in{};            ///< The earliest delay asked for, by a delayed event.
  };
  [[nodiscard]] registration register_births(std::span<event const> events, steady_time now);
  void cancel(birth& b) noexcept;  ///< The INSERT failed, or the transaction cannot report its end.
  void committed(birth& b, steady_time now) noexcept;
  void rolled_back(birth& b) noexcept;
  void committed_in_part(birth& b, steady_time now) noexcept;
  void in_doubt(birth& b, steady_time now) noexcept;
  void wake(std::optional<steady_time> due = {}) noexcept;
  void hint() noexcept { signals_ |= signal_hint; }  ///< Other nodes may claim what was just written.

  // Work.
  [[nodiscard]] assignment start_next(steady_time now);
  void finish(ticket& t, verdict v, steady_time now);
  void detach(ticket& t);  ///< The listener's function returned; its answer comes later.

  // Pauses.
  void set_pauses(std::vector<route_pause> pauses);
  [[nodiscard]] std::vector<route_pause> const& pauses() const noexcept { return pauses_; }

  /// What was read before a newer reading was set is out of date.
  [[nodiscard]] std::uint64_t pauses_version() const noexcept { return pauses_version_; }
  bool set_pauses_if(std::uint64_t version, std::vector<route_pause> pauses);

  // The loops.
  [[nodiscard]] plan<poll_request> plan_poll(steady_time now);
  void apply_released(release_request const& sent, steady_time now);
  void apply_lock(bool acquired, steady_time now);
  void lock_lost(steady_time now);
  void apply_expired(std::size_t rows, steady_time now);
  std::size_t apply_claim(claim_request const& claim, steady_time sent, claim_reply reply, steady_time now);
  void apply_poll_failure(poll_request const& sent, error const& e, steady_time now);
  void ask_poll() noexcept { poll_wanted_ = true; }
  void look_everywhere() noexcept;  ///< The next claim begins at the beginning.

  [[nodiscard]] plan<settle_request> plan_settle(steady_time now, bool flush = false);
  void apply_settled(settle_request const& sent, std::vector<bool> const& applied, steady_time now);
  void apply_settle_failure(settle_request const& sent, error const& e, steady_time now);

  [[nodiscard]] plan<renew_request> plan_renew(steady_time now, bool flush = false);
  void apply_renewed(renew_request const& sent, std::vector<bool> const& kept, steady_time now);
  void apply_doubts_released(renew_request const& sent, steady_time now);
  void apply_renew_failure(renew_request const& sent, error const& e, steady_time now);
  void apply_heartbeat() noexcept;
  void note_ignored_pauses(std::size_t entries);
  void apply_heartbeat_failure(error const& e);  ///< The leases are renewed; the registry or the pauses are not.
  [[nodiscard]] std::vector<owner_token> doubts() const;
  [[nodiscard]] bool has_doubts() const noexcept { return !doubts_.empty(); }
  void forget_doubts(std::span<owner_token const> released);

  // Views.
  [[nodiscard]] node_counters counters() const noexcept;
  [[nodiscard]] std::size_t hot_depth() const noexcept { return hot_.size(); }
  [[nodiscard]] std::size_t cold_depth() const noexcept { return cold_.size(); }
  [[nodiscard]] milliseconds oldest_lag() const noexcept { return oldest_lag_; }
  [[nodiscard]] std::size_t hot_slots_used() const noexcept { return hot_used_; }
  [[nodiscard]] std::size_t cold_slots_used() const noexcept { return cold_used_; }
  [[nodiscard]] std::size_t bytes_used() const noexcept { return hot_bytes_ + cold_bytes_; }
  [[nodiscard]] bool active() const noexcept { return !settings_.exclusive || (lock_held_ && others_expired_); }
  [[nodiscard]] std::string unhealthy() const;              ///< Why, or empty.
  [[nodiscard]] std::vector<std::string> isolated() const;  ///< Rows that cannot be claimed; some of them, if many.
  [[nodiscard]] bool holds(std::string_view id) const noexcept { return by_id_.contains(id); }
  [[nodiscard]] engine_settings const& settings() const noexcept { return settings_; }

  void remark(log_level level, std::string text) { say(level, std::move(text)); }
  [[nodiscard]] bool has_notes() const noexcept { return !notes_.empty(); }
  [[nodiscard]] bool has_news() const noexcept { return signals_ != 0 || !notes_.empty() || !stops_.empty(); }
  [[nodiscard]] unsigned take_signals() noexcept { return std::exchange(signals_, 0U); }
  [[nodiscard]] std::vector<note> take_notes() noexcept { return std::exchange(notes_, {}); }

  /// The calls that must be told to stop. That runs code of the listener's, so it is done when no lock is held.
  [[nodiscard]] std::vector<std::stop_source> take_stops() { return std::exchange(stops_, {}); }

 private:
  // Slots and stages.
  [[nodiscard]] owner_token new_token();
  [[nodiscard]] bool has_hot_slot(std::size_t bytes) const noexcept;
  ticket_list& list_of(ticket const& t) noexcept;
  void admit(ticket_ptr const& t, stage at);
  void move_to(ticket& t, stage at) noexcept;
  void remove(ticket& t) noexcept;
  void remove_lost(ticket& t);
  void ask_stop(ticket& t);
  void say(log_level level, std::string text, std::string_view kind = {}) {
    auto& n = notes_.emplace_back();
    n.level = level;
    n.text = std::move(text);
    n.kind = kind;
  }
  void no_longer_elder(ticket& t) noexcept;

  // Births.
  [[nodiscard]] bool births_may_be_owned() const noexcept;
  void end_birth(birth& b) noexcept;
  void doubt_birth(birth& b, steady_time until) noexcept;

  // Work.
  [[nodiscard]] retry_policy const& retry_of(ticket const& t) const noexcept;
  [[nodiscard]] milliseconds timeout_of(ticket const& t) const noexcept;
  [[nodiscard]] static steady_time end_of(milliseconds timeout, steady_time now) noexcept;
  [[nodiscard]] ticket* next_of(ticket_list& queue, steady_time now);
  [[nodiscard]] bool may_begin(ticket const& t, steady_time now) const noexcept;
  [[nodiscard]] bool has_room(route const* where) const noexcept;
  [[nodiscard]] bool is_crowded(route const* where) noexcept;
  [[nodiscard]] std::size_t room_of(route const& where) const noexcept;
  void look_at_crowd(route const* where) noexcept;
  void count_queued(ticket const& t, int by) noexcept;
  [[nodiscard]] milliseconds patience_of(ticket const& t) const noexcept;
  [[nodiscard]] bool is_paused(ticket const& t) const noexcept;
  void begin(ticket& t, steady_time now);
  void gather_batch(assignment& a, ticket_list& queue, steady_time now);
  void end_call(ticket& t) noexcept;
  void give_back(ticket& t);
  void give_back_queued();
  void abandon(ticket& t);
  void decide(ticket& t, verdict v);
  void decide_failure(ticket& t, std::string reason, std::optional<milliseconds> after);
  void time_out(ticket& t);

  // Poll.
  [[nodiscard]] bool may_claim(steady_time now) const noexcept;
  [[nodiscard]] bool leases_are_fresh(steady_time now) const noexcept;
  [[nodiscard]] claim_request next_claim(steady_time now);
  void receive(claimed_row row, steady_time sent, steady_time now);
  void forget(ticket& t);
  void own_again(ticket& t, row_handle handle, steady_time lease_end);
  void note_released(std::span<owner_token const> tokens);
  void prove_what_is_held(steady_time now);
  void note_floor(claim_request const& claim, steady_time sent, claim_reply const& reply, steady_time now);
  void reach_less_far(milliseconds reach) noexcept;
  void note_refused(claim_request const& claim, claim_reply const& reply, steady_time now);
  void note_suspects(claim_request const& claim, claim_reply const& reply, steady_time now);
  void wait_for_elders();
  void pace_quarantine(steady_time now);
  void plan_next_poll(claim_reply const& reply, steady_time now);

  // Settle.
  void settled(ticket& t, bool applied, steady_time now);
  void count_settled(settlement const& s) noexcept;

  // The store's health.
  struct loop_health;
  [[nodiscard]] bool away() const noexcept;
  [[nodiscard]] steady_time store_failed(loop_health& loop, error const& e, char const* doing,
                                         steady_time now);  ///< Not before this.
  void store_answered(loop_health& loop, steady_time now);
  [[nodiscard]] std::size_t cold_slots_free() const noexcept;

  engine_settings const settings_;
  detail::routes const& routes_;
  random_source random_;
  std::uint64_t next_token_ = 0;
  unsigned signals_ = 0;
  std::vector<note> notes_;
  std::vector<std::stop_source> stops_;
  node_counters counters_;

  bool open_ = false;
  bool takes_over_ = true;  ///< What is committed is delivered here. False once a stop has released what was queued.
  ticket_list registered_, hot_, cold_, running_, finished_, settling_;
  std::unordered_map<std::string_view, ticket*>
      by_id_;  ///< What the lists hold, but for what is forgotten; keys live in the tickets.
  std::list<std::shared_ptr<birth>> births_;
  std::list<doubt> doubts_;
  std::size_t hot_used_ = 0, cold_used_ = 0, hot_bytes_ = 0, cold_bytes_ = 0;
  std::size_t stuck_workers_ = 0;
  std::vector<std::size_t> in_flight_;  ///< Calls per route.
  std::vector<std::size_t> queued_;     ///< Per route that has a limit.
  std::vector<bool> crowded_;           ///< Has enough queued: others need the slots.
  std::vector<route_pause> pauses_;
  std::uint64_t pauses_version_ = 0;
  unsigned turn_ = 0;  ///< Of the 2:1 rotation between hot and cold.
  bool hot_full_said_ = false;

  bool poll_busy_ = false, poll_wanted_ = false;
  steady_time next_poll_{}, poll_not_before_{}, doubted_at_{};
  bool lock_held_ = false, others_expired_ = false, standby_said_ = false;

  /// A suspect was found, and is claimed when the node holds nothing else. waiting: the calls and transactions that
  /// were under way then go on, and so does everything else. draining: nothing new begins, until the node holds nothing
  /// or `drain_until_`. holding: the suspect is here, alone.
  enum class quarantine { none, waiting, draining, holding } quarantine_ = quarantine::none;
  std::size_t elders_ = 0;
  steady_time drain_until_{}, no_suspect_before_{};
  milliseconds drain_limit_ = first_drain;

  milliseconds oldest_lag_{};
  claim_floors floors_;               ///< Where claims may begin until the next sweep, by the store's clock.
  steady_time next_sweep_{};          ///< A claim that begins at the beginning.
  milliseconds reach_ = always_seen;  ///< How far back claims look while sweeps fail.
  milliseconds furthest_reach_ = no_limit;

  struct isolation {
    steady_time until{};  ///< Left by claims until then.
    int times = 0;
    std::string error{};
  };
  std::unordered_map<std::string, isolation> isolated_;
  std::string foreign_owner_said_;

  bool settle_busy_ = false;
  steady_time last_settle_{steady_time::min()}, settle_not_before_{};

  bool renew_busy_ = false;
  steady_time next_renew_{}, renewer_wakes_{};

  /// Each loop has its own idea of whether the store answers: a read may succeed while every write fails.
  struct loop_health {
    std::optional<steady_time> away_since{};
    std::int32_t failures = 0;
    std::string said{};   ///< The last error that is not transient, said once.
    std::string error{};  ///< The last one, while the store is away.
  };
  /// A claim may fail while a release of its token succeeds: that must not look like a store that answers again.
  loop_health claim_health_, release_health_, lock_health_, settle_health_, renew_health_;
  std::string heartbeat_said_;  ///< The last error of the registry, said once.
  std::size_t ignored_pauses_ = 0;
  log_level outage_level_ = log_level::warning;  ///< Its end is said as loudly as its beginning.
  steady_time careful_until_{};                  ///< After an outage: claim only rows without an owner.
};

}  // namespace outbox::inline v0::core
