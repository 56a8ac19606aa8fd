// The options of a node. Every field has a default, and no struct has a field that its mode ignores.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/event.hpp>
#include <outbox/hooks.hpp>
#include <outbox/listener.hpp>
#include <outbox/log.hpp>
#include <outbox/metrics.hpp>
#include <outbox/retry.hpp>
#include <outbox/store.hpp>
#include <string>
#include <vector>

namespace outbox::inline v0 {

/// How the poller looks for rows that the hot path did not deliver.
struct poll_options {
  /// The polling interval while no row is known to become due earlier. Default 0: what the store advises, which is 5 s,
  /// and 500 ms on MariaDB and MySQL, where nothing tells of new rows. Else 1 ms … 1 h. A retry or a delayed event that
  /// falls due earlier is found when it is due. This bounds how late a node finds what other processes wrote if the
  /// store cannot tell it; a shorter time costs one query each.
  std::chrono::milliseconds every{0};

  /// Rows of the first claim. Default 50. 1 … 10,000. While claims come back full, the next one follows at once and
  /// asks for twice as many rows, up to `max_batch`.
  std::size_t batch = 50;

  /// Rows of the largest claim. Default 1000. 1 … 10,000. Claims do not grow if it is not larger than `batch`. More
  /// rows per claim suit short listeners; fewer spread a backlog better over several nodes. An `ordered` node does not
  /// grow its claims.
  std::size_t max_batch = 1000;

  /// Claims leave out rows younger than this. Default 0. At most 1 h. Nodes of this library do not need it, because a
  /// node owns what it writes. Set it if another program that dispatches hot shares the table.
  std::chrono::milliseconds skip_recent{0};

  /// Whether a claim that came back full is followed by the next one at once. Default true. False: new rows are claimed
  /// every `every` only, one claim each time, however many wait; retries are still found when they are due. Then
  /// `batch` rows per `every` are the most that a node delivers.
  bool drain = true;
};

/// What a node may hold in memory. A write that finds no slot still succeeds; the poller delivers its event later.
struct queue_options {
  /// Events taken over at commit. Default 1000. 1 … 1,000,000. More absorbs longer bursts.
  std::size_t hot = 1000;

  /// Rows claimed by the poller: those that wait, run, or are delivered and not settled yet. Default 2000. 1 …
  /// 1,000,000. What a node holds, other nodes cannot take.
  std::size_t cold = 2000;

  /// The bytes of both together, half for each. Default 64 MiB. At least 64 KiB.
  std::size_t bytes = std::size_t{64} << 20;
};

/// What happens to an event that no listener serves.
enum class unroutable {
  dead,   ///< It is DEAD at once: a listener was forgotten.
  defer,  ///< It is deferred by 30 s and not counted: for rolling deployments, where newer nodes have more listeners.
};

/// What `stop()` does with events that wait in the node for a worker.
enum class stop_queued {
  deliver,  ///< They are delivered until the deadline of the stop; the rest is released.
  release,  ///< They are released at once, so that another node can take them; only running calls go on.
};

/// How long a node owns its rows without renewing them, and the number of crashes that a row may survive.
struct lease_options {
  /// How long a node owns a row without renewing its lease. Default 30 s. 1 s … 1 h. The node renews at a quarter of
  /// it. With many nodes this is how long a crash delays what the crashed node held. Shorter leases end sooner after a
  /// crash but also during a long pause of the process, which causes duplicates.
  std::chrono::milliseconds duration{30'000};

  /// The number of crashed owners after which a row becomes DEAD. Default 5. 2 … 1000.
  std::int32_t max_crashes = 5;
};

/// Deletes finished rows. The table is a buffer, not an archive.
struct purge_options {
  /// How long a row stays after it became DONE or DEAD. Default 7 days. 0 … 10 years.
  std::chrono::milliseconds keep = std::chrono::hours{24 * 7};

  /// Rows per transaction, so that no lock is held for long. Default 500. 1 … 100,000.
  std::size_t batch = 500;

  /// How often. Default 1 h. 1 s … 30 days. The first time is a tenth of it after the start.
  std::chrono::milliseconds every = std::chrono::hours{1};

  /// Whether DONE rows are deleted. Default true.
  bool done = true;

  /// Whether DEAD rows are deleted. Default false: they stay until an operator replays or deletes them, so that an
  /// event that is DEAD because its listener was not deployed yet is not lost.
  bool dead = false;
};

/// The options of a node that delivers: `single_node` and `multi_node` take the same.
///
/// The node keeps `store`, `metrics`, `clock`, `hook` and the interceptors alive for as long as it or a writer needs
/// them. Several nodes may share them.
struct node_options {
  /// The table that the node works on. Required. Nodes of one process may share a store.
  std::shared_ptr<outbox::v0::store> store{};

  /// The listeners that the node calls. An event without a listener is unroutable, see `unroutable`.
  outbox::v0::listeners listeners{};

  /// Threads that call listeners. Default 4. 1 … 1024. Raise it if listeners wait for other systems; a listener with a
  /// completion needs no thread while it waits.
  std::size_t workers = 4;

