// The log of a node.
#pragma once

#include <functional>
#include <outbox/detail/core_export.hpp>
#include <string_view>

namespace outbox::inline v0 {

/// How important a line is.
enum class log_level {
  debug,    ///< Every step.
  info,     ///< A node started, stopped or took over.
  warning,  ///< The hot path was full, a lease was lost, the store does not answer or answers again.
  error,    ///< An event is DEAD, or the store refused a request.
};

/// "debug", "info", "warning" or "error".
[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(log_level level) noexcept;

/// Receives the lines of a log. `message` is one line, begins with the names of the node and its table, and lives only
/// during the call.
///
/// The node's threads call it, and threads that start, stop or poll the node, but never a thread that writes events. A
/// node makes one call at a time. The function may call the node, as in `node.pause(…)`: it receives lines that are
/// logged meanwhile after it has returned.
///
/// Lines of the same kind are limited to ten in ten seconds; the next line gives the number of lines that were left
/// out. An exception of the function is ignored.
using log_function = std::function<void(log_level level, std::string_view message)>;

/// The default: warnings and errors to standard error, one line each.
OUTBOX_CORE_EXPORT void log_to_stderr(log_level level, std::string_view message);

}  // namespace outbox::inline v0
