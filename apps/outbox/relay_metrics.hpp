// What `/metrics` of the relay answers: the figures of nodes, tables and sinks, whatever configuration runs.
#pragma once

#include <memory>
#include <outbox/config.hpp>
#include <outbox/metrics.hpp>
#include <string>

namespace outbox_tool {

/// Thread-safe. Counters never fall while the process lives: those of a configuration that has ended are kept.
class relay_metrics {
 public:
  relay_metrics();
  relay_metrics(relay_metrics const&) = delete;
  relay_metrics& operator=(relay_metrics const&) = delete;
  ~relay_metrics();

  /// Where the figures of a table's node go. Null if the tool was built without prometheus-cpp.
  [[nodiscard]] std::shared_ptr<outbox::metrics> of_table(std::string const& name);

  /// Shows the tables and sinks of a configuration that runs, until the returned object is destroyed. `running` must
  /// outlive it.
  [[nodiscard]] std::shared_ptr<void> watch(outbox::config::opened const& running);

  /// The text of a scrape. Waits a second at most, whatever the databases do. Empty if the tool was built without
  /// prometheus-cpp.
  [[nodiscard]] std::string text() const;

  /// The Content-Type of `text()`.
  [[nodiscard]] static char const* content_type() noexcept;

 private:
  class state;
  std::shared_ptr<state> state_;
};

}  // namespace outbox_tool
