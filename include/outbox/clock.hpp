// Where the library gets its time from.
#pragma once

#include <chrono>
#include <memory>
#include <outbox/detail/core_export.hpp>

namespace outbox::inline v0 {

/// A point in calendar time, UTC, with the precision that databases keep.
using instant = std::chrono::sys_time<std::chrono::microseconds>;

/// A point in the process's own time: what every deadline inside a node is measured with.
using steady_time = std::chrono::steady_clock::time_point;

/// The seam for time. Implementations must be safe to call from several threads.
///
/// A store whose database has a clock of its own does not use `now()`; SQLite and memory do.
class OUTBOX_CORE_EXPORT clock {
 public:
  clock() = default;
  clock(clock const&) = delete;
  clock& operator=(clock const&) = delete;
  virtual ~clock();

  [[nodiscard]] virtual instant now() const noexcept = 0;
  [[nodiscard]] virtual steady_time steady() const noexcept = 0;
};

/// The machine's clocks: `std::chrono::system_clock` and `std::chrono::steady_clock`.
[[nodiscard]] OUTBOX_CORE_EXPORT std::shared_ptr<clock const> machine_clock();

}  // namespace outbox::inline v0
