// Instants as the formats of messages write them.
#pragma once

#include <chrono>
#include <cstdio>
#include <outbox/clock.hpp>
#include <string>

namespace outbox::inline v0::sinks {

/// "2030-01-31T23:59:59.123456Z"
[[nodiscard]] inline std::string rfc3339(instant t) {
  auto const day = std::chrono::floor<std::chrono::days>(t);
  std::chrono::year_month_day const date{day};
  std::chrono::hh_mm_ss const time{t - day};
  char text[40];
  int const size = std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d.%06dZ", int{date.year()},
                                 unsigned{date.month()}, unsigned{date.day()}, static_cast<int>(time.hours().count()),
                                 static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()),
                                 static_cast<int>(time.subseconds().count()));
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace outbox::inline v0::sinks
