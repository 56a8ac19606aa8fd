// The log of a node, a store or a sink: lines with a level, a sentence and fields.
/// \file
///
///     options.log = [](outbox::log_line const& line) { std::clog << line.text() << '\n'; };
///
/// Ready functions: `log_to_stderr` here, syslog and journald in `outbox/system_log.hpp`, spdlog in
/// `outbox/adapt/spdlog.hpp`.
#pragma once

#include <functional>
#include <outbox/detail/core_export.hpp>
#include <span>
#include <string>
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

/// One fact of a line, for machines, as in {"event", "01JD…"}.
struct log_field {
  std::string_view key{};    ///< Small letters, digits and "_". It occurs once in a line.
  std::string_view value{};  ///< Any bytes: it may come from a row that another program wrote.
};

/// One line. Everything in it lives only during the call of the log function.
///
/// The fields repeat what the sentence says, so that a program can search for it: `node`, `table`, and where they
/// apply `event`, `type`, `aggregate_type`, `route`, `attempt`, `crashes`, `error`, `code`, `sqlstate`, `request`,
/// `sink` and `left_out`. The how-to page about logging says what each of them is.
struct OUTBOX_CORE_EXPORT log_line {
  log_level level = log_level::info;  ///< How important it is.

  /// What happened: a sentence without a line break that is understood without the fields.
  std::string_view message{};

  /// Who says it, as in "node 'orders' on shop.outbox_event". Empty: the program itself.
  std::string_view source{};

  /// The same facts for machines.
  std::span<log_field const> fields{};

  /// The line for people: the source and the message, as in "node 'orders' on shop.outbox_event: the hot path is full".
  [[nodiscard]] std::string text() const;

  /// The fields in the form of logfmt, on one line: `node=orders error="connection \"a\" is gone"`. Whatever is no
  /// visible ASCII character stands in quotes; control characters are escaped and bytes that are not UTF-8 replaced.
  [[nodiscard]] std::string logfmt() const;
};

/// Receives the lines of a log.
///
/// The node's threads call it, and threads that start, stop or poll the node, but never a thread that writes events. A
/// node makes one call at a time. The function may call the node, as in `node.pause(…)`: it receives lines that are
/// logged meanwhile after it has returned.
///
/// Lines of the same kind are limited to ten in ten seconds; the next line gives the number of lines that were left
/// out, in its message and as the field `left_out`. An exception of the function is ignored.
using log_function = std::function<void(log_line const&)>;

/// The default: warnings and errors to standard error, one line each, for people.
OUTBOX_CORE_EXPORT void log_to_stderr(log_line const& line);

}  // namespace outbox::inline v0
