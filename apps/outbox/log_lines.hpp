// Log lines on standard error, for people and for machines.
#pragma once

#include <outbox/config.hpp>
#include <outbox/log.hpp>
#include <string>
#include <string_view>

namespace outbox_tool {

/// `time=2030-01-31T23:59:59.123Z level=info message="…"`, or the same as a JSON object; with a line break.
[[nodiscard]] std::string log_line(outbox::log_form form, outbox::log_level level, std::string_view message,
                                   outbox::instant at);

/// Writes lines from `least` on. Thread-safe: a line is one write.
[[nodiscard]] outbox::log_function log_to(outbox::log_form form, outbox::log_level least);

}  // namespace outbox_tool
