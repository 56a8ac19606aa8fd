// A node without its threads: the engine behind its lock, the store, the routes.
//
// Everything here is safe to call from several threads. The lock is never held across I/O, a listener, or a log line.
// Writers and transactions hold it by a weak or shared pointer, so that they may outlive the node.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <outbox/node.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/base/log_book.hpp"
#include "core/engine/engine.hpp"
#include "core/engine/requests.hpp"
#include "core/node/async_call.hpp"
#include "core/node/settings.hpp"

namespace outbox::inline v0::core {

class node_core : public std::enable_shared_from_this<node_core> {
 public:
  explicit node_core(node_settings settings);

  /// Runs `f(engine&)` under the lock, then wakes whom it concerns and says what there is to say.
  template <class F>
  auto with_engine(F&& f) {
    return run(std::forward<F>(f), [this](auto& lock) { publish(lock); });
  }

  /// The same for callers' threads: they wake, but it is the node's threads that log, because a log may be slow.
  template <class F>
  auto with_engine_quietly(F&& f) {
    return run(std::forward<F>(f), [this](auto& lock) { notify(lock); });
  }

  // Writing.
  std::vector<event_id> write(transaction_ref tx, std::span<event const> events);

  /// What a worker does next. In order, only while the dispatch lock is held: another may be further on by now.
  [[nodiscard]] assignment start_next(std::unique_lock<std::mutex> const& locked);
  [[nodiscard]] assignment start_next();

  // The halves of the loops' steps that are more than the engine's own.
  [[nodiscard]] plan<poll_request> plan_poll();
  [[nodiscard]] plan<poll_request> plan_poll(std::unique_lock<std::mutex> const& locked);
  std::size_t apply(poll_request const& sent, poll_reply reply);
  void apply(settle_request const& sent, settle_reply const& reply);
  void apply(renew_request const& sent, renew_reply const& reply);
  [[nodiscard]] node_row self(std::uint64_t held) const;
  [[nodiscard]] std::weak_ptr<dispatch_lock> held_lock();

  /// Deletes what is past its retention, batch by batch, until `enough` says so; how many. Throws `error`.
  std::size_t purge_once(std::function<bool()> const& enough = {});

  /// Calls the listeners of what a worker was assigned and takes their answers to the engine.
  void carry_out(assignment const& job) noexcept;

  /// Calls the listener of a running ticket. Nothing: it answers later, through its completion.
  [[nodiscard]] std::optional<verdict> deliver(ticket_ptr const& t) noexcept;

  /// Calls the listener that takes them all; one verdict each.
  [[nodiscard]] std::vector<verdict> deliver_batch(std::span<ticket_ptr const> tickets) noexcept;

  /// Takes one answer that came through a completion to the engine; false if there is none.
  bool take_answer() noexcept;

  // Completions: from any thread, without I/O.
  void answered(answer_entry& call, result&& r, std::optional<std::string>&& progress) noexcept;
  void dropped(answer_entry& call) noexcept;
  void remember(ticket& t, std::string&& progress) noexcept;             ///< What a call has done so far.
  void refuse_answers() noexcept;                                        ///< From here on they come too late.
  void drop_listeners() noexcept { settings_.routes->drop_handlers(); }  ///< When no thread is left to call them.

  // Pauses of routes, kept in the store for every node. Throw `error`.
  void load_pauses();
  bool pause(route_pause const& what);
  bool resume(route_pause const& what);

  /// What happened since the last call, to the metrics; then the gauges.
  void export_metrics() noexcept;

  /// The end of a stopped node: releases what is in doubt, leaves the registry, gives the dispatch lock back.
  void farewell() noexcept;

  void say(log_level level, std::string_view text, std::string_view kind = {}) noexcept;

  [[nodiscard]] node_settings const& settings() const noexcept { return settings_; }
  [[nodiscard]] spi::store& store() const noexcept { return settings_.store->backend(); }
  [[nodiscard]] steady_time now() const noexcept { return settings_.clock->steady(); }

 private:
  friend class runtime;

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

  void notify(std::unique_lock<std::mutex>& lock) noexcept;
  [[nodiscard]] delivery delivery_of(ticket const& t) const;
  [[nodiscard]] bool intercept(delivery const& d, std::size_t& begun, std::optional<result>& instead);
  void tell_interceptors(delivery const& d, std::size_t begun, result const& r) noexcept;
  [[nodiscard]] std::vector<result> answers_of(route const& where, std::span<delivery const> batch);
  void wait_for_answer(std::shared_ptr<async_call> const& call, std::size_t begun) noexcept;
  void enqueue_answer(answer_entry& call) noexcept;
  [[nodiscard]] verdict final_verdict(async_call& call) noexcept;
  [[nodiscard]] result unroutable_answer(event const& e) const;

  // Tells the engine if the dispatch lock was lost. No round trip.
  void look_at_lock();

  // Unlocks, then wakes whom the engine signalled and logs what it noted.
  void publish(std::unique_lock<std::mutex>& lock) noexcept;

  node_settings settings_;
  ::pid_t const process_;  ///< The one that made the node: its forked children have none of the node's threads.
  std::mutex mutex_;
  engine engine_;
  std::shared_ptr<dispatch_lock> dispatch_lock_;
  answer_entry answers_;  ///< Called completions.
  bool answers_refused_ = false;
  std::condition_variable work_, settle_, poll_, renew_, purge_, changed_;

  log_book log_;
  std::mutex metrics_mutex_;
  node_counters exported_;
};

}  // namespace outbox::inline v0::core
