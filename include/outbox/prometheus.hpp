// The figures of nodes as Prometheus reads them: a registry for the process, an exporter for each node.
/// \file
///
///     auto const figures = std::make_shared<outbox::prometheus::registry>();
///     options.metrics = figures->exporter({.table = "orders"});
///
/// The thread that serves `/metrics` answers with `figures->text()`.
#pragma once

#include <functional>
#include <memory>
#include <outbox/detail/prometheus_export.hpp>
#include <outbox/metrics.hpp>
#include <string>
#include <utility>
#include <vector>

namespace prometheus {
class Collectable;
}

namespace outbox::inline v0::prometheus {

/// The Content-Type of `registry::text()`.
inline constexpr char const* content_type = "text/plain; version=0.0.4; charset=utf-8";

/// How a registry names its figures.
struct registry_options {
  /// Begins the name of every figure. Dots become underscores. Default "outbox".
  std::string prefix = "outbox";
};

/// The labels of a node's figures, besides `route`. An empty one is left out.
struct exporter_options {
  std::string table{};  ///< The label `table`. Default: none.
  std::string node{};   ///< The label `node`. Default: none. Prometheus itself adds `instance` for the process.
};

/// A figure of another part of the program, such as a sink.
struct figure {
  enum class kind { gauge, counter };

  std::string name;                                           ///< Without prefix: "sink.in_flight".
  std::string help;                                           ///< One line that says what it is.
  kind is = kind::gauge;                                      ///< The name of a counter gets the ending `_total`.
  std::vector<std::pair<std::string, std::string>> labels{};  ///< Names and values.
  double value = 0;                                           ///< As it is now.
};

/// Where the figures of a process meet.
///
/// Thread-safe. Exporters may outlive it. A node's threads write without a lock and without allocating; a scrape reads.
///
/// A figure has the name `full_name(f, prefix, '_')`; counters end in `_total`, and `lag.oldest.ms` is
/// `lag_oldest_seconds`, because seconds are the unit everywhere. The number of series is bounded by the number of
/// exporters with different labels and of the routes of their nodes: no label has a value from an event.
class OUTBOX_PROMETHEUS_EXPORT registry {
 public:
  /// Throws `error` (invalid_option) about `prefix` if names could not begin with it.
  explicit registry(registry_options o = {});
  registry(registry const&) = delete;
  registry& operator=(registry const&) = delete;
  ~registry();

  /// What a node takes as its `metrics`. Give each node one of its own.
  ///
  /// Exporters with the same labels share their counters and histograms, so a counter never falls when a new node takes
  /// the place of an old one. Of their gauges the text has the sum; of `lag_oldest_seconds` and `active` the highest
  /// value, of `healthy` the lowest. The gauges of an exporter end with it.
  [[nodiscard]] std::shared_ptr<metrics> exporter(exporter_options o = {});

  /// Asks `read` for more figures at each scrape, on its thread, for as long as the registry lives. `read` must be
  /// thread-safe and should not wait for a database. If it throws, its figures are left out.
  void add(std::function<std::vector<figure>()> read);

  /// All figures in the text format of Prometheus, for an answer with `content_type`.
  [[nodiscard]] std::string text() const;

  /// The same for a program that uses prometheus-cpp: `exposer.RegisterCollectable(figures->collectable())`. The
  /// exposer serves it beside the program's own `prometheus::Registry`.
  [[nodiscard]] std::shared_ptr<::prometheus::Collectable> collectable() const;

 private:
  class state;
  std::shared_ptr<state> state_;
};

}  // namespace outbox::inline v0::prometheus
