// Rows of data that a verb found: printed as a table, as plain lines or as JSON, from one description.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <outbox/clock.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/console.hpp"

namespace outbox_tool {

/// One value: for people, and for scripts.
struct cell {
  std::string text{};              ///< For people. Made by `shown()` if other people wrote it.
  nlohmann::ordered_json value{};  ///< For scripts; null if there is none.
  look how = look::normal;
};

/// Text that other people may have written; empty is null for scripts.
[[nodiscard]] cell text_cell(std::string_view text, look how = look::normal);
[[nodiscard]] cell number_cell(std::uint64_t n, look how = look::normal);

/// "≥ 100,000" if the count has reached its limit.
[[nodiscard]] cell count_cell(std::uint64_t n, std::uint64_t limit, look how = look::normal);

/// An instant as an age.
[[nodiscard]] cell age_cell(std::optional<outbox::instant> at, outbox::instant now, look how = look::normal);

/// An instant of the calendar.
[[nodiscard]] cell time_cell(std::optional<outbox::instant> at);

struct column {
  std::string key;     ///< In JSON.
  std::string title;   ///< Above the column.
  bool right = false;  ///< Numbers stand at the right.
  bool wide = false;   ///< Gets the space that is left, and is cut.
};

/// Rows with the same columns.
class report {
 public:
  explicit report(std::vector<column> columns) : columns_{std::move(columns)} {}
  void add(std::vector<cell> row) { rows_.push_back(std::move(row)); }
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

  /// As a JSON array of objects.
  [[nodiscard]] nlohmann::ordered_json json() const;

  /// Prints it in the form of the console; as JSON, an array. With a header or without.
  void print(console& to, bool header = true) const;

 private:
  void print_pretty(console& to, bool header) const;
  std::vector<column> columns_;
  std::vector<std::vector<cell>> rows_;
};

/// One thing with several facts, a line each.
class facts {
 public:
  void add(std::string key, std::string title, cell value);

  [[nodiscard]] nlohmann::ordered_json json() const;

  /// Pretty and plain; JSON is for the caller, who may add to it.
  void print(console& to) const;

 private:
  struct fact {
    std::string key, title;
    cell value;
  };
  std::vector<fact> facts_;
};

}  // namespace outbox_tool
