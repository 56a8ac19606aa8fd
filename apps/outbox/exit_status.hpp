// What the tool's exit status tells a script.
#pragma once

namespace outbox_tool {

inline constexpr int exit_good = 0;
inline constexpr int exit_failed = 1;         ///< It failed, or it found what it looks for: status, doctor.
inline constexpr int exit_usage = 2;          ///< A wrong command line or configuration.
inline constexpr int exit_nothing = 3;        ///< Nothing matched, and --fail-if-empty was given.
inline constexpr int exit_unreachable = 4;    ///< The database does not answer.
inline constexpr int exit_schema = 5;         ///< There is no outbox table, or its schema is another one.
inline constexpr int exit_permission = 6;     ///< The database refuses the user.
inline constexpr int exit_partial = 7;        ///< A bulk change ended early; what it changed stays changed.
inline constexpr int exit_interrupted = 130;  ///< SIGINT.

}  // namespace outbox_tool
