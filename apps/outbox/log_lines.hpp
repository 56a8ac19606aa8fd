// Log lines on standard error and in the journal, for people and for machines.
#pragma once

#include <outbox/config.hpp>
#include <outbox/log.hpp>
#include <string>

namespace outbox_tool {

/// `time=2030-01-31T23:59:59.123Z level=info message="…" node=orders table=…`, with a line break.
[[nodiscard]] std::string logfmt_line(outbox::log_line const& line, outbox::instant at);

/// The same as a JSON object, with a line break.
[[nodiscard]] std::string json_line(outbox::log_line const& line, outbox::instant at);

/// Writes lines from `least` on, to standard error or to the journal. Thread-safe: a line is one write.
[[nodiscard]] outbox::log_function log_to(outbox::log_form form, outbox::log_level least);

}  // namespace outbox_tool
