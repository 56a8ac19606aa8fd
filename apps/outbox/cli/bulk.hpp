// A change of many rows: preview, question, audit, batches with progress, a good end when it is interrupted.
#pragma once

#include <cstddef>
#include <functional>
#include <outbox/spi/store.hpp>
#include <string>

#include "cli/console.hpp"
#include "cli/filter_options.hpp"
#include "cli/target.hpp"

namespace outbox_tool {

struct bulk_options {
  target_options table;
  output_options output;
  filter_options filter;
  bool yes = false, all = false, dry_run = false, fail_if_empty = false;
  std::size_t batch = 500, limit = 0;
  double rate = 0;
  std::string reason;

  /// Adds all of them.
  void add_to(CLI::App& verb);
};

/// What is done with the rows.
struct bulk_change {
  std::string verb;  ///< As in "replay", for the audit and the question.
  std::string past;  ///< As in "replayed".

  /// Changes up to so many rows that match. Returns the number.
  std::function<std::size_t(outbox::spi::store&, outbox::event_filter const&, std::size_t)> change;

  /// Why rows that match may be left, for people. Empty: none is.
  std::string left{};
};

/// Narrows what the options say to the rows that the change is about, from when it begins.
using narrowing = std::function<void(outbox::event_filter&, outbox::instant now)>;

/// Runs it. Returns the exit status. Throws `tool_error`, or the error of the store if nothing was changed.
[[nodiscard]] int run_bulk(bulk_options const& o, bulk_change const& what, narrowing const& narrow);

}  // namespace outbox_tool
