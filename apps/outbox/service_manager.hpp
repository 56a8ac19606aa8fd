// What systemd is told: ready, reloading, stopping, alive. Without systemd nothing happens.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace outbox_tool {

/// Sends a message, as in "READY=1", to the socket that NOTIFY_SOCKET names.
void tell_service_manager(std::string const& message) noexcept;

/// "RELOADING=1" with the instant that systemd asks for.
void tell_reloading() noexcept;

/// How often the watchdog wants a sign of life: half of WATCHDOG_USEC. Empty: there is none for this process.
[[nodiscard]] std::optional<std::chrono::milliseconds> watchdog_interval();

}  // namespace outbox_tool
