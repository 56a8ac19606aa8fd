// Waiting for something, never for a time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace outbox {

/// Asks until it is true; false after a time that only a broken test needs.
template <class F>
bool eventually(F&& f) {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (!f()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});  // other tests need the processor too
  }
  return true;
}

/// Counts deliveries, and lets a test wait for a number of them.
class tally {
 public:
  void add(std::string const& id) {
    std::lock_guard const lock{mutex_};
    ++seen_[id];
    ++total_;
    changed_.notify_all();
  }
  bool reach(std::size_t n) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, std::chrono::seconds{60}, [&] { return total_ >= n; });
  }
  int of(std::string const& id) {
    std::lock_guard const lock{mutex_};
    return seen_[id];
  }
  std::size_t total() {
    std::lock_guard const lock{mutex_};
    return total_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> seen_;
  std::size_t total_ = 0;
};

}  // namespace outbox
