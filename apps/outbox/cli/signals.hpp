// SIGINT, SIGTERM and SIGHUP for verbs that run for a while: they end at a good moment.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

namespace outbox_tool {

/// While one lives, SIGINT, SIGTERM and SIGHUP are noted; a second one ends the process at once. One at a time. SIGHUP
/// stays ignored where nohup has made it so.
class interruption {
 public:
  interruption() {
    noted() = 0;
    for (int const s : {SIGINT, SIGTERM}) std::signal(s, &note);
    before_ = std::signal(SIGHUP, &note);
    if (before_ == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  }
  interruption(interruption const&) = delete;
  interruption& operator=(interruption const&) = delete;
  ~interruption() {
    for (int const s : {SIGINT, SIGTERM}) std::signal(s, SIG_DFL);
    std::signal(SIGHUP, before_);
  }

  [[nodiscard]] bool came() const noexcept { return noted() != 0; }

  /// Waits for this long, or until a signal comes. Returns true if one came.
  [[nodiscard]] bool wait(std::chrono::milliseconds time) const {
    auto const end = std::chrono::steady_clock::now() + time;
    while (!came() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(
          std::min<std::chrono::nanoseconds>(std::chrono::milliseconds{20}, end - std::chrono::steady_clock::now()));
    }
    return came();
  }

 private:
  static std::atomic<int>& noted() noexcept {
    static std::atomic<int> signal = 0;
    return signal;
  }
  static void note(int signal) noexcept {
    if (noted().exchange(signal) != 0) std::_Exit(128 + signal);
  }

  void (*before_)(int) = SIG_DFL;
};

}  // namespace outbox_tool
