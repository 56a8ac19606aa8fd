// The store interface: what a store does for the nodes that use it. For authors of stores.
//
// A row is pending (NEW or RETRY) until a settlement makes it DONE or DEAD, or deletes it. A pending row may have an
// owner: a token and a lease. The token is new for every birth and every claim, so it is the fence: settling, renewing
// and releasing touch a row only while it carries the token they name. The store's own clock computes every instant
// when a statement runs.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <outbox/spi/subscription.hpp>
#include <outbox/store.hpp>
#include <outbox/transaction.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::spi {

/// The schema version of this library. A table says in `oldest_library` which version may still work on it.
inline constexpr int schema_version = 2;

/// The key of an event: "=" and its ordering key if it has one, else the number of characters of its aggregate type,
/// ":", the aggregate type and the aggregate id. Empty if the event has neither an ordering key nor an aggregate id: it
/// then belongs to no order.
[[nodiscard]] OUTBOX_CORE_EXPORT std::string key_of(event const& e);

// Rows: insert, claim, settle, renew, release.

/// A row to insert. With an empty token it is inserted without an owner, and a poller will find it.
struct insertion {
  outbox::v0::event const* event = nullptr;  ///< The event.
  std::string_view token{};                  ///< The owner's token, or empty.
  std::chrono::milliseconds lease{};         ///< How long the owner holds the row, from the insert.
};

/// Where a row stands in the line of its key.
struct place {
  std::int64_t seq = 0;  ///< The row's number.

  /// The id of the row before it: the one in line with the next lower `seq`. Empty if there is none, or if the event
  /// has no key or a delay.
  std::string before{};

  /// False: the store could not tell. A receipt says so if the caller's transaction may not see what others have
  /// committed; `places` says so of a row that is not there.
  bool known = true;
};

/// What an insert tells about its rows: one entry each, in order. The store keeps the receipt until the transaction
/// ends. The entries are there when the commit has returned, on most stores when the insert has.
struct insert_receipt {
  std::vector<place> rows{};  ///< Of each row, in order.

  /// The caller's: of each key that it writes, it knows that no row up to this `seq` is in line. A store may leave out
  /// those rows when it looks for the row before. 0: it knows nothing.
  std::int64_t finished = 0;
};

/// A row and the token of its owner.
struct row_handle {
  std::string id{};          ///< The event id.
  owner_token token{};       ///< The fence: the row is touched only while it carries this token.
  std::int64_t locator = 0;  ///< The store's own way to find the row fast. 0: the store has told none yet.
};

/// Rows with one crash left are suspects. A claim takes a suspect alone, so that no other event shares its crash.
enum class suspects { skip, take_one };

/// Which rows a claim takes, and for whom.
struct claim_request {
  owner_token token{};                      ///< The new owner. Never used before.
  std::size_t limit = 50;                   ///< At most this many rows (with `take_one`: 1).
  std::size_t max_bytes = SIZE_MAX;         ///< Stops before the events' sizes exceed this, but takes at least one.
  std::chrono::milliseconds lease{};        ///< How long the new owner holds the rows, from the claim.
  std::int32_t max_crashes = 5;             ///< The claim makes a row DEAD whose crashes reach this.
  spi::suspects suspects = suspects::skip;  ///< Whether the claim looks for ordinary rows or for one suspect.
  bool unowned_only = false;  ///< Leaves rows with an expired lease to their owners. Used after an outage.
  std::chrono::milliseconds skip_recent{};  ///< Leaves rows inserted less than this ago.

  /// Takes rows by `seq` from the lowest that is pending, and stops before the first that must wait: one that was tried
  /// and is not due again, or is owned, or is too young. A row that was born with a delay and is not due yet is passed
  /// over. A suspect is taken alone; `suspects` and `unowned_only` are ignored.
  bool in_order = false;

  /// Keeps the order of keys. A row that is in line is taken only if nothing stands before it, or if the claim takes
  /// everything that does: the row before it, and so on down to the first. Other rows in line are noted as blocked, so
  /// that later claims do not see them. Behind a first row that was never tried the claim also takes blocked rows, its
  /// run: the rows that follow without a gap, as far as they are due. A row whose crashes are used up is taken, because
  /// only a settlement can unblock the next row; the node settles it. Not with `in_order`.
  bool keyed = false;

