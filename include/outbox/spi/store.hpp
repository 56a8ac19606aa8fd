// The store interface: what a store does for the nodes that use it. For authors of stores.
//
// A row is pending (NEW or RETRY) until a settlement makes it DONE or DEAD. A pending row may have an owner: a token
// and a lease. The token is new for every birth and every claim, so it is the fence: settling, renewing and releasing
// touch a row only while it carries the token they name. The store's own clock computes every instant when a statement
// runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <outbox/store.hpp>
#include <outbox/transaction.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::spi {

/// A row to be inserted. With an empty token it is born without an owner, so that a poller finds it.
struct insertion {
  outbox::v0::event const* event = nullptr;
  std::string_view token{};
  std::chrono::milliseconds lease{};
};

/// A row that somebody holds. `locator` is the store's own way to find it fast, 0 if it has none yet.
struct row_handle {
  std::string id{};
  owner_token token{};
  std::int64_t locator = 0;
};

/// Rows with one crash left are suspects: they are claimed alone, so that none dies for a neighbour.
enum class suspects { skip, take_one };

struct claim_request {
  owner_token token{};               ///< The new owner. Never used before.
  std::size_t limit = 50;            ///< At most this many rows (with `take_one`: 1).
  std::size_t max_bytes = SIZE_MAX;  ///< Stops before the events' sizes exceed this, but takes at least one.
  std::chrono::milliseconds lease{};
  std::int32_t max_crashes = 5;  ///< A row found past this is made DEAD by the claim.
  spi::suspects suspects = suspects::skip;
  bool unowned_only = false;  ///< Leaves rows whose lease has run out to their owners: for after an outage.
  std::chrono::milliseconds skip_recent{};  ///< Leaves rows inserted less than this ago.

  /// Takes rows by `seq` from the lowest that is pending, and stops before the first that must wait: one that was tried
  /// and is not due again, or is owned, or is too young. A row that was born with a delay and is not due yet is passed
  /// over. A suspect is taken alone; `suspects` and `unowned_only` mean nothing.
  bool in_order = false;

  std::vector<route_pause> pauses{};  ///< Rows that any of these covers are left, as if they were not there.

  std::vector<std::string> leave{};  ///< Ids of rows that are left too: earlier claims could not take them. Not with
                                     ///< `in_order`.

  /// The store may leave rows that could be claimed before this instant: an earlier claim has looked at them. Not with
  /// `in_order`.
  std::optional<instant> floor{};

  /// Without a floor, the store may leave rows that could be claimed longer ago than this. The node uses it while a
  /// look at the whole table takes too long to succeed. Not with `in_order`.
  std::optional<std::chrono::milliseconds> reach{};
};

/// A row that was claimed, in the order of the claim.
struct claimed_row {
  row_handle handle;
  outbox::v0::event event;
  std::int32_t attempts = 0;  ///< Counted failures so far.
  std::int32_t crashes = 0;   ///< Owners that never settled, this claim's included.
  bool tried = false;         ///< RETRY: an earlier try ended without success.
  std::string progress{};     ///< What the last settlement wrote.
  std::string malformed{};    ///< Not empty: the row cannot be read, and why. It should die.
};

/// A row that the claim itself made DEAD: because its crashes are used up, or because it cannot be read.
struct killed_row {
  std::string id{};
  std::string type{};
  std::int32_t crashes = 0;
  std::string why{};  ///< Empty: its crashes are used up.
};

/// A row that the store could not claim although nobody holds it: a trigger of the user's raises an error or suppresses
/// the change.
struct refused_row {
  std::string id{};
  std::string type{};
  std::string error{};
};

struct claim_reply {
  std::vector<claimed_row> rows{};
  std::vector<killed_row> killed{};
  std::vector<refused_row> refused{};  ///< The claim went on without them.
  bool more = false;                   ///< Stopped at `limit` or `max_bytes`: other rows may be due.
  bool suspects_waiting = false;       ///< A suspect is due and was left.
  instant now{};                       ///< The store's time of the claim.
  std::optional<instant> next_due{};   ///< The first instant after `now` at which another row can be claimed. If there
                                       ///< is `more`, it may be missing.
  std::chrono::milliseconds oldest_lag{};  ///< How long the first due row has been due; 0 if none was.
  std::optional<instant> floor{};  ///< The due instant of the first row that was left, else of the last one taken.

  /// A row was left because another program locked it: `locked_by` without `lease_until`. Empty if there was none.
  std::string foreign_owner{};
};

/// How a row is settled.
enum class outcome : std::uint8_t {
  delivered,  ///< DONE; clears the error.
  retry,      ///< RETRY, due after `delay`.
  defer,      ///< NEW, due after `delay`; an empty error leaves the last one.
  dead,       ///< DEAD.
  release,    ///< As it was, without an owner; attempts, crashes, status and due instant stay.
};

struct settlement {
  row_handle row{};
  spi::outcome outcome = outcome::delivered;
  std::int32_t counted = 0;           ///< Added to attempts: 1 for a counted failure, else 0.
  std::chrono::milliseconds delay{};  ///< For retry and defer.
  std::string error{};                ///< Valid UTF-8, no NUL, at most 4000 characters.
  std::string progress{};             ///< Written with every outcome but release.
};

