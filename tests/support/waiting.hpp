// Waiting until something has happened, never for a length of time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace outbox {

/// Asks until the answer is true. Returns false after a time that only a broken test needs.
template <class F>
bool eventually(F&& f) {
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
  while (!f()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});  // other tests need the processor too
  }
  return true;
}

/// Counts deliveries, remembers their order, and lets a test wait for a number of them.
class tally {
 public:
  void add(std::string const& id) {
    std::lock_guard const lock{mutex_};
    ++seen_[id];
    order_.push_back(id);
    changed_.notify_all();
  }
  bool reach(std::size_t n) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, std::chrono::seconds{60}, [&] { return order_.size() >= n; });
  }
  int of(std::string const& id) {
    std::lock_guard const lock{mutex_};
    return seen_[id];
  }
  std::size_t total() {
    std::lock_guard const lock{mutex_};
    return order_.size();
  }
  /// In the order in which listeners saw them.
  std::vector<std::string> ids() {
    std::lock_guard const lock{mutex_};
    return order_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int> seen_;
  std::vector<std::string> order_;
};

}  // namespace outbox
