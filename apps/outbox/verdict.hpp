// Whether events are delivered, in one sentence: what `status` says first.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

namespace outbox_tool {

/// What the verdict is made from.
struct evidence {
  outbox::spi::table_overview table{};
  std::vector<outbox::node_row> nodes{};  ///< Live ones.
  std::vector<outbox::route_pause> pauses{};
  bool keeps_done_rows = true;
  bool keyed = false;                        ///< The table keeps the order of keys.
  std::vector<outbox::parked_key> parked{};  ///< No more than `most_parked`.
};

/// How many parked keys are looked at.
inline constexpr std::size_t most_parked = 1000;

/// The key that was parked first. `parked` is not empty.
[[nodiscard]] outbox::parked_key const& first_parked(std::vector<outbox::parked_key> const& parked);

/// From where on something is wrong.
struct limits {
  std::chrono::milliseconds lag{std::chrono::minutes{1}};  ///< How long an event may be due.
  std::uint64_t dead = 0;                                  ///< How many dead events may be there.
};

/// How fast events are delivered, per minute, and how that is known.
struct delivery_rate {
  double per_minute = 0;
  bool average = false;  ///< Since the nodes started, because done rows are not there to be counted.
};

struct verdict {
  enum class level { healthy, degraded, stalled };
  level what = level::healthy;
  std::string sentence{};                               ///< Without a line break.
  std::optional<outbox::instant> since{};               ///< Since when something is wrong.
  delivery_rate rate{};                                 ///< What is delivered.
  std::optional<std::chrono::seconds> time_to_drain{};  ///< Empty: nothing to drain, or it does not get less.
};

[[nodiscard]] std::string_view name(verdict::level l) noexcept;
[[nodiscard]] verdict judge(evidence const& e, limits const& l);

/// "growing by 210 a minute", "getting less by 3 a minute", "steady", or nothing if it is not known.
[[nodiscard]] std::string growth_text(outbox::spi::table_overview const& t);

}  // namespace outbox_tool
