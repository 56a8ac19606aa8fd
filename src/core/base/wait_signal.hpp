// Tells subscribers how long a thread waited for a connection.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/spi/subscription.hpp>
#include <utility>

namespace outbox::inline v0::core {

/// The subscribers of a pool. Thread-safe. Without a subscriber, `notify()` is one load of an atomic. In a forked child
/// it does nothing, because the threads that subscribed are not there.
class wait_signal {
 public:
  using callback = std::function<void(std::chrono::nanoseconds)>;

  /// Throws `error` (invalid_option) if `f` is empty.
  [[nodiscard]] spi::subscription subscribe(callback f) {
    if (!f) throw error::about(errc::invalid_option, "callback", "is empty");
    return spi::subscription{std::make_shared<registration>(state_, std::move(f))};
  }

  /// Calls every callback on this thread. Exceptions of a callback are dropped.
  void notify(std::chrono::nanoseconds waited) noexcept {
    if (state_->count == 0 || state_->in_child()) return;
    std::lock_guard const lock{state_->mutex};
    for (auto const& f : state_->callbacks) {
      try {
        f(waited);
      } catch (...) {  // NOLINT(bugprone-empty-catch): a subscriber must not harm the request that waited
      }
    }
  }

 private:
  // The lock is held while callbacks run, so a thread that removes one waits until it has returned.
  struct state {
    [[nodiscard]] bool in_child() const noexcept { return ::getpid() != process; }

    ::pid_t const process = ::getpid();
    std::atomic<std::size_t> count = 0;
    std::mutex mutex;
    std::list<callback> callbacks;
  };

  class registration {
   public:
    registration(std::shared_ptr<state> of, callback f) : of_{std::move(of)} {
      std::lock_guard const lock{of_->mutex};
      which_ = of_->callbacks.insert(of_->callbacks.end(), std::move(f));
      ++of_->count;
    }
    registration(registration const&) = delete;
    registration& operator=(registration const&) = delete;
    ~registration() {
      if (of_->in_child()) return;
      std::list<callback> removed;  // destroyed after the lock: the callback may own something
      std::lock_guard const lock{of_->mutex};
      removed.splice(removed.end(), of_->callbacks, which_);
      --of_->count;
    }

   private:
    std::shared_ptr<state> of_;
    std::list<callback>::iterator which_;
  };

  std::shared_ptr<state> state_ = std::make_shared<state>();
};

}  // namespace outbox::inline v0::core
