// A node without its threads: the engine behind its lock, the store, the routes.
//
// Thread-safe. The threads are in `runtime`; unit tests and the simulation call the same functions without threads.
// Writers and transactions hold a weak or shared pointer to a node_core, so they may outlive the node.
//
// Locks are taken in this order: the runtime's `life_`, `metrics_mutex_`, `mutex_` (the engine's lock). The mutex of
// the log is taken alone, after the engine's lock was released. The engine's lock is never held across I/O, a call of a
// listener, a stop callback, a metrics object or a log function.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <outbox/node.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/log_book.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/requests.hpp"
#include "core/node/async_call.hpp"
#include "core/node/settings.hpp"

namespace outbox::inline v0::core {

/// The kinds of threads of a node. There are several workers and one thread of each other kind.
enum class loop { work, poll, settle, renew, purge, place };

/// The engine's lock as its holder passes it on.
using engine_lock = std::unique_lock<std::mutex>;

/// What a request of the poller came to.
struct poll_outcome {
  std::size_t rows = 0;          ///< The number of rows that a claim returned.
  std::optional<error> failure;  ///< The engine knows of it already.
};

class node_core : public std::enable_shared_from_this<node_core> {
 public:
  explicit node_core(node_settings settings);

  // ---- Any thread ----

  /// Runs `f(engine&)` under the lock, then wakes the loops that the engine signalled and writes its notes to the log.
  template <class F>
  auto with_engine(F&& f) {
    return run(std::forward<F>(f), [this](auto& lock) { publish(lock); });
  }

  /// The same for threads of the application. They wake loops but leave the notes to the node's threads, because a log
  /// may be slow.
  template <class F>
  auto with_engine_quietly(F&& f) {
    return run(std::forward<F>(f), [this](auto& lock) { notify(lock); });
  }

  std::vector<event_id> write(transaction_ref tx, std::span<event const> events);

  /// Wakes the poller, because another caller may have written. Short, and it does not call the store.
  void store_changed() noexcept;

  // What the table says to every node. Throw `error`.
  std::optional<error> load_settings();  ///< Returns the reason if this node may not work on the table.
  /// If this node keeps an order per key: prepares the table, and marks it if it is not marked yet. Preparing it may
  /// take long; `check_again` then tells whether the table may still be marked, or throws.
  void mark_keyed(std::function<void()> const& check_again);
  bool pause(route_pause const& what);
  bool resume(route_pause const& what);

  /// Deletes the rows that are past their retention, batch by batch, until `enough` returns true. Returns the number of
  /// deleted rows. Throws `error`.
  std::size_t purge_once(std::function<bool()> const& enough = {});

  // Completions. They do no I/O.
  void answered(answer_entry& call, result&& r, std::optional<std::string>&& progress) noexcept;
  void dropped(answer_entry& call) noexcept;
  void remember(ticket& t, std::string&& progress) noexcept;  ///< Keeps what a call has done so far.

  void say(log_level level, std::string_view text, std::string_view kind = {}, log_facts facts = {}) noexcept;
  [[nodiscard]] node_row self(std::uint64_t held);  ///< What a heartbeat tells about this node.

  /// The engine's counters, and what the store adds to them.
  [[nodiscard]] node_counters counters();
  [[nodiscard]] std::weak_ptr<dispatch_lock> held_lock();

  // ---- Workers, or code that steps the node instead of threads ----

  /// Returns what a worker does next. An ordered node starts nothing without the dispatch lock, because another node
  /// may be further on.
  [[nodiscard]] assignment start_next();
  [[nodiscard]] assignment start_next(engine_lock const& locked);

  /// Calls the listeners of an assignment and passes their results to the engine.
  void carry_out(assignment const& job) noexcept;

  /// Calls the listener of a running ticket. Returns nothing if the listener answers later, through its completion.
  [[nodiscard]] std::optional<call_result> deliver(ticket_ptr const& t) noexcept;

  /// Calls a batch listener once. Returns one call_result for each ticket.
  [[nodiscard]] std::vector<call_result> deliver_batch(std::span<ticket_ptr const> tickets) noexcept;

  /// Passes one result that came through a completion to the engine. Returns false if there is none.
  bool take_answer() noexcept;
  [[nodiscard]] bool has_answers(engine_lock const& /*locked*/) const noexcept { return !answers_.empty(); }

  // ---- Poller, settler and renewer, or code that steps the node instead of threads ----

  [[nodiscard]] plan<poll_request> plan_poll();
  [[nodiscard]] plan<poll_request> plan_poll(engine_lock const& locked);

  /// Carries a request to the store and its reply to the engine. Called without the lock; waits for the store.
  poll_outcome carry(poll_request const& request);
  void carry(settle_request const& request);
  void carry(renew_request const& request);
  void carry(place_request const& request);