  std::size_t run = 64;  ///< With `keyed`: at most this many rows of one key.

  /// Leaves rows that no settlement has put back: a claim between two rounds of `poll.drain = false`. Not with
  /// `in_order`.
  bool retries_only = false;

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
  row_handle handle;          ///< The row, with the claim's token.
  outbox::v0::event event;    ///< The event.
  std::int32_t attempts = 0;  ///< Counted failures so far.
  std::int32_t crashes = 0;   ///< Owners that ended without settling the row, those that this claim counted included.
  bool tried = false;         ///< RETRY: an earlier attempt ended without success.
  std::string progress{};     ///< What the last settlement wrote.
  std::string malformed{};    ///< Not empty: why the row cannot be read. The node settles it as dead.
  std::int64_t seq = 0;       ///< The row's number.
  std::string key{};          ///< The row's key (`key_of`). Empty if it has none or is outside the order of its key.
};

/// A row that the claim itself made DEAD: because its crashes are used up, or because it cannot be read.
struct dead_row {
  std::string id{};          ///< The event id.
  std::string type{};        ///< The event type.
  std::int32_t crashes = 0;  ///< Its crashes.
  std::string why{};         ///< Empty: its crashes are used up.
};

/// A row that the store could not claim although it has no owner: a trigger in the database raises an error or
/// suppresses the change.
struct refused_row {
  std::string id{};     ///< The event id.
  std::string type{};   ///< The event type.
  std::string error{};  ///< What the database said.
};

/// What a claim brought.
struct claim_reply {
  std::vector<claimed_row> rows{};     ///< The rows that the token now owns.
  std::vector<dead_row> dead{};        ///< The rows that the claim made DEAD.
  std::vector<refused_row> refused{};  ///< The rows that the claim had to leave.
  bool more = false;                   ///< Stopped at `limit` or `max_bytes`: other rows may be due.
  std::size_t noted = 0;               ///< With `keyed`: rows that wait for another row of their key from now on.
  bool suspects_waiting = false;       ///< A suspect is due and was left.
  instant now{};                       ///< The store's time of the claim.
  std::optional<instant> next_due{};   ///< The first instant after `now` at which another row can be claimed. If there
                                       ///< is `more`, it may be missing.
  std::chrono::milliseconds oldest_lag{};  ///< How long the first due row has been due; 0 if none was.
  std::optional<instant> floor{};  ///< The due instant of the first row that was left, else of the last one taken.

  /// Claim again after this time even if nothing else happens: the claim left rows that are about to be free.
  std::optional<std::chrono::milliseconds> look_again{};

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

/// The end of one attempt.
struct settlement {
  row_handle row{};                           ///< The row and the token that must own it.
  spi::outcome outcome = outcome::delivered;  ///< What becomes of it.
  std::int32_t counted = 0;                   ///< Added to attempts: 1 for a counted failure, else 0.
  std::chrono::milliseconds delay{};          ///< For retry and defer.
  std::string error{};                        ///< Valid UTF-8, no NUL, at most 4000 characters.
  std::string progress{};                     ///< Written with every outcome except release.

