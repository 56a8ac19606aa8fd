// From a commit in this process to the listener in another.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pace.hpp"
#include "shared_slots.hpp"

namespace bench {

/// The clock that all processes of a machine share.
[[nodiscard]] inline std::int64_t now_ns() { return steady::now().time_since_epoch().count(); }

[[nodiscard]] inline std::string cross_id(int i) { return "0000000000000000-" + std::to_string(i); }

/// The reader's side: the instant at which the event's listener was entered.
inline void stamp(shared_slots const& slots, std::string const& id) { slots[number_of(id)] = now_ns(); }

/// Waits for the stamp of event `i`. Throws after a minute: the reader has failed.
inline std::int64_t wait_for_stamp(shared_slots const& slots, std::size_t i) {
  for (auto const begin = steady::now(); slots[i] == 0;) {
    if (steady::now() - begin > std::chrono::minutes{1}) throw std::runtime_error{"the other process got no event"};
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
  return slots[i];
}

/// The writer's side: `write(id, committed)` commits one event and calls `committed` when the commit has returned.
/// Returns the milliseconds until each listener was entered, after some that do not count.
using write_event = std::function<void(std::string const& id, std::function<void()> const& committed)>;

[[nodiscard]] inline std::vector<double> cross_times(shared_slots const& slots, int count, write_event const& write) {
  constexpr int warm = 20;
  std::vector<std::int64_t> committed(slots.size());
  paced(warm + count, [&](int i) { write(cross_id(i), [&] { committed[static_cast<std::size_t>(i)] = now_ns(); }); });
  std::vector<double> samples;
  for (std::size_t i = warm; i < static_cast<std::size_t>(warm + count); ++i) {
    samples.push_back(std::max(0.0, static_cast<double>(wait_for_stamp(slots, i) - committed[i]) * 1e-6));
  }
  return samples;
}

/// Slots for `cross_times()`.
[[nodiscard]] inline std::size_t cross_slots(int count) { return static_cast<std::size_t>(count) + 32; }

}  // namespace bench
