// Readiness, liveness and metrics over HTTP.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace outbox_tool {

/// An answer: good or not, and a JSON text that says why.
struct health_report {
  bool good = true;
  std::string json{};
};

/// The figures for a scraper. Empty: this program has none.
struct metrics_report {
  std::string text{};
  std::string content_type{};
};

/// Serves `/livez`, which is good while the process answers, `/readyz`, which is what `ready` says, and `/metrics`,
/// which is what `metrics` says. Has threads of its own, which call both.
class health_server {
 public:
  /// `listen` is "address:port"; port 0 takes a free one. Throws std::runtime_error if it cannot listen there.
  health_server(std::string const& listen, std::function<health_report()> ready,
                std::function<metrics_report()> metrics);
  ~health_server();
  health_server(health_server const&) = delete;
  health_server& operator=(health_server const&) = delete;

  [[nodiscard]] int port() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace outbox_tool