  /// Set both for a row that leaves the line of its key: delivered, or dead without parking it. The store then unblocks
  /// the first row in line behind the lowest `seq` of each key. An empty key asks for nothing.
  std::string key{};
  std::int64_t seq = 0;  ///< As the claim or the receipt told it.
};

/// What a settlement did.
struct settle_reply {
  std::vector<bool> applied{};  ///< For each item, in order: true if the row carried the token and was unfinished.
  std::size_t unblocked = 0;    ///< The number of rows that can be claimed now because a row before them left its key.
};

// Operators: purge, filters, audit, health.

/// Deletes terminal rows that ended long enough ago. On a table marked keyed, DEAD rows that are in line stay.
struct purge_request {
  /// Counted from `done_at`; if another program left that empty, from the insert.
  std::chrono::milliseconds retention{};
  bool done = true;         ///< Deletes DONE rows.
  bool dead = true;         ///< Deletes DEAD rows.
  std::size_t limit = 500;  ///< At most this many.
};

/// Deletes rows by age, whatever their status: for tables that no node dispatches from, because another program reads
/// the database's log.
struct age_purge_request {
  std::chrono::milliseconds age{};  ///< Counted from the insert, by the store's clock.
  std::size_t limit = 500;          ///< At most this many.
};

/// The order of a list of rows, by `seq`.
enum class list_order { oldest_first, newest_first };

/// What an operator did, as `outbox_audit` keeps it.
struct audit_entry {
  std::int64_t id = 0;                     ///< Given by the store.
  instant at{};                            ///< When it began, by the store's clock.
  std::string who{};                       ///< The operator. At most 128 characters.
  std::string verb{};                      ///< "replay", "cancel", … At most 32 characters.
  std::string filter{};                    ///< The filter as text.
  std::string reason{};                    ///< Why, in the operator's words.
  std::uint64_t matched = 0;               ///< The number of rows that matched before.
  std::optional<std::uint64_t> changed{};  ///< The number of rows that were changed. Empty: it has not ended.
  std::optional<instant> ended_at{};       ///< Empty: it has not ended, or its program ended first.
};

/// The rows of one event type and aggregate type.
struct event_type_counts {
  std::string event_type{};      ///< The event type.
  std::string aggregate_type{};  ///< `global_aggregate` for events that name none.
  table_counts counts{};         ///< Its rows by status.
};

/// The state of a table in figures that its indexes give, so that it costs the same on a small and on a large one.
/// Every count stops at `limit`; a count that has reached it means "this many or more". A row that waits for another
/// row of its key is pending and blocked, and in none of the other counts of pending rows.
struct table_overview {
  instant at{};                ///< When it was read, by the store's clock.
  std::uint64_t limit = 0;     ///< Where counts stop.
  std::uint64_t pending = 0;   ///< NEW and RETRY. The other counts of pending rows are about these.
  std::uint64_t retrying = 0;  ///< RETRY: tried at least once.
  std::uint64_t held = 0;      ///< Owned by a node whose lease runs.
  std::uint64_t delayed = 0;   ///< NEW, without an owner and not due yet: delayed by the writer or deferred.
  std::uint64_t due = 0;       ///< Could be claimed now.
  std::uint64_t blocked = 0;   ///< Waits for another row of its key.
  std::uint64_t dead = 0;      ///< DEAD.

  /// Since when the first due row could have been claimed. Empty: none is due.
  std::optional<instant> due_since{};

  /// Since when the oldest pending row waits that is not delayed: its insert, or the end of its delay. Empty: none.
  std::optional<instant> waiting_since{};

  std::optional<instant> last_dead{};   ///< When a row last became DEAD, as far as DEAD rows are there.
  std::optional<instant> last_ended{};  ///< When a row last became DONE or DEAD, as far as such rows are there.
  std::uint64_t done_in_a_minute = 0;   ///< Rows that became DONE in the last minute and are there.
  std::uint64_t dead_in_a_minute = 0;   ///< Rows that became DEAD in the last minute and are there.