  /// The node's name in `outbox_node`, in the log and in messages to other nodes. Default: the host name. At most 128
  /// characters. It need not be unique.
  std::string name{};

  /// How the poller looks for rows that the hot path did not deliver.
  poll_options poll{};

  /// How often a failed event is tried and how long it waits in between. A route may have its own.
  retry_policy retry{};

  /// How much the node may hold in memory.
  queue_options queue{};

  /// How long the node owns its rows without renewing them.
  lease_options lease{};

  /// How long a listener may take; then the call counts as failed. Default 5 min. 1 ms … 24 h, or 0: no limit. A route
  /// may have its own. Without a limit, a call that never returns keeps its worker and its row for as long as the node
  /// lives, and events of its route that wait in the node wait with it.
  std::chrono::milliseconds listener_timeout{300'000};

  /// Whether events that this node writes are delivered right after their commit. Default true. False: every event goes
  /// through the table and the poller, which is slower and spreads events over all nodes.
  bool hot_path = true;

  /// What happens to an event that no listener serves. Default: it is DEAD.
  outbox::v0::unroutable unroutable = outbox::v0::unroutable::dead;

  /// How large an event may be. `write()` checks it.
  event_limits limits{};

  /// How long `stop()` and the destructor let queued events finish. Default 5 s. 0 … 24 h. Keep it below the time that
  /// the process has between SIGTERM and SIGKILL.
  std::chrono::milliseconds stop_timeout{5000};

  /// What happens to queued events when the node stops. Default: they are delivered, for as long as `stop_timeout`.
  outbox::v0::stop_queued stop_queued = outbox::v0::stop_queued::deliver;

  /// Where log lines go. Default: `log_to_stderr`. Null: nowhere.
  log_function log = log_to_stderr;

  /// Where counters, gauges and durations go. Default: nowhere.
  std::shared_ptr<outbox::v0::metrics> metrics{};

  /// The clock of the node. Default: the clock of the machine. Tests set another one.
  std::shared_ptr<outbox::v0::clock const> clock{};

  /// Which finished rows the node deletes. Default: none. One node per table is enough.
  std::optional<purge_options> purge{};

  /// Called around every write. Default: none.
  std::shared_ptr<writer_hook> hook{};

  /// Called around every delivery, in this order. Default: none.
  std::vector<std::shared_ptr<interceptor>> interceptors{};
};

/// The only active node of a table. A second one stands by until the first is gone.
using single_node_options = node_options;

/// One of many nodes on a table. What a crashed node held goes to the others when its lease has ended.
using multi_node_options = node_options;

/// A node that delivers in the order of writing, one event at a time, each settled before the next begins. A second one
/// stands by. It polls and has no hot path; `poll.every` bounds its latency if the store cannot tell that an event was
/// written.
///
/// Every event has one attempt, because a retry would hold up or reorder the rest: an event that fails is DEAD and the
/// next follows; `dead_events` brings it back. A deferred event holds up the events after it until it is due again.
/// Events with a delay of their own have no place in the order. With `unroutable::defer` an event without a listener
/// holds up the rest too. The order is that of `seq`. On SQLite that is the order of commits; on other databases it is
/// so for transactions that lock the business rows before they write events about them.
struct ordered_options {
  std::shared_ptr<outbox::v0::store> store{};  ///< The table. Required. Its store must have a dispatch lock.

  /// The listeners. Routes with `retry`, `max_in_flight` or batches of their own are refused.
  outbox::v0::listeners listeners{};

  std::string name{};     ///< The node's name. Default: the host name. At most 128 characters.
  poll_options poll{};    ///< How the poller looks for rows; `every` bounds the latency.
  lease_options lease{};  ///< How long the node owns its row without renewing it.

