// A node without its threads: the engine behind its lock, the store, the routes.
//
// Everything here is safe to call from several threads. The lock is never held across I/O, a listener, or a log line.
// Writers and transactions hold it by a weak or shared pointer, so that they may outlive the node.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <outbox/node.hpp>
#include <span>
#include <string>
#include <vector>

#include "core/engine.hpp"
#include "core/requests.hpp"
#include "core/settings.hpp"

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

  // The halves of the loops' steps that are more than the engine's own.
  [[nodiscard]] plan<poll_request> plan_poll();
  [[nodiscard]] plan<poll_request> plan_poll(std::unique_lock<std::mutex> const& locked);
  std::size_t apply(poll_request const& sent, poll_reply reply);
  void apply(settle_request const& sent, settle_reply const& reply);
  void apply(renew_request const& sent, renew_reply const& reply);
  [[nodiscard]] node_row self(std::uint64_t held) const;
  [[nodiscard]] std::weak_ptr<dispatch_lock> held_lock();

  /// Deletes what is past its retention, batch by batch; how many. Throws `error`.
  std::size_t purge_once();

  /// Calls the listener of a running ticket; never throws.
  [[nodiscard]] verdict deliver(ticket const& t) noexcept;

  /// What happened since the last call, to the metrics; then the gauges.
  void export_metrics() noexcept;

  /// The last words of a stopped node: releases what is in doubt, leaves the registry, gives the dispatch lock back.
  void farewell() noexcept;

  void say(log_level level, std::string_view text) noexcept;

  [[nodiscard]] node_settings const& settings() const noexcept { return settings_; }
  [[nodiscard]] outbox::v0::store& store() const noexcept { return *settings_.store; }
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
  [[nodiscard]] result answer(delivery const& d, route const* where, std::size_t& begun);
  [[nodiscard]] result unroutable_answer(event const& e) const;

  // Unlocks, then wakes whom the engine signalled and logs what it noted.
  void publish(std::unique_lock<std::mutex>& lock) noexcept;

  node_settings settings_;
  std::mutex mutex_;
  engine engine_;
  std::shared_ptr<dispatch_lock> dispatch_lock_;
  std::condition_variable work_, settle_, poll_, renew_, purge_, changed_;

  std::mutex log_mutex_;
  std::mutex metrics_mutex_;
  node_counters exported_;
};

}  // namespace outbox::inline v0::core