  /// The number of pending rows now less that of a minute ago. Empty if the store erases done rows, or if a count has
  /// reached its limit.
  std::optional<std::int64_t> growth{};
};

/// The rows that have the same error.
struct error_group {
  std::string error{};             ///< The text, as in `last_error`.
  std::uint64_t rows = 0;          ///< How many rows have it.
  std::uint64_t dead = 0;          ///< How many of them are DEAD.
  std::optional<instant> first{};  ///< The earliest of: when a DEAD row died, when a pending one was inserted.
  std::optional<instant> last{};   ///< The latest of these.
  std::string id{};                ///< The id of one of the rows.
  std::string event_type{};        ///< The type of one of the rows.
  std::uint64_t event_types = 0;   ///< The number of different types.
};

/// What a check of a table or its database came to.
enum class finding_level : std::uint8_t {
  passed,   ///< All is well.
  note,     ///< Good to know.
  warning,  ///< Less safe than it could be, slow, or soon a problem.
  problem,  ///< Does not work, or loses events.
  skipped,  ///< The check could not be made, so what it looks for is not known.
};

[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(finding_level l) noexcept;

/// The result of one check, for an operator. <outbox/spi/check.hpp> helps to write them.
struct finding {
  finding_level level = finding_level::warning;  ///< What it came to.
  std::string code{};                            ///< A fixed word that names the check, such as "missing_index".
  std::string text{};                            ///< One sentence: what is so, with the value that was measured.
  std::string why{};                             ///< One sentence: why it matters.
  std::string fix{};  ///< Commands or SQL that mend it, one per line, to be copied. May be empty if it passed.
};

/// Two limits of one figure: above the first it is a warning, above the second a problem.
template <class T>
struct limit_pair {
  T warning{};  ///< More than this is a warning.
  T problem{};  ///< More than this is a problem.

  [[nodiscard]] finding_level judge(T const& value) const {
    if (value > problem) return finding_level::problem;
    return value > warning ? finding_level::warning : finding_level::passed;
  }
};

/// What the checks of a store take for too much.
struct finding_limits {
  /// How long a transaction may be open before it keeps the database from removing old versions of rows.
  limit_pair<std::chrono::milliseconds> transaction_age{std::chrono::minutes{5}, std::chrono::hours{1}};

  /// Versions of rows that are not needed any more, in percent of all. Counts only above `dead_versions`.
  limit_pair<std::uint64_t> dead_percent{20, 50};
  limit_pair<std::uint64_t> dead_versions{10'000, 100'000};  ///< How many there must be for that share to matter.

  /// Transactions whose old versions InnoDB has not removed yet.
  limit_pair<std::uint64_t> history{1'000'000, 10'000'000};

  /// The size of the log of a SQLite file, in bytes.
  limit_pair<std::uint64_t> wal_bytes{std::uint64_t{64} << 20U, std::uint64_t{1} << 30U};

  /// The log that a replication slot keeps, in bytes.
  limit_pair<std::uint64_t> slot_bytes{std::uint64_t{1} << 30U, std::uint64_t{10} << 30U};

  /// How long ago a lease may have ended before a row counts as abandoned.
  std::chrono::milliseconds expired_lease = std::chrono::minutes{1};

  /// How many rows a check reads at most.
  std::size_t rows = 100'000;
};

// Coordination: settings of the table, nodes, the dispatch lock.

/// What the table says to every node. Nodes read it before they start and at each renewal.
struct table_settings {
  std::vector<route_pause> pauses{};  ///< What is paused.

  /// The number of entries that were left out of `pauses` because no event can match them or they cannot be read:
  /// another program wrote them. The next change that succeeds writes the rest back without them.
  std::size_t ignored_pauses = 0;

  int oldest_library = 1;  ///< A library with a lower `schema_version` must not work on the table.
  bool keyed = false;      ///< The table keeps an order per key: only nodes that know it may dispatch from it.
};

/// Held by the one node that may dispatch, in the modes that allow only one. Destroying it gives the lock back. It ends
/// with the process or, if the store's kind of lock is a lease, at the end of the lease.
///
/// Thread-safe.
class OUTBOX_CORE_EXPORT dispatch_lock {
 public:
  dispatch_lock() = default;
  dispatch_lock(dispatch_lock const&) = delete;
  dispatch_lock& operator=(dispatch_lock const&) = delete;
  virtual ~dispatch_lock();

  /// False once the lock was lost: its session has ended, or its lease is over. No round trip.
  [[nodiscard]] virtual bool held() const noexcept = 0;

  /// For `lock_kind::lease`: extends the lease, which then ends that long from now by the store's clock. Returns false
  /// if the lock was lost. Throws `error` if that is not known; the node keeps the lock for as long as `held()` is
  /// true, and tries again at its next renewal. The node calls it at each renewal, which is at a quarter of the lease.
  [[nodiscard]] virtual bool renew() { return true; }

  /// Ends now the leases of every owner of another incarnation. Returns the number of rows. It takes effect only while
  /// the lock is held, however late the statement arrives, so it never ends a lease of the next holder. Throws `error`.
  virtual std::size_t expire_others() = 0;

  /// What the lock is called in the database, for operators. Empty if it has no name.
  [[nodiscard]] virtual std::string key() const { return {}; }
};

/// What a node asks of a database.
///
/// Thread-safe. Every function is one short transaction of its own unless it says otherwise. Every function throws
/// `error`, transient if the same call may succeed later. A call that threw may still have had its effect, or have it
/// later.
class OUTBOX_CORE_EXPORT store : public outbox::v0::store {
 public:
  ~store() override;

  [[nodiscard]] spi::store& backend() noexcept final { return *this; }

  // Rows. Delivery needs all of these.

  /// Inserts in the caller's transaction. Throws `error` (wrong_transaction) if that is of another kind or database,
  /// before it writes anything. An error of the database is thrown here, or by the transaction's commit if it sends the
  /// rows together with that. An event with a delay is outside the order of its key.
  ///
  /// `tx.none()` is true only where `requires_transaction` is false: all rows are then in the store when the call
  /// returns, or none is if it throws. If the error is transient or in doubt, they may be there.
  ///
  /// With a receipt, tells the `seq` of each row and the row before it. Without one, nothing extra is asked. Throws
  /// `error` (unsupported) if there is a receipt and `capabilities().keys` is false.
  virtual void insert(transaction_ref tx, std::span<insertion const> rows,
                      std::shared_ptr<insert_receipt> const& receipt) = 0;

  /// The same without a receipt.
  void insert(transaction_ref tx, std::span<insertion const> rows) { insert(tx, rows, nullptr); }

  /// Gives due rows without a live owner to `request.token`, oldest due instant first. Leaves blocked rows, except in a
  /// run. Where an expired owner stood, a crash is counted; at `max_crashes` the row is made DEAD instead.
  [[nodiscard]] virtual claim_reply claim(claim_request const& request) = 0;

  /// Applies each outcome to its row if the row carries the token and is unfinished. Clears owner and lease, and,
  /// except for a release, crashes. For settlements with a key that were applied, unblocks the next row: it is due at
  /// once, or at its own `available_at` if that is later.
  [[nodiscard]] virtual settle_reply settle(std::span<settlement const> items) = 0;

  /// For each row, in order: true if it still carried the token. Its lease then ends `lease` from now, and it is not
  /// blocked.
  [[nodiscard]] virtual std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) = 0;

  /// Where rows stand that were committed before the call, in order, as a receipt would tell. Throws `error`
  /// (unsupported) if `capabilities().keys` is false.
  [[nodiscard]] virtual std::vector<place> places(std::span<std::string const> ids);

  /// Releases every unfinished row that carries one of `tokens` and whose lease still runs, for `lease` at most.
  /// Returns the number of rows. A row whose lease is over can be claimed anyway.
  virtual std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) = 0;

