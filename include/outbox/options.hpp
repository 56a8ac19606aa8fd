// What a node can be told. Every field has a default; a struct has no field that its mode ignores.
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
  /// How long it waits when it found nothing and knows of nothing. Default 5 s. A retry or a delayed event that falls
  /// due earlier is found when it is due. 1 ms … 1 h.
  std::chrono::milliseconds every{5000};

  /// Rows per claim; while batches are full the next claim follows at once. Default 50. 1 … 10,000.
  std::size_t batch = 50;

  /// Leaves rows younger than this. Default 0: nodes of this library need no such wait among themselves, because a node
  /// claims what it writes itself. At most 1 h.
  std::chrono::milliseconds skip_recent{0};
};

/// What a node may hold in memory. A write that finds no slot still succeeds; the poller delivers it later.
struct queue_options {
  std::size_t hot = 1000;                     ///< Events taken over at commit. Default 1000. 1 … 1,000,000.
  std::size_t cold = 1000;                    ///< Rows claimed by the poller. Default 1000. 1 … 1,000,000.
  std::size_t bytes = std::size_t{64} << 20;  ///< Both together, half each. Default 64 MiB. At least 64 KiB.
};

/// What happens to an event that no listener serves.
enum class unroutable {
  dead,   ///< DEAD at once: somebody forgot a listener.
  defer,  ///< Deferred by 30 s, not counted: for rolling deploys, where newer nodes know more.
};

/// What `stop()` does with events that wait in the node for a worker.
enum class stop_queued {
  deliver,  ///< They are delivered until the deadline of the stop; the rest is released.
  release,  ///< They are released at once, so that another node can take them; only running calls go on.
};

/// Leases and the limits that end what would never end.
struct lease_options {
  /// How long a row stays with a node that says nothing. Renewed at a quarter of it. Default 30 s. 1 s … 1 h.
  /// With many nodes this is how long a crash delays what the crashed node held.
  std::chrono::milliseconds duration{30'000};

  /// A row whose owners vanished this often is DEAD. Default 5. 2 … 1000.
  std::int32_t max_crashes = 5;
};

/// Deletes what is done with. The table is a buffer, not an archive.
struct purge_options {
  /// How long a row stays after it became DONE or DEAD. Default 7 days. At most 10 years.
  std::chrono::milliseconds keep = std::chrono::hours{24 * 7};

  /// Rows per transaction, so that no lock is held for long. Default 500. 1 … 100,000.
  std::size_t batch = 500;

  /// How often; the first time a tenth of it after the start. Default 1 h. 1 s … 30 days.
  std::chrono::milliseconds every = std::chrono::hours{1};

  bool done = true;  ///< False: DONE rows stay. Default true.

  /// True: DEAD rows are deleted too. Default false: they stay until somebody replays or deletes them, so that an event
  /// that died because its listener was not deployed yet is not lost.
  bool dead = false;
};

/// A node that is alone on its table, or whose twin stands by: a second one waits until the first is gone.
struct single_node_options {
  /// Required.
  std::shared_ptr<outbox::v0::store> store{};

  /// Required unless every event should be DEAD.
  outbox::v0::listeners listeners{};

  /// Threads that call listeners. Default 4. 1 … 1024.
  std::size_t workers = 4;

  /// In `outbox_node`, and in what others are told about this node. Default: the host name. At most 128 characters.
  std::string name{};

  poll_options poll{};
  retry_policy retry{};
  queue_options queue{};
  lease_options lease{};

