// The threads of a node: they carry requests to the store and events to listeners, and decide nothing.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/node/node_core.hpp"

namespace outbox::inline v0::core {

/// Threads end in this order: purger, poller, workers, placer, settler, renewer; the last two only after the last
/// running listener. Only these threads talk to the store, so `stop()` never waits for a store beyond its deadline.
class runtime {
 public:
  explicit runtime(std::shared_ptr<node_core> core);
  runtime(runtime const&) = delete;
  runtime& operator=(runtime const&) = delete;
  ~runtime();

  void start();
  bool stop(milliseconds timeout);
  [[nodiscard]] bool running() const noexcept;

  /// Why it does not run, or empty. A node that only writes needs no thread.
  [[nodiscard]] std::string not_running() const;

  /// True on a thread of this node, and within a callback of the application that `stop()` calls.
  [[nodiscard]] bool on_own_thread() const noexcept;
  std::size_t poll_once();
  std::size_t run_until_idle();

 private:
  enum class phase { made, stepped, running, stopping, stopped };
  using clock = std::chrono::steady_clock;  ///< Stopping takes real time, whatever clock the node has.

  /// Lets one thread in at a time, with a limit to the wait. A std::timed_mutex would do, but the thread sanitizer of
  /// g++ 12 does not understand it.
  class gate {
   public:
    class passage {
     public:
      explicit passage(gate& g, clock::time_point deadline = clock::time_point::max())
          : gate_{g}, inside_{g.enter(deadline)} {}
      passage(passage const&) = delete;
      passage& operator=(passage const&) = delete;
      ~passage() {
        if (inside_) gate_.leave();
      }
      explicit operator bool() const noexcept { return inside_; }

     private:
      gate& gate_;
      bool inside_;
    };

   private:
    bool enter(clock::time_point deadline) {
      std::unique_lock lock{mutex_};
      auto const open = [&] { return !taken_; };
      if (deadline == clock::time_point::max()) {
        free_.wait(lock, open);
      } else if (!free_.wait_until(lock, deadline, open)) {
        return false;
      }
      return taken_ = true;
    }
    void leave() {
      std::lock_guard const lock{mutex_};
      taken_ = false;
      free_.notify_one();
    }

    std::mutex mutex_;
    std::condition_variable free_;
    bool taken_ = false;
  };

  /// A thread that can be waited for no longer than until a deadline. The flags are guarded by the engine's lock.
  struct node_thread {
    std::thread thread{};
    bool quit = false;   ///< It should end.
    bool ended = false;  ///< It has done its last step.
  };

  void check_lock() const;
  void heartbeat();
  void open_engine();
  void step_all(std::size_t& delivered);
  bool close_stepped();
  void abandon_open_calls();
  void work();
  void poll();
  void settle();
  void place();
  void renew();
  void purge();
  void ask_stop();
  void end_by_request();
  bool close(clock::time_point deadline);
  bool flush(clock::time_point deadline);
  bool end_all(clock::time_point deadline);
  void run(node_thread& l, char const* name, void (runtime::*body)());
  [[nodiscard]] bool end_thread(node_thread& l, loop which, clock::time_point deadline);

  std::shared_ptr<node_core> core_;
  gate life_;  ///< Passed while starting and stopping.
  std::atomic<phase> phase_{phase::made};
  // Guarded by the engine's lock.
  bool flush_ = false, quit_workers_ = false;
  bool asked_early_ = false;                ///< While it was being started.
  std::optional<clock::time_point> asked_;  ///< A listener asked for the stop: what is queued has until then.
  bool farewell_said_ = false;              ///< Used by the renewer only.
  spi::subscription changes_;               ///< Used while starting and stopping only.
  std::deque<node_thread> workers_;
  node_thread purger_, poller_, placer_, settler_, renewer_;
};

}  // namespace outbox::inline v0::core
