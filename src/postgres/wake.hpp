// LISTEN and NOTIFY: how nodes in other processes learn that there is something to claim. A hint, never a promise.
#pragma once

#include <atomic>
#include <functional>
#include <outbox/log.hpp>
#include <outbox/spi/subscription.hpp>
#include <string>
#include <thread>

#include "core/base/hint_pace.hpp"
#include "postgres/connector.hpp"

namespace outbox::inline v0::postgres {

/// One connection and one thread that hears and says it. What is said between two notifications is said once.
class wake_line {
 public:
  /// Throws `error`: store_failure if a notification to itself does not arrive.
  wake_line(connector how, milliseconds timeout, std::string_view table_id, log_function log);
  wake_line(wake_line const&) = delete;
  wake_line& operator=(wake_line const&) = delete;

  /// Sends first what was said and is not sent yet, if the server takes it within a second; within two if a connection
  /// must be made for it.
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
  void connect_and_listen();
  void self_test();
  [[nodiscard]] bool take_notifications();
  [[nodiscard]] milliseconds until_next() const;
  void wait(milliseconds at_most);
  void send(milliseconds timeout);
  void send_the_last() noexcept;
  void reconnect();
  void remark(log_level level, std::string const& text) noexcept;

  connector const connector_;
  milliseconds const timeout_;
  std::string const channel_, older_channel_;
  log_function const log_;
  handle conn_;
  int wake_[2] = {-1, -1};
  std::atomic<bool> wanted_ = false;
  std::atomic<bool> quit_ = false;
  spi::change_signal changes_;
  core::hint_pace pace_;
  std::thread thread_;
};

}  // namespace outbox::inline v0::postgres
