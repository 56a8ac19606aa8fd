// Which events a verb is about: ids, states, types, aggregates, tenants, ages.
#pragma once

#include <cstdint>
#include <outbox/store.hpp>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace outbox_tool {

/// How many rows a filter reads that no index serves, and where counts stop.
inline constexpr std::uint64_t most_rows = 100'000;

/// What --state takes.
[[nodiscard]] std::vector<std::string> const& state_words();

struct filter_options {
  std::vector<std::string> ids{}, states{};
  std::string type{}, aggregate{}, tenant{}, key{}, older_than{}, younger_than{};

  /// Adds the options, and if asked the positional ids.
  void add_to(CLI::App& verb, bool with_ids);

  /// True if nothing narrows it.
  [[nodiscard]] bool empty() const noexcept;

  /// Throws `tool_error` about what is wrong.
  [[nodiscard]] outbox::event_filter filter() const;

  /// The filter in words, for the audit and for people: "type=order.placed older_than=1h".
  [[nodiscard]] std::string words() const;
};

}  // namespace outbox_tool