  // The halves of `carry`, for tests that do something in between.
  [[nodiscard]] poll_reply ask(poll_request const& request);
  [[nodiscard]] settle_reply ask(settle_request const& request);
  [[nodiscard]] renew_reply ask(renew_request const& request);
  [[nodiscard]] place_reply ask(place_request const& request);
  std::size_t apply(poll_request const& sent, poll_reply reply);  ///< Returns the number of rows that a claim returned.
  void apply(settle_request const& sent, settle_reply const& reply);
  void apply(renew_request const& sent, renew_reply const& reply);
  void apply(place_request const& sent, place_reply const& reply);

  /// Passes what was counted since the last call to the metrics object, and the gauges. `running`: the node was not
  /// stopped.
  void export_metrics(bool running = true) noexcept;

  // ---- The runtime ----

  [[nodiscard]] engine_lock lock() { return engine_lock{mutex_}; }
  [[nodiscard]] engine& engine_under(engine_lock const& /*locked*/) noexcept { return engine_; }

  /// Releases the lock, wakes the loops that the engine signalled, passes on stop requests and writes the notes.
  void publish(engine_lock& lock) noexcept;

  /// Waits until the loop is woken or `wake` has come by the node's clock. Without `wake`: until it is woken. A wait
  /// may end early.
  void wait(engine_lock& lock, loop which, std::optional<steady_time> wake = {});
  void wake_one(loop which) noexcept { woken_[index(which)].notify_one(); }
  void wake_all(loop which) noexcept { woken_[index(which)].notify_all(); }

  /// Waits until `condition(engine const&)` is true after some change. Returns false if it is not by the deadline.
  template <class Condition>
  bool wait_for_change(std::chrono::steady_clock::time_point deadline, Condition condition) {
    std::unique_lock lock{mutex_};
    auto const met = [&] { return condition(std::as_const(engine_)); };
    if (deadline != std::chrono::steady_clock::time_point::max()) return changed_.wait_until(lock, deadline, met);
    changed_.wait(lock, met);
    return true;
  }
  void note_change(engine_lock const& /*locked*/) noexcept { changed_.notify_all(); }

  void refuse_answers() noexcept;                                        ///< Results that come later are ignored.
  void drop_listeners() noexcept { settings_.routes->drop_handlers(); }  ///< When no thread is left to call them.

  /// The end of a stopped node: releases what is in doubt, leaves the registry, gives the dispatch lock back.
  void farewell() noexcept;

  [[nodiscard]] node_settings const& settings() const noexcept { return settings_; }
  [[nodiscard]] spi::store& store() const noexcept { return settings_.store->backend(); }
  [[nodiscard]] steady_time now() const noexcept { return settings_.clock->steady(); }

 private:
  template <class F, class After>
  auto run(F&& f, After&& after) {
    std::unique_lock lock{mutex_};
    if constexpr (std::is_void_v<std::invoke_result_t<F&, engine&>>) {
      f(engine_);
      after(lock);
    } else {
      auto result = f(engine_);
      after(lock);
      return result;
    }
  }

  void notify(engine_lock& lock) noexcept;
  void export_outcomes() noexcept;
  void observe(ticket const& t, result const& r) noexcept;  ///< Passes the durations of a call to the metrics object.
  void observe_settled(settle_request const& sent, std::vector<bool> const& applied, steady_time at) noexcept;
  [[nodiscard]] delivery delivery_of(ticket const& t) const;
  [[nodiscard]] bool intercept(delivery const& d, std::size_t& begun, std::optional<result>& instead);
  [[nodiscard]] std::optional<result> call_listener(ticket const& t, delivery const& d, detail::call& call);
  void tell_interceptors(delivery const& d, std::size_t begun, result const& r) noexcept;
  [[nodiscard]] std::vector<result> answers_of(route const& where, std::span<delivery const> batch);
  void wait_for_answer(std::shared_ptr<async_call> const& call, std::size_t begun) noexcept;
  void enqueue_answer(answer_entry& call) noexcept;
  [[nodiscard]] call_result final_result(async_call& call) noexcept;
  [[nodiscard]] std::optional<error> refusal(table_settings const& table) const;
  [[nodiscard]] result unroutable_answer(event const& e) const;

  // Tells the engine if the dispatch lock was lost. No round trip.
  void look_at_lock();
  void lose_lock();

  [[nodiscard]] static constexpr std::size_t index(loop which) noexcept { return static_cast<std::size_t>(which); }

  node_settings settings_;
  ::pid_t const process_;  ///< The process that made the node. Its forked children have none of the node's threads.
  std::mutex mutex_;
  engine engine_;
  std::shared_ptr<dispatch_lock> dispatch_lock_;
  answer_entry answers_;  ///< Called completions.
  bool answers_refused_ = false;
  std::array<std::condition_variable, 6> woken_;  ///< One for each loop.
  std::condition_variable changed_;               ///< For `wait_for_change`.

  log_book log_;
  std::mutex metrics_mutex_;
  node_counters exported_;                         ///< What the metrics object knows.
  std::vector<route_outcomes> exported_outcomes_;  ///< The same, for each route.
  std::vector<route_outcomes> fresh_outcomes_;     ///< Only within `export_metrics`.
  spi::subscription waits_;                        ///< For connections of the store, if there is a metrics object.
};

}  // namespace outbox::inline v0::core
