// The threads of a node: they carry requests to the store and events to listeners, and decide nothing.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "core/node_core.hpp"

namespace outbox::inline v0::core {

/// Closing order: purger, poller, workers, settler, renewer; the last two only after the last running listener.
class runtime {
 public:
  explicit runtime(std::shared_ptr<node_core> core);
  runtime(runtime const&) = delete;
  runtime& operator=(runtime const&) = delete;
  ~runtime();

  void start();
  bool stop(milliseconds drain);
  [[nodiscard]] bool running() const noexcept;
  std::size_t poll_once();
  std::size_t run_until_idle();

 private:
  enum class phase { made, stepped, running, stopping, stopped };

  void announce();
  void open_engine();
  void step_all(std::size_t& delivered);
  bool close_stepped();
  void abandon_open_calls();
  void work();
  void poll();
  void watch(std::unique_lock<std::mutex>& lock, plan<poll_request>& p);
  void settle();
  void renew();
  void purge();
  void wait_for_callers();
  bool wait_until_drained(steady_time deadline);
  bool flush(steady_time deadline);
  void end_loop(bool& quit, std::condition_variable& wake, std::thread& thread);
  void end_all();
  template <class Plan>
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& cv, Plan const& plan);
  [[nodiscard]] bool on_own_thread() const noexcept;

  std::shared_ptr<node_core> core_;
  mutable std::mutex life_;  ///< Held while starting and stopping.
  std::atomic<phase> phase_{phase::made};
  // Guarded by the engine's lock.
  bool quit_purger_ = false, quit_workers_ = false, quit_poller_ = false, quit_settler_ = false, quit_renewer_ = false,
       flush_ = false;
  std::uint64_t change_counter_ = 0;  ///< The poller's.
  std::vector<std::thread> workers_;
  std::thread purger_, poller_, settler_, renewer_;
};

}  // namespace outbox::inline v0::core
