// The instants that every store keeps, to the microsecond.
#pragma once

#include <chrono>
#include <outbox/clock.hpp>

namespace outbox::inline v0::core {

/// Years 1 to 9999: text with four digits of year sorts by time, and PostgreSQL has no year 0.
inline constexpr instant first_instant{std::chrono::sys_days{std::chrono::year{1} / 1 / 1}};
inline constexpr instant last_instant = instant{std::chrono::sys_days{std::chrono::year{9999} / 12 / 31}} +
                                        std::chrono::days{1} - std::chrono::microseconds{1};

}  // namespace outbox::inline v0::core