  // Coordination. Delivery needs all of these.

  /// Returns null if another process or node has the lock. `lease` is how long a lock of `lock_kind::lease` lasts
  /// unless the node renews it; other kinds ignore it. Throws `error` (unsupported) if the kind is `none`.
  [[nodiscard]] virtual std::unique_ptr<dispatch_lock> try_dispatch_lock(std::string_view incarnation,
                                                                         std::chrono::milliseconds lease) = 0;

  /// Writes or renews a node's row. Deletes rows that expired a day ago.
  virtual void heartbeat(node_row const& node) = 0;

  /// Deletes a node's row.
  virtual void retire(std::string_view incarnation) = 0;

  /// What the table says to every node, in one read.
  [[nodiscard]] virtual table_settings settings() = 0;

  /// Pauses a route for every node on the table. Returns false if it was paused before. Throws `error` (invalid_option)
  /// for names that no event can have.
  virtual bool pause(route_pause const& what) = 0;

  /// Ends a pause. Returns false if there was none.
  virtual bool resume(route_pause const& what) = 0;

  // Operators. Nodes need the first two; the others have a capability bit and throw `error` (unsupported) by default.

  /// Deletes up to `limit` terminal rows past retention. Returns the number of rows.
  virtual std::size_t purge(purge_request const& request) = 0;

  /// Deletes up to `limit` rows that are older than `age`. Returns the number of rows. Deletes nothing while a node
  /// that dispatches from the table is live; the statement itself tests that.
  virtual std::size_t purge_by_age(age_purge_request const& request) = 0;

  /// Up to `limit` rows that match.
  [[nodiscard]] virtual std::vector<row_view> list(event_filter const& filter, list_order order, std::size_t limit);

  /// The number of rows that match, counted no further than `up_to`.
  [[nodiscard]] virtual std::uint64_t count(event_filter const& filter, std::uint64_t up_to);

  /// Rows that match by their errors, the most frequent first, at most `limit` groups. Rows without an error are left
  /// out.
  [[nodiscard]] virtual std::vector<error_group> errors(event_filter const& filter, std::size_t limit);

  /// Makes up to `limit` pending rows that match DEAD, with `reason` as their error, oldest first. The owner of a held
  /// row loses it. Returns the number of rows.
  virtual std::size_t cancel(event_filter const& filter, std::string_view reason, std::size_t limit);

