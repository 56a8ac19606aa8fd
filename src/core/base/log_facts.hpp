// The fields of a line that is logged later.
#pragma once

#include <outbox/error.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::inline v0::core {

/// Keys are literals, so they outlive the line.
struct log_fact {
  std::string_view key{};
  std::string value{};
};

using log_facts = std::vector<log_fact>;

/// What an error says: `error`, `code`, and `sqlstate` if the database gave one.
[[nodiscard]] inline log_facts facts_of(error const& e) {
  log_facts all{{"error", e.what()}, {"code", std::string{name(e.code())}}};
  if (!e.sqlstate().empty()) all.push_back({"sqlstate", std::string{e.sqlstate()}});
  return all;
}

}  // namespace outbox::inline v0::core
