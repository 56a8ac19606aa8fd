// Passes log lines to spdlog: `options.log = outbox::log_to(spdlog::default_logger())`. Link spdlog.
//
// The tests use spdlog 1.10.0 (Debian 12).
#pragma once

#include <spdlog/spdlog.h>

#include <memory>
#include <outbox/log.hpp>
#include <string>
#include <utility>

namespace outbox::inline v0 {

/// The level that spdlog has for ours.
[[nodiscard]] constexpr spdlog::level::level_enum spdlog_level(log_level level) noexcept {
  switch (level) {
    case log_level::debug: return spdlog::level::debug;
    case log_level::info: return spdlog::level::info;
    case log_level::warning: return spdlog::level::warn;
    case log_level::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

/// Returns a log function for a logger of spdlog, which it shares: the message, then the fields as `line.logfmt()`.
/// The logger's own level decides which lines are written. Thread-safe if the sinks of the logger are ("_mt").
///
/// A null logger: no log, like a null log function.
[[nodiscard]] inline log_function log_to(std::shared_ptr<spdlog::logger> logger) {
  if (!logger) return {};
  return [to = std::move(logger)](log_line const& line) {
    auto const level = spdlog_level(line.level);
    if (!to->should_log(level)) return;
    auto text = std::string{line.message};
    if (!line.fields.empty()) text += " " + line.logfmt();
    to->log(level, spdlog::string_view_t{text.data(), text.size()});  // no format string: braces stay as they are
  };
}

}  // namespace outbox::inline v0