  /// Makes up to `limit` DEAD rows that match NEW and due now, oldest first: attempts, crashes, error and `done_at` are
  /// cleared, progress is kept. Returns the number of rows.
  virtual std::size_t replay(event_filter const& filter, std::size_t limit);

  /// Takes up to `limit` DEAD rows that match and are in line out of the line of their key, oldest first, and unblocks
  /// the rows behind them. They stay DEAD. Returns the number of rows.
  virtual std::size_t discard(event_filter const& filter, std::size_t limit);

  /// Deletes up to `limit` terminal rows that match, oldest first. On a table marked keyed, DEAD rows that are in line
  /// stay. Returns the number of rows.
  virtual std::size_t purge(event_filter const& filter, std::size_t limit);

  /// Writes that an operator begins something: `who`, `verb`, `filter`, `reason` and `matched` of `entry`. Returns the
  /// id of the entry.
  virtual std::int64_t begin_audit(audit_entry const& entry);

  /// Writes that it has ended, and the number of rows it changed. Returns false if there is no such entry or it has
  /// ended before.
  virtual bool end_audit(std::int64_t id, std::uint64_t changed);

  /// The newest entries first, at most `limit`.
  [[nodiscard]] virtual std::vector<audit_entry> audit(std::size_t limit);

  /// The event types in the table, by name. Reads every row.
  [[nodiscard]] virtual std::vector<event_type_counts> event_types();

  /// The event types among up to `rows` pending rows, those that can be claimed first, and up to `rows` DEAD ones, by
  /// name. Their counts are of these rows only. Rows that wait for another row of their key are left out.
  [[nodiscard]] virtual std::vector<event_type_counts> waiting_types(std::size_t rows);

  /// The state of the table. Counts stop at `limit`.
  [[nodiscard]] virtual table_overview overview(std::uint64_t limit);

  /// Up to `limit` keys that are parked, by key. A store may look at 10,000 DEAD rows in line and no more.
  [[nodiscard]] virtual std::vector<parked_key> parked_keys(std::size_t limit);

  /// Unblocks up to `limit` rows that are blocked although they are the first in line of their key: another program
  /// deleted or changed the rows before them. Returns the number of rows. May end early; the next call goes on.
  virtual std::size_t heal(std::size_t limit);

  /// Makes what the order of keys needs in the database, such as an index, without marking the table. That may take
  /// long. If it is missing and the store may not change the schema, throws `error` (store_failure) that says how to
  /// make it. Every keyed node calls this when it starts. Default: nothing is needed.
  virtual void prepare_for_keys();

  /// Marks the table as keyed, after `prepare_for_keys()`, or removes the mark. Removing the mark also clears every
  /// note, in batches: no row is blocked afterwards. The caller makes sure that no node of another mode is live.
  virtual void set_keyed(bool keyed);

  /// Makes every check of the table and its database that the store knows, and returns one finding or more of each,
  /// those that passed too. Changes nothing, and costs the same on a large table. A check that the database refuses is
  /// `skipped`.
  [[nodiscard]] virtual std::vector<finding> findings(finding_limits const& limits);

  /// The same with the default limits.
  [[nodiscard]] std::vector<finding> findings() { return findings(finding_limits{}); }

  // Signals. Hints only: no promise depends on them.

  /// Calls `callback` soon after another caller may have written rows that can be claimed, on a thread of the store or
  /// of the caller that wrote, until the subscription ends. The callback must be short and must not call the store.
  /// Changes may be reported late, together, or without need: the node polls anyway. A store that cannot observe
  /// changes returns an empty subscription. Throws `error` if the store cannot begin to observe them.
  [[nodiscard]] virtual subscription on_change(std::function<void()> callback) = 0;

  /// Rows were committed that any node may take. A store that can tell other processes does so soon, on a thread of its
  /// own, so that it costs the caller nothing. Delivery does not rely on it.
  virtual void hint() noexcept = 0;

  /// Calls `callback` each time that a function of the store waited because every connection of its pool was in use,
  /// with the length of the wait, on the thread that waited, until the subscription ends. The callback must be short
  /// and must not call the store. Default: an empty subscription, for a store that has no pool.
  [[nodiscard]] virtual subscription on_wait(std::function<void(std::chrono::nanoseconds)> callback);
};

}  // namespace outbox::inline v0::spi