  /// How long a listener may take; then the event is DEAD. Default 5 min. 1 ms … 24 h, or 0: no limit.
  std::chrono::milliseconds listener_timeout{300'000};

  outbox::v0::unroutable unroutable = outbox::v0::unroutable::dead;  ///< An event without a listener. Default: DEAD.
  event_limits limits{};                         ///< How large an event may be. Checked at `write()`.
  std::chrono::milliseconds stop_timeout{5000};  ///< How long `stop()` lets the running event finish. Default 5 s.

  /// What happens to queued events when the node stops. Default: they are delivered, for as long as `stop_timeout`.
  outbox::v0::stop_queued stop_queued = outbox::v0::stop_queued::deliver;

  log_function log = log_to_stderr;                          ///< Where log lines go. Null: nowhere.
  std::shared_ptr<outbox::v0::metrics> metrics{};            ///< Where counters go. Default: nowhere.
  std::shared_ptr<outbox::v0::clock const> clock{};          ///< Default: the clock of the machine.
  std::optional<purge_options> purge{};                      ///< Which finished rows are deleted. Default: none.
  std::shared_ptr<writer_hook> hook{};                       ///< Called around every write. Default: none.
  std::vector<std::shared_ptr<interceptor>> interceptors{};  ///< Called around every delivery, in this order.
};

/// What a dead event does to the events behind it in its key.
enum class on_dead {
  park,  ///< They wait until an operator replays or discards the dead event.
  skip,  ///< They are delivered. If the dead event is replayed, it is delivered beside the order.
};

/// One of many nodes on a table that deliver the events of one key one after the other, in the order of writing, and
/// different keys in parallel. The hot path works too. The key of an event is its `ordering_key`, else its aggregate
/// type and id; an event with neither is in no order, and so is one with a delay.
///
/// An event that fails, is deferred or is paused holds up only its key, until it is delivered or leaves the order. The
/// first successful deliveries of a key are in the order of writing, and no event begins before the one before it was
/// delivered or left the order. The exceptions are those of every lease: a node that stands still for longer than its
/// lease, or a listener that outlives its timeout, may still be at work on the earlier event. A route with
/// `keeps_order` gets the next event earlier, and keeps the order itself. After a crash, the events of a key are
/// repeated in order from the first that is not DONE.
///
/// What it needs from writers: transactions that write events of one key run one after the other, and they write after
/// they have taken the lock that serialises them, such as the lock on the row of the aggregate. On SQLite and
/// Redis that is always so.
///
/// The first such node marks the table. Nodes of other modes, except `writer_only`, then refuse it until `outbox unkey`
/// removes the mark. The node refuses tables of another shape, because they have no column for the order.
struct keyed_options {
  std::shared_ptr<outbox::v0::store> store{};  ///< The table. Required.
  outbox::v0::listeners listeners{};           ///< The listeners. A batch has one event of a key, or see `keeps_order`.
  std::size_t workers = 4;                     ///< Threads that call listeners. Default 4. 1 … 1024.
  std::string name{};                          ///< The node's name. Default: the host name. At most 128 characters.
  poll_options poll{};                         ///< How the poller looks for rows.
  retry_policy retry{};                        ///< How often a failed event is tried. Its key waits meanwhile.
  queue_options queue{};                       ///< How much the node may hold in memory.
  lease_options lease{};                       ///< How long the node owns its rows without renewing them.

  /// What a dead event does to the events behind it. Default: they wait.
  outbox::v0::on_dead on_dead = outbox::v0::on_dead::park;

  /// How long a listener may take; then the call counts as failed. Default 5 min. 1 ms … 24 h, or 0: no limit.
  std::chrono::milliseconds listener_timeout{300'000};

  /// Whether events that this node writes are delivered right after their commit. Default true.
  bool hot_path = true;

  /// What happens to an event that no listener serves. Default: it is deferred, because in a rolling deployment a dead
  /// event of a new type would park its key.
  outbox::v0::unroutable unroutable = outbox::v0::unroutable::defer;

  event_limits limits{};                         ///< How large an event may be. Checked at `write()`.
  std::chrono::milliseconds stop_timeout{5000};  ///< How long `stop()` lets queued events finish. Default 5 s.

  /// What happens to queued events when the node stops. Default: they are delivered, for as long as `stop_timeout`.
  outbox::v0::stop_queued stop_queued = outbox::v0::stop_queued::deliver;

  log_function log = log_to_stderr;                          ///< Where log lines go. Null: nowhere.
  std::shared_ptr<outbox::v0::metrics> metrics{};            ///< Where counters go. Default: nowhere.
  std::shared_ptr<outbox::v0::clock const> clock{};          ///< Default: the clock of the machine.
  std::optional<purge_options> purge{};                      ///< Which finished rows are deleted. Default: none.
  std::shared_ptr<writer_hook> hook{};                       ///< Called around every write. Default: none.
  std::vector<std::shared_ptr<interceptor>> interceptors{};  ///< Called around every delivery, in this order.
};

/// Deletes rows by age, delivered or not: for tables that another program reads, such as change data capture.
struct age_purge_options {
  /// How long a row stays after its insert. Default 7 days. 1 s … 10 years.
  std::chrono::milliseconds keep = std::chrono::hours{24 * 7};

  std::size_t batch = 500;                                  ///< Rows per transaction. Default 500. 1 … 100,000.
  std::chrono::milliseconds every = std::chrono::hours{1};  ///< How often. Default 1 h. 1 s … 30 days.
};

/// A node that only writes. Its events are delivered elsewhere: by a `multi_node` in another process, or by a reader of
/// the database's log. It calls no listener and polls nothing.
struct writer_only_options {
  /// The table that the node writes to. Required.
  std::shared_ptr<outbox::v0::store> store{};

  /// How large an event may be. `write()` checks it.
  event_limits limits{};

  /// Called around every write. Default: none.
  std::shared_ptr<writer_hook> hook{};

  /// Which rows the node deletes. Default: none. Deletes nothing while a node that dispatches from the table is live.
  std::optional<age_purge_options> purge{};

  /// Where log lines go. Default: `log_to_stderr`. Null: nowhere.
  log_function log = log_to_stderr;

  /// The clock of the node. Default: the clock of the machine.
  std::shared_ptr<outbox::v0::clock const> clock{};
};

}  // namespace outbox::inline v0
