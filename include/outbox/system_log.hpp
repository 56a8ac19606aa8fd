// The logs of the system: syslog and journald. Neither needs a library.
/// \file
///
///     options.log = outbox::log_to_journal();
///     options.log = outbox::log_to_syslog("shop");
#pragma once

#include <outbox/detail/core_export.hpp>
#include <outbox/log.hpp>
#include <string>

namespace outbox::inline v0 {

/// Where journald listens, and under which name.
struct journal_options {
  /// What the journal calls the program, as in `journalctl -t shop`. Default "outbox".
  std::string identifier = "outbox";

  /// What the names of our fields begin with: the field `event` becomes OUTBOX_EVENT. Default "OUTBOX_".
  std::string prefix = "OUTBOX_";

  /// The socket of journald. Default: that of the system.
  std::string socket = "/run/systemd/journal/socket";

  /// Less important lines are left out. Default info.
  log_level least = log_level::info;
};

/// Returns a log function that writes to journald by its native protocol. Thread-safe. Copies share one socket.
///
/// A line becomes one entry: MESSAGE is `line.text()`, PRIORITY the level (7 debug, 6 info, 4 warning, 3 error),
/// SYSLOG_IDENTIFIER the identifier, and each field has its name in capitals behind the prefix:
/// `journalctl OUTBOX_EVENT=01JD…` finds the lines of an event. A value that is longer than 16 KiB is cut off.
///
/// A line that journald does not take, because its socket is not there or is full, goes to standard error.
///
/// Throws `error` (invalid_option): an empty identifier, a prefix that is not made of capitals, digits and "_" or does
/// not begin with a capital, a socket whose path is longer than 107 bytes.
[[nodiscard]] OUTBOX_CORE_EXPORT log_function log_to_journal(journal_options options = {});

/// Returns a log function that writes to syslog(3): `line.message`, then the fields as `line.logfmt()`. Thread-safe.
///
/// syslog(3) knows one program per process. With an `ident`, openlog(3) is called with it, for the facility "daemon"
/// and with the number of the process; it then holds for every line that the process writes to syslog. Default empty:
/// what the program has chosen stays.
[[nodiscard]] OUTBOX_CORE_EXPORT log_function log_to_syslog(std::string const& ident = {},
                                                            log_level least = log_level::info);

}  // namespace outbox::inline v0
