// How load is made, and how a hand-over is timed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "rounds.hpp"

namespace bench {

using steady = std::chrono::steady_clock;

inline constexpr std::chrono::milliseconds between{5};  ///< 200 a second

inline double microseconds(steady::duration d) { return std::chrono::duration<double, std::micro>{d}.count(); }

inline std::vector<double> p50_p99(std::vector<double> const& samples) {
  return {percentile(samples, 0.5), percentile(samples, 0.99)};
}

// Runs `once(i)` at a steady pace.
template <class F>
void paced(int count, F&& once) {
  auto next = steady::now();
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_until(next);
    next += between;
    once(i);
  }
}

// A thread that is handed one thing at a time: the least that any hand-over costs.
class bare_hand_off {
 public:
  bare_hand_off()
      : thread_{[this](std::stop_token const& stop) {
          std::unique_lock lock{mutex_};
          while (changed_.wait(lock, stop, [&] { return given_ > taken_; })) {
            ++taken_;
            entered_ = steady::now();
            done_.notify_one();
          }
        }} {}
  void give() {
    {
      std::lock_guard const lock{mutex_};
      ++given_;
    }
    changed_.notify_one();
  }
  steady::time_point wait() {
    std::unique_lock lock{mutex_};
    done_.wait(lock, [&] { return taken_ == given_; });
    return entered_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::condition_variable done_;
  int given_ = 0, taken_ = 0;
  steady::time_point entered_{};
  std::jthread thread_;
};

// The listener's side of one event at a time.
class arrival {
 public:
  void arrived() {
    auto const now = steady::now();
    std::lock_guard const lock{mutex_};
    at_ = now;
    ++count_;
    changed_.notify_one();
  }
  steady::time_point wait_for(int count) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return count_ >= count; });
    return at_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
  steady::time_point at_{};
};

template <class Work>
void on_threads(int count, Work&& work) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&work, t] { work(t); });
}

}  // namespace bench
