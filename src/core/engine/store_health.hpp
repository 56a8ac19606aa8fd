// Whether the store answers, as each loop sees it, and when a loop may try again.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <outbox/clock.hpp>
#include <outbox/error.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/random.hpp"
#include "core/engine/lease_schedule.hpp"
#include "core/engine/note.hpp"

namespace outbox::inline v0::core {

/// The requests whose success or failure is watched. Each is watched alone: a read may succeed while every write fails,
/// and the release of a token may succeed while every claim fails.
enum class request_kind { claim, release, lock, settle, renew };

/// The log hears of the beginning and of the end of an outage, not of every error.
class store_health {
 public:
  /// Returns the time before which the loop should not try again. `what` completes "cannot …".
  [[nodiscard]] steady_time failed(request_kind kind, error const& e, std::string_view what, steady_time now,
                                   lease_schedule const& leases, random_source& random, std::vector<note>& notes);

  /// Returns how long requests of this kind had failed; nothing if the last one succeeded too.
  std::optional<steady_time::duration> answered(request_kind kind, steady_time now, std::vector<note>& notes);

  /// The last error of a kind of request that fails, or empty.
  [[nodiscard]] std::string problem() const;
  [[nodiscard]] bool away() const noexcept;  ///< Some kind of request fails.

 private:
  struct state {
    std::optional<steady_time> away_since{};
    std::int32_t failures = 0;  ///< In a row.
    std::string said{};         ///< The last error that is not transient; the log has it already.
    std::string error{};        ///< The last error, while requests of this kind fail.
  };

  [[nodiscard]] state& of(request_kind kind) noexcept { return states_[static_cast<std::size_t>(kind)]; }

  std::array<state, 5> states_;
  log_level level_ = log_level::warning;  ///< The end of an outage is logged at the level of its beginning.
};

}  // namespace outbox::inline v0::core
