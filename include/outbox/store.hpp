// A store as an application sees it: it opens one, hands it to nodes, and reads from it.
//
// What a store does for a node is declared in <outbox/spi/store.hpp>, for authors of stores.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0 {

namespace spi {
class store;
}

/// The status of a row, as stored. NEW and RETRY are pending, DONE and DEAD are terminal.
enum class event_status : std::uint8_t {
  created = 0,    ///< NEW
  delivered = 1,  ///< DONE
  retry = 2,      ///< RETRY
  dead = 3,       ///< DEAD
};

[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(event_status s) noexcept;

/// The token of a row's owner: "<incarnation>/<number>". At most 128 characters.
using owner_token = std::string;

/// A pause: events of this type, and of this aggregate type if one is given, are not delivered until it is resumed.
struct route_pause {
  std::string event_type{};      ///< The event type.
  std::string aggregate_type{};  ///< Empty: every aggregate type.

  [[nodiscard]] bool covers(std::string_view aggregate, std::string_view type) const noexcept {
    return type == event_type && (aggregate_type.empty() || aggregate == aggregate_type);
  }
  friend bool operator==(route_pause const&, route_pause const&) = default;
};

/// True if any of `pauses` covers events of this type and aggregate type.
[[nodiscard]] inline bool paused(std::vector<route_pause> const& pauses, std::string_view aggregate_type,
                                 std::string_view event_type) noexcept {
  return std::ranges::any_of(pauses, [&](auto const& p) { return p.covers(aggregate_type, event_type); });
}

/// Which rows of a table. A row matches if it matches every field that is set. A field that no event can have, such as
/// text that is not UTF-8, matches nothing.
struct event_filter {
  std::vector<std::string> ids{};        ///< One of these event ids. Empty: any.
  std::vector<event_status> statuses{};  ///< One of these. Empty: any.
  std::string event_type{};              ///< Empty: any.
  std::string aggregate_type{};          ///< Empty: any. `global_aggregate`: events that name none.
  std::string aggregate_id{};            ///< Empty: any.
  std::string tenant{};                  ///< Empty: any.
  std::string key{};                     ///< The key as `spi::key_of` writes it. Empty: any.

  /// Inserted at least this long ago, by the store's clock.
  std::optional<std::chrono::milliseconds> older_than{};

  /// Terminal rows that ended at this instant or earlier. If another program left `done_at` empty, the insert counts.
  std::optional<instant> died_by{};

  /// Inserted less than this long ago, by the store's clock.
  std::optional<std::chrono::milliseconds> younger_than{};

  /// Only rows among about so many of the newest: a bound for filters that no index serves. SQLite, MariaDB and MySQL
  /// count by `seq`; PostgreSQL takes so many of the pending and as many of the terminal rows, by their instants.
  /// Ignored beside `ids`, and on tables of another shape. Empty: every row.
  std::optional<std::uint64_t> newest{};

  friend bool operator==(event_filter const&, event_filter const&) = default;
};

/// The filter of `dead_events`, which adds that a row is DEAD.
using dead_filter = event_filter;

/// A DEAD row as `dead_events` shows it.
struct dead_event {
  outbox::v0::event event;           ///< The event itself.
  std::int32_t attempts = 0;         ///< Counted failures.
  std::int32_t crashes = 0;          ///< Owners that ended without settling the row.
  std::string last_error{};          ///< Why it is dead.
  std::optional<instant> done_at{};  ///< When it became DEAD. Empty if another program did it and did not say when.
};

/// A row as a tool shows it.
struct row_view {
  outbox::v0::event event;                      ///< The event itself.
  event_status status = event_status::created;  ///< As stored.
  std::int64_t seq = 0;                  ///< The number that the store gave the row. Later rows have higher ones.
  std::int32_t attempts = 0;             ///< Counted failures.
  std::int32_t crashes = 0;              ///< Owners that ended without settling the row, since the last settlement.
  instant available_at{};                ///< Not delivered before this instant.
  instant inserted_at{};                 ///< By the store's clock.
  std::optional<instant> done_at{};      ///< When it became DONE or DEAD.
  owner_token locked_by{};               ///< The owner's token. Empty: the row has no owner.
  std::optional<instant> lease_until{};  ///< The owner holds the row until this instant.
  std::string last_error{};              ///< The error of the last attempt.
  std::string progress{};                ///< What the last settlement wrote: which children of a `fan_out` are done.

  /// True: another row of its key must be finished first, so claims leave it. Empty: it is outside the order of its
  /// key.
  std::optional<bool> blocked = false;
};

/// The number of rows by status.
struct table_counts {
  std::uint64_t created = 0;  ///< NEW
  std::uint64_t retry = 0;    ///< RETRY
  std::uint64_t done = 0;     ///< DONE
  std::uint64_t dead = 0;     ///< DEAD
  [[nodiscard]] std::uint64_t pending() const noexcept { return created + retry; }
};

/// What becomes of a row whose event was delivered.
enum class done_rows : std::uint8_t {
  keep,   ///< The row becomes DONE and stays until it is purged.
  erase,  ///< The row is deleted. Its id can be used again, and nothing tells a delivered event from one never written.
};

/// How nodes share a table.
enum class node_mode : std::uint8_t {
  single_node,
  multi_node,
  ordered,
  writer_only,
  keyed,
  unknown,  ///< Of a newer library. Such a node counts as a dispatcher that excludes all others.
};

[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(node_mode m) noexcept;

/// A route of a node as the table knows it: which events a listener serves.
struct node_route {
  std::string name{};            ///< In logs and metrics.
  std::string event_type{};      ///< Empty: every type. Such a route serves what no other route of its node does.
  std::string aggregate_type{};  ///< Empty: every aggregate type.

  /// False: the node's library wrote only the name, and what the route serves is not known.
  bool known = true;

  /// True if it serves such events. False if that is not known.
  [[nodiscard]] bool serves(std::string_view aggregate, std::string_view type) const noexcept {
    return known && (event_type.empty() || event_type == type) &&
           (aggregate_type.empty() || aggregate_type == aggregate);
  }
  friend bool operator==(node_route const&, node_route const&) = default;
};

/// A node as the table knows it. It is live until its lease ends.
struct node_row {
  std::string incarnation{};               ///< "host:pid:random": one run of a node.
  std::string name{};                      ///< The node's name option.
  std::string version{};                   ///< The version of its library.
  node_mode mode = node_mode::multi_node;  ///< How it shares the table.
  std::chrono::milliseconds lease{};       ///< How long the row is live after a heartbeat.
  std::uint64_t held = 0;                  ///< Events in the node: queued, running, or waiting to be settled.

  /// When its first heartbeat arrived, by the store's clock. The store sets it; a heartbeat ignores what it is given.
  /// Empty: the node's library has schema version 1 and writes none of the fields below.
  std::optional<instant> started_at{};

  bool active = false;               ///< False while it stands by for another node.
  std::string reason{};              ///< Why it is unhealthy or does not claim. Empty if all is well.
  std::string lock_key{};            ///< What the dispatch lock that it holds is called in the database. Empty: none.
  std::uint64_t done = 0;            ///< Events that it settled as delivered, since it was made.
  std::uint64_t failed = 0;          ///< Counted failures, since it was made.
  std::uint64_t dead = 0;            ///< Events that it made DEAD, since it was made.
  std::uint64_t erased = 0;          ///< Rows that it deleted because their events were delivered, since it was made.
  std::vector<node_route> routes{};  ///< Its routes, by name.
};

/// The kind of lock by which a store lets only one node dispatch, for `single_node` and `ordered`.
enum class lock_kind : std::uint8_t {
  none,     ///< There is no such lock: `start()` of a node that needs one throws `error` (unsupported).
  session,  ///< Lasts as long as a session or an open file, and ends with the process.
  lease,    ///< Lasts for a time, and the node renews it.
};

/// What a store can and cannot do.
struct store_capabilities {
  std::string_view kind;             ///< "memory", "sqlite", …: the kind of transaction that it takes.
  bool requires_transaction = true;  ///< False: `write(no_transaction, …)` works too.
  bool keeps_done_rows = true;       ///< False: a delivered event's row is deleted (`done_rows::erase`).
  std::string_view table{};          ///< Its name in log lines. Valid as long as the store.

  /// How the store lets only one node dispatch.
  lock_kind dispatch_lock = lock_kind::session;

  /// Why there is no dispatch lock, and what to do about it. Empty if there is one. Valid as long as the store.
  std::string_view no_lock_reason{};

  // What delivery does not need. Where a bit is false, the functions throw `error` (unsupported).
  bool event_filters = false;  ///< list, count, errors, cancel, replay, discard, and purge by filter.
  bool audit = false;          ///< begin_audit, end_audit, audit.
  bool event_types = false;    ///< event_types.
  bool keys = false;           ///< Receipts, places, keyed claims, parked_keys, heal, set_keyed.
  bool findings = false;       ///< findings.
  bool overview = false;       ///< overview.
  bool waiting_types = false;  ///< waiting_types.

  /// False: who owns a row, its progress and its retries are kept in the memory of one process. Only a node that holds
  /// the dispatch lock may deliver then, so `multi_node` is refused; rows are never born with an owner; and `fan_out`
  /// is refused, because nothing remembers which of its children are done.
  bool owners_in_table = true;

  /// What users should know about the table at each start, as a log line. Empty: nothing. Valid as long as the store.
  std::string_view remarks{};

  bool pauses = true;     ///< pause, resume.
  bool uuid_ids = false;  ///< Event ids must be UUIDs; those that the library makes are then UUIDs of version 7.

  /// How often a node looks for new rows unless its options say otherwise. Shorter where nothing tells of them.
  std::chrono::milliseconds poll_every{5000};
};

/// A key whose first row in line is DEAD, so that nothing behind it is delivered.
struct parked_key {
  std::string key{};  ///< "=" and the ordering key, or the length of the aggregate type, ":", the type and the id.
  std::string id{};   ///< The id of the DEAD row.
  std::optional<instant> since{};  ///< When that row became DEAD.
  std::uint64_t waiting = 0;       ///< The number of pending rows in line behind it.
};

/// Reads for tools and tests. Delivery never uses them. Thread-safe. Throws `error` if the store cannot be read.
class OUTBOX_CORE_EXPORT inspector {
 public:
  inspector() = default;
  inspector(inspector const&) = delete;
  inspector& operator=(inspector const&) = delete;
  virtual ~inspector();

  /// The row of an event, or nothing if there is none. On a store that erases done rows, nothing may also mean that the
  /// event was delivered.
  [[nodiscard]] virtual std::optional<row_view> find(std::string_view id) = 0;

  /// Counts every row of the table, so it is expensive on a large one.
  [[nodiscard]] virtual table_counts counts() = 0;

  /// The live nodes, by incarnation.
  [[nodiscard]] virtual std::vector<node_row> nodes() = 0;

  /// Up to `limit` keys that are parked, by key; a store may look at 10,000 DEAD rows and no more. `dead_events` brings
  /// their events back or discards them. Throws `error` (unsupported) if the store keeps no order per key.
  [[nodiscard]] virtual std::vector<parked_key> parked_keys(std::size_t limit);
};

/// Where events are kept. A header such as <outbox/sqlite.hpp> opens one; nodes take it by `shared_ptr` and keep it
/// alive. Several nodes of one process may share a store.
///
/// Thread-safe.
class OUTBOX_CORE_EXPORT store {
 public:
  store() = default;
  store(store const&) = delete;
  store& operator=(store const&) = delete;
  virtual ~store();

  [[nodiscard]] virtual store_capabilities capabilities() const noexcept = 0;

  /// The store's clock, which computes every instant in the table. Throws `error`.
  [[nodiscard]] virtual instant now() = 0;

  /// Reads for tools and tests. The inspector lives as long as the store.
  [[nodiscard]] virtual inspector& inspect() = 0;

  /// The interface that nodes use. Not for applications.
  [[nodiscard]] virtual spi::store& backend() noexcept = 0;
};

}  // namespace outbox::inline v0
