// Publish/subscribe: how nodes in other processes learn that there is something to claim. A hint, never a promise.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <outbox/log.hpp>
#include <outbox/spi/subscription.hpp>
#include <string>
#include <thread>

#include "core/base/hint_pace.hpp"
#include "redis/server.hpp"

namespace outbox::inline v0::redis {

/// One connection and one thread that hears it; the thread says it on a connection of the pool, because one that
/// subscribes can do nothing else. What is said between two messages is said once.
class wake_line {
 public:
  /// Throws `error` if it cannot subscribe.
  wake_line(std::shared_ptr<server> where, log_function log);
  wake_line(wake_line const&) = delete;
  wake_line& operator=(wake_line const&) = delete;

  /// Sends first what was said and is not sent yet.
  ~wake_line();

  /// Soon; costs the caller one write to a pipe at most.
  void say() noexcept;

  /// Calls `callback` for everything that is heard, and after every reconnection, because what came meanwhile was not
  /// heard.
  [[nodiscard]] spi::subscription subscribe(std::function<void()> callback) {
    return changes_.subscribe(std::move(callback));
  }

 private:
  void ring() noexcept;
  void loop() noexcept;
  void listen();
  void hear();
  void check_silence();
  void send();
  void send_the_last() noexcept;
  void reconnect();
  void pause(milliseconds at_most);
  void drain() noexcept;
  [[nodiscard]] milliseconds until_next() const;
  void remark(log_level level, std::string const& text) noexcept;

  std::shared_ptr<server> const server_;
  std::string const channel_;
  log_function const log_;
  std::unique_ptr<link> link_;
  int wake_[2] = {-1, -1};
  std::atomic<bool> wanted_ = false;
  std::atomic<bool> quit_ = false;
  std::chrono::steady_clock::time_point heard_at_{};  ///< When the server last said something.
  bool asked_ = false;                                ///< A PING was sent, and nothing was heard since.
  bool refused_ = false;                              ///< The account may not publish.
  spi::change_signal changes_;
  core::hint_pace pace_;
  std::thread thread_;
};

}  // namespace outbox::inline v0::redis