  /// How long a listener may take, then the call counts as failed. Default 5 min. A route may have its own. 1 ms … 24
  /// h, or 0: no limit. A call that never returns then keeps its worker and its row for as long as the node lives, and
  /// events of its route that wait in the node wait with it.
  std::chrono::milliseconds listener_timeout{300'000};

  /// False: every event goes through the table and the poller. Default true.
  bool hot_path = true;

  outbox::v0::unroutable unroutable = outbox::v0::unroutable::dead;

  /// Checked at `write()`.
  event_limits limits{};

  /// How long `stop()` and the destructor let queued events finish. Default 5 s. 0 … 24 h.
  std::chrono::milliseconds stop_timeout{5000};

  /// What becomes of queued events when the node stops. Default: they are delivered, for as long as `stop_timeout`.
  outbox::v0::stop_queued stop_queued = outbox::v0::stop_queued::deliver;

  /// Default: `log_to_stderr`.
  log_function log = log_to_stderr;

  /// Default: none.
  std::shared_ptr<outbox::v0::metrics> metrics{};

  /// Default: the machine's clock.
  std::shared_ptr<outbox::v0::clock const> clock{};

  /// Default: nothing is purged.
  std::optional<purge_options> purge{};

  /// Around every write. Default: none.
  std::shared_ptr<writer_hook> hook{};

  /// Around every delivery, in this order. Default: none.
  std::vector<std::shared_ptr<interceptor>> interceptors{};
};

/// One of many nodes on a table. What a crashed one held goes to the others when its lease is over.
/// The fields mean what they mean in `single_node_options`.
struct multi_node_options {
  std::shared_ptr<outbox::v0::store> store{};
  outbox::v0::listeners listeners{};
  std::size_t workers = 4;
  std::string name{};
  poll_options poll{};
  retry_policy retry{};
  queue_options queue{};
  lease_options lease{};
  std::chrono::milliseconds listener_timeout{300'000};
  bool hot_path = true;
  outbox::v0::unroutable unroutable = outbox::v0::unroutable::dead;
  event_limits limits{};
  std::chrono::milliseconds stop_timeout{5000};
  outbox::v0::stop_queued stop_queued = outbox::v0::stop_queued::deliver;
  log_function log = log_to_stderr;
  std::shared_ptr<outbox::v0::metrics> metrics{};
  std::shared_ptr<outbox::v0::clock const> clock{};
  std::optional<purge_options> purge{};
  std::shared_ptr<writer_hook> hook{};
  std::vector<std::shared_ptr<interceptor>> interceptors{};
};

/// A node that delivers in the order of writing, one event at a time, each settled before the next begins: a second one
/// stands by. It polls and has no hot path; `poll.every` bounds its latency where the store cannot tell that something
/// was written.
///
/// Every event has one attempt, because a retry would hold up or reorder the rest: one that fails is DEAD and the next
/// follows; `dead_events` brings it back. A deferred event holds up what follows until it is due again. Events with a
/// delay of their own are outside the promise. With `unroutable::defer` an event that nobody listens to holds up the
/// rest too. Order is that of `seq`, which is the order of commits on SQLite; on other databases it is so for
/// transactions that lock what they write about first.
///
/// The fields mean what they mean in `single_node_options`.
struct ordered_options {
  std::shared_ptr<outbox::v0::store> store{};

  /// Routes with `retry`, `max_in_flight` or batches of their own are refused.
  outbox::v0::listeners listeners{};

  std::string name{};
  poll_options poll{};
  lease_options lease{};
  std::chrono::milliseconds listener_timeout{300'000};
  outbox::v0::unroutable unroutable = outbox::v0::unroutable::dead;
  event_limits limits{};
  std::chrono::milliseconds stop_timeout{5000};
  outbox::v0::stop_queued stop_queued = outbox::v0::stop_queued::deliver;
  log_function log = log_to_stderr;
  std::shared_ptr<outbox::v0::metrics> metrics{};
  std::shared_ptr<outbox::v0::clock const> clock{};
  std::optional<purge_options> purge{};
  std::shared_ptr<writer_hook> hook{};
  std::vector<std::shared_ptr<interceptor>> interceptors{};
};

/// Deletes rows by age, whatever became of them: for tables that something else reads, such as a change data capture.
struct age_purge_options {
  /// How long a row stays after its insert. Default 7 days. 1 s … 10 years.
  std::chrono::milliseconds keep = std::chrono::hours{24 * 7};

  std::size_t batch = 500;                                  ///< Rows per transaction. Default 500. 1 … 100,000.
  std::chrono::milliseconds every = std::chrono::hours{1};  ///< Default 1 h. 1 s … 30 days.
};

/// A node that only writes: whatever delivers the events is elsewhere, a `multi_node` in another process or a reader of
/// the database's log. It calls no listener and polls nothing.
struct writer_only_options {
  /// Required.
  std::shared_ptr<outbox::v0::store> store{};

  /// Checked at `write()`.
  event_limits limits{};

  /// Around every write. Default: none.
  std::shared_ptr<writer_hook> hook{};

  /// Default: nothing is purged. Deletes nothing while a node that dispatches from the table is live.
  std::optional<age_purge_options> purge{};

  /// Default: `log_to_stderr`.
  log_function log = log_to_stderr;

  /// Default: the machine's clock.
  std::shared_ptr<outbox::v0::clock const> clock{};
};

}  // namespace outbox::inline v0
