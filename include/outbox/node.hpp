// A node: the running part of an outbox.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <outbox/dead_events.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/metrics.hpp>
#include <outbox/options.hpp>
#include <outbox/writer.hpp>
#include <stop_token>
#include <string>
#include <vector>

namespace outbox::inline v0 {

namespace core {
class runtime;
}

/// How a node is. It is unhealthy while the store does not answer or refuses its requests, while every worker is stuck
/// past its listener's timeout, and before `start()` and after `stop()`. A node notices that the store is gone when a
/// request fails: after `poll.every` or a quarter of the lease, whichever is less, if nothing else happens.
struct node_health {
  bool running = false;
  bool active = false;  ///< False while a single node stands by for another.

  /// A node that stands by is healthy; so is a `writer_only` node that was not started, because it needs no thread.
  bool healthy = false;

  /// Empty if healthy. Else the cause, with the text of the error if the store is at fault.
  std::string reason{};

  /// Ids of events that could not be claimed, up to 20 of them: a trigger of yours refuses the change. The
  /// node delivers everything else and tries these again after a minute, then less and less often. They do not make it
  /// unhealthy.
  std::vector<std::string> isolated{};
};

/// Made by a factory below. Making one starts no thread.
///
/// Threads: `start()` makes one per worker and one each to poll, settle and renew. All functions may be called from any
/// thread.
///
/// A listener, or another callback that the node calls, may call `stop()`: that only asks for the stop and returns
/// false. The node then takes no more events. When it has finished what it has, it gives the dispatch lock back, so
/// that another node can go on; `health()` says so. Somebody else must still call `stop()` or destroy the node. A
/// listener may even destroy its own node: a thread of the library then ends it.
///
/// A node that was moved from throws `error` (lifecycle). Of what may not throw, `wake()` does nothing and
/// `incarnation()` is empty; `health()` says why it does not run.
class OUTBOX_CORE_EXPORT node {
 public:
  node(node&&) noexcept;
  node& operator=(node&&) noexcept;

  /// Stops with the configured `stop_timeout`, then waits for listeners that still run and for requests that the store
  /// has not answered.
  ~node();

  [[nodiscard]] outbox::v0::writer writer() const;

  /// Throws `error`: lifecycle if it was started or stopped before, mode_conflict if a live node of another mode is on
  /// the table, unavailable if the store cannot be asked. What had been started is closed again.
  void start();

  /// `start()`, wait for the token, `stop()`.
  void run(std::stop_token token);

  /// Claims no more rows; events written from now on are left to other nodes. Until the deadline it lets queued events
  /// finish (or releases them at once, see `stop_queued`) and waits for transactions that have written events and are
  /// still open. Then it releases the rest and settles what finished.
  ///
  /// It returns one second after the deadline at the latest, whatever listeners, transactions and the store do. True:
  /// everything was finished, or released at once as `stop_queued` says, and settled; the threads have ended. False:
  /// something was released at the deadline, a listener still runs, a transaction is still open, or the store does not
  /// answer. Unless only the first is so, the node's threads go on to settle and release what they can, until `stop()`
  /// is called again or the node is destroyed.
  bool stop();
  bool stop(std::chrono::milliseconds timeout);

  /// Looks at the table now: somebody wrote rows that this node was not told of.
  void wake() noexcept;

  /// One claim now, by the calling thread; how many rows it brought: 0 also while it stands by, or while nothing more
  /// fits. Throws `error`: lifecycle if not started, else what the store says.
  std::size_t poll_once();

  /// Deletes now what is past `purge.keep` (its default if the node has no `purge`), batch by batch; how many rows.
  /// Works whether or not the node runs. Throws what the store says, with the number of rows that were deleted before
  /// in `rows_changed()`, and `error` (invalid_option) on a writer_only node without `purge`.
  std::size_t purge_once();

  /// Delivers nothing more of this type (and aggregate type, if one is given) until `resume()`: kept in the table, so
  /// for every node, which learn of it within a quarter of their lease, and across restarts. Listeners that run finish;
  /// writing goes on. False if it was so before. Throws what the store says, and `error` (invalid_option) for names
  /// that no event can have.
  bool pause(route_pause const& what);
  bool resume(route_pause const& what);
  [[nodiscard]] std::vector<route_pause> paused() const;

  /// For tests: does on the calling thread, without any other, what a started node would do now: polls, delivers,
  /// settles, until nothing is due; how many deliveries. Listeners that answer later may be under way when it returns.
  /// Only instead of `start()`. Throws `error`: lifecycle, also if there is no end to it.
  std::size_t run_until_idle();

  /// The dead events of the node's table; what is replayed, the node delivers at once.
  [[nodiscard]] outbox::v0::dead_events dead_events() const;

  [[nodiscard]] node_counters counters() const;
  [[nodiscard]] node_health health() const;

  /// "host:pid:random": what its tokens begin with.
  [[nodiscard]] std::string const& incarnation() const noexcept;

 private:
  friend OUTBOX_CORE_EXPORT node single_node(single_node_options);
  friend OUTBOX_CORE_EXPORT node multi_node(multi_node_options);
  friend OUTBOX_CORE_EXPORT node ordered(ordered_options);
  friend OUTBOX_CORE_EXPORT node writer_only(writer_only_options);
  explicit node(std::shared_ptr<core::node_core> core);
  void end() noexcept;

  std::shared_ptr<core::node_core> core_;
  std::unique_ptr<core::runtime> runtime_;
};

/// Throw `error` (invalid_option) naming the field.
[[nodiscard]] OUTBOX_CORE_EXPORT node single_node(single_node_options options);
[[nodiscard]] OUTBOX_CORE_EXPORT node multi_node(multi_node_options options);
[[nodiscard]] OUTBOX_CORE_EXPORT node ordered(ordered_options options);
[[nodiscard]] OUTBOX_CORE_EXPORT node writer_only(writer_only_options options);

}  // namespace outbox::inline v0
