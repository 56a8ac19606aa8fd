// The measurements of `outbox bench`: what an application would see, one kind of work after the other.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/place.hpp"
#include "bench/samples.hpp"
#include "cli/console.hpp"
#include "cli/signals.hpp"

namespace outbox_tool {

struct measure_options {
  std::chrono::milliseconds time{30'000};  ///< All of it.
  std::size_t connections = 4;             ///< That write at the same time.
  std::size_t payload = 256;               ///< Bytes of an event's payload.
};

/// Work of which the rate counts.
struct throughput {
  std::uint64_t count = 0;
  double seconds = 0;
  [[nodiscard]] double per_second() const noexcept { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
};

struct measurements {
  samples round_trip;  ///< The smallest statement.
  samples write_one;   ///< A transaction with one event, on one connection.
  throughput one;
  samples write_several;  ///< The same on several connections.
  throughput several;
  throughput cold;                 ///< Delivered from the table.
  samples hot;                     ///< From the return of commit() until the listener is entered.
  std::uint64_t hot_late = 0;      ///< Of these, events that the poller delivered.
  std::uint64_t conflicts = 0;     ///< Transactions that the database ended with an error that a retry cures.
  std::string product;             ///< The database and its version.
  std::vector<std::string> notes;  ///< What the store says about the database's settings.
};

/// Measures in the place, which must be there. Draws progress. Ends early, with what it has, if a signal comes. Throws
/// `outbox::error`.
[[nodiscard]] measurements measure(bench_place const& where, measure_options const& o, console const& to,
                                   interruption const& stop);

/// What limits a figure, in words; empty if that cannot be told. All from the figures themselves.
struct limits_in_words {
  std::string round_trip, one, several, cold, hot;
};
[[nodiscard]] limits_in_words explain(measurements const& m, measure_options const& o, int round_trips);

}  // namespace outbox_tool
