// The clock of a node.
#pragma once

#include <chrono>
#include <memory>
#include <outbox/detail/core_export.hpp>

namespace outbox::inline v0 {

/// A point in calendar time, UTC, with the precision that databases keep.
using instant = std::chrono::sys_time<std::chrono::microseconds>;

/// A point in the process's own time. Deadlines inside a node are measured with it.
using steady_time = std::chrono::steady_clock::time_point;

/// Gives a node its time, so that tests can replace it. Implementations must be thread-safe.
///
/// A store whose database has a clock of its own does not use `now()`; SQLite and memory do.
class OUTBOX_CORE_EXPORT clock {
 public:
  clock() = default;
  clock(clock const&) = delete;
  clock& operator=(clock const&) = delete;
  virtual ~clock();

  [[nodiscard]] virtual instant now() const noexcept = 0;         ///< Calendar time. It may jump.
  [[nodiscard]] virtual steady_time steady() const noexcept = 0;  ///< Never goes back.
};

/// The machine's clocks: `std::chrono::system_clock` and `std::chrono::steady_clock`.
[[nodiscard]] OUTBOX_CORE_EXPORT std::shared_ptr<clock const> machine_clock();

}  // namespace outbox::inline v0
