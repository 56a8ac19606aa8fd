// How the library speaks to whoever runs it.
#pragma once

#include <functional>
#include <outbox/detail/core_export.hpp>
#include <string_view>

namespace outbox::inline v0 {

/// debug: every step. info: a node started, stopped, took over. warning: the hot path was full, a lease was lost,
/// the store does not answer, or answers again. error: an event died, or the store refused a request.
enum class log_level { debug, info, warning, error };

[[nodiscard]] OUTBOX_CORE_EXPORT std::string_view name(log_level level) noexcept;

/// Called from the node's threads, or from whoever starts, stops or polls it, never from a writer's; one call at a time
/// per node. It may call the node, as in `node.pause(…)`: lines logged in the meantime are passed to it after it
/// returns. `message` is one line, begins with the names of the node and its table, and lives only during the call.
/// Lines of the same kind are limited to ten in ten seconds; the next one says how many were left out. What it throws
/// is swallowed: logging never harms delivery.
using log_function = std::function<void(log_level level, std::string_view message)>;

/// The default: warnings and errors to standard error, one line each.
OUTBOX_CORE_EXPORT void log_to_stderr(log_level level, std::string_view message);

}  // namespace outbox::inline v0