/// Deletes terminal rows that ended long enough ago.
struct purge_request {
  /// Counted from `done_at`; if another program left that empty, from the insert.
  std::chrono::milliseconds retention{};
  bool done = true;
  bool dead = true;
  std::size_t limit = 500;
};

/// Deletes rows by age, whatever their status: for tables that nobody dispatches from, because something else reads the
/// database's log.
struct age_purge_request {
  std::chrono::milliseconds age{};  ///< Counted from the insert, by the store's clock.
  std::size_t limit = 500;
};

/// Held by the one node that may dispatch in the modes that allow only one. Destroying it gives it back; it dies with
/// the process.
class OUTBOX_CORE_EXPORT dispatch_lock {
 public:
  dispatch_lock() = default;
  dispatch_lock(dispatch_lock const&) = delete;
  dispatch_lock& operator=(dispatch_lock const&) = delete;
  virtual ~dispatch_lock();

  /// False once it was lost, as with a connection. No round trip.
  [[nodiscard]] virtual bool held() const noexcept = 0;

  /// Ends now the leases of every owner of another incarnation; how many. It takes effect only while the lock is held,
  /// however late the statement arrives: the next holder's leases are safe from it. Throws `error`.
  virtual std::size_t expire_others() = 0;
};

/// The seam between the engine and a database. Every function is safe to call from several threads, is one short
/// transaction of its own unless it says otherwise, and throws `error`: transient if the same call may succeed later.
/// A call that threw may still have had its effect, or have it later.
class OUTBOX_CORE_EXPORT store : public outbox::v0::store {
 public:
  ~store() override;

  [[nodiscard]] spi::store& backend() noexcept final { return *this; }

  /// In the caller's transaction. Throws wrong_transaction if that is of another kind or database, before any write.
  /// What the database refuses is thrown here, or by the transaction's commit if it sends rows together with that.
  virtual void insert(transaction_ref tx, std::span<insertion const> rows) = 0;

  /// Gives due rows without a live owner to `request.token`, oldest due instant first. Where an expired owner stood, a
  /// crash is counted; at `max_crashes` the row is made DEAD instead.
  [[nodiscard]] virtual claim_reply claim(claim_request const& request) = 0;

  /// For each item, in order: true if the row carried the token and was unfinished, so that the outcome was applied.
  /// Owner and lease are cleared, and crashes too but by a release.
  [[nodiscard]] virtual std::vector<bool> settle(std::span<settlement const> items) = 0;

  /// For each row, in order: true if it still carried the token; its lease then ends `lease` from now.
  [[nodiscard]] virtual std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) = 0;

  /// Releases every unfinished row that carries one of `tokens` and whose lease still runs, for `lease` at most; how
  /// many. One whose lease is over can be claimed anyway.
  virtual std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) = 0;

  /// Null if another process or node has it.
  [[nodiscard]] virtual std::unique_ptr<dispatch_lock> try_dispatch_lock(std::string_view incarnation) = 0;

  /// Writes or renews a node's row; deletes rows expired for a day.
  virtual void heartbeat(node_row const& node) = 0;
  virtual void retire(std::string_view incarnation) = 0;

  /// Deletes up to `limit` terminal rows past retention; how many.
  virtual std::size_t purge(purge_request const& request) = 0;

  /// Deletes up to `limit` rows that are older than `age`; how many. Nothing while a node that dispatches from the
  /// table is live: that is tested by the statement itself.
  virtual std::size_t purge_by_age(age_purge_request const& request) = 0;

  /// Dead rows, oldest first. A filter or an id that no event can have, such as one that is not UTF-8, matches nothing.
  [[nodiscard]] virtual std::vector<dead_event> dead(dead_filter const& filter, std::size_t limit) = 0;
  [[nodiscard]] virtual std::uint64_t count_dead(dead_filter const& filter) = 0;

  /// DEAD to NEW, due now: attempts, crashes, error and `done_at` cleared, progress kept. False if it is not dead.
  virtual bool replay(std::string_view id) = 0;

  /// Replays up to `limit` dead rows that died no later than `died_by`, oldest first; how many.
  virtual std::size_t replay_some(dead_filter const& filter, instant died_by, std::size_t limit) = 0;

  /// What is paused, for every node on the table. `pause` and `resume` are false if nothing changed. `pause` throws
  /// `error` (invalid_option) for names that no event can have; `resume` is false for them.
  [[nodiscard]] virtual std::vector<route_pause> pauses() = 0;
  virtual bool pause(route_pause const& what) = 0;
  virtual bool resume(route_pause const& what) = 0;

  /// How many entries the last read of the pauses left out because they make no sense: somebody else has written them.
  /// The next change that succeeds writes the rest back without them.
  [[nodiscard]] virtual std::size_t ignored_pauses() noexcept { return 0; }

  /// A number that is another one after somebody has written: a hint, cheap enough to ask every few milliseconds, that
  /// wakes the poller. Only where `watch_every` is positive.
  [[nodiscard]] virtual std::uint64_t change_counter() noexcept { return 0; }

  /// Rows were committed that any node may take. A store that can tell the others does so soon, on a thread of its own:
  /// it costs the caller nothing, and nobody relies on it.
  virtual void hint() noexcept {}
};

}  // namespace outbox::inline v0::spi
