// `outbox relay`: runs the nodes of a configuration until a signal ends it.
#pragma once

#include <string>

namespace outbox_tool {

/// Exit statuses of the tool.
enum exit_status : int {
  exit_good = 0,
  exit_failed = 1,  ///< A store or a sink could not be opened, or a stop was cut short by a second signal.
  exit_usage = 2,   ///< The command line or the configuration is wrong.
};

/// SIGTERM and SIGINT drain and end it, a second one ends it at once. SIGHUP reads the configuration again.
[[nodiscard]] int run_relay(std::string const& file);

/// Shows where the events that wait would go, and changes nothing.
[[nodiscard]] int preview_relay(std::string const& file);

/// Says whether a configuration is right.
[[nodiscard]] int check_config(std::string const& file);

}  // namespace outbox_tool
