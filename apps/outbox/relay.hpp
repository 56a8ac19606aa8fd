// `outbox relay`: runs the nodes of a configuration until a signal ends it.
#pragma once

#include <string>

#include "exit_status.hpp"

namespace outbox_tool {

/// SIGTERM and SIGINT drain and end it, a second one ends it at once. SIGHUP reads the configuration again.
[[nodiscard]] int run_relay(std::string const& file);

/// Shows where the events that wait would go, and changes nothing.
[[nodiscard]] int preview_relay(std::string const& file);

/// Says whether a configuration is right.
[[nodiscard]] int check_config(std::string const& file);

}  // namespace outbox_tool
