// The sink that writes one JSON object per line, to a file or to standard output.
#pragma once

#include <memory>
#include <outbox/detail/sinks_export.hpp>
#include <outbox/sink.hpp>
#include <string>

namespace outbox::inline v0::json_lines {

/// Where the lines go.
struct options {
  /// The path of a file, which is created if necessary and only ever grows. "-": standard output. Default "-".
  std::string path = "-";

  /// Whether a line is on the disk before its event is DONE. Default true. Standard output is not flushed to a disk.
  bool sync = true;

  /// What the log and `health()` call it. Default "json_lines".
  std::string name = "json_lines";
};

/// Returns a sink. One thread of its own writes the lines of all messages that wait, with one flush for all of them.
///
///     {"id":"01H…","type":"order.placed","topic":"orders","key":"42","aggregate_type":"order","aggregate_id":"42",
///      "occurred_at":"2030-01-31T23:59:59.123456Z","headers":{"traceparent":"…"},"content_type":"application/json",
///      "payload":{"cents":1999}}
///
/// `headers` are those of the event and of the route. A payload of JSON stands in the line as it is, except that line
/// breaks between its parts become spaces. Other payloads are in `payload_base64`; text that claims to be JSON and is
/// not is in `payload_text`. Fields that an event does not have are left out.
///
/// If a write fails, the lines that reached the file are taken back, and the sink is unavailable. A file that a crash
/// left with half a line gets a line break first.
///
/// Throws `error` (invalid_option) about `path` if the file cannot be opened.
[[nodiscard]] OUTBOX_SINKS_EXPORT std::shared_ptr<sink> open(options o = {});

/// The line of a message, with the line break.
[[nodiscard]] OUTBOX_SINKS_EXPORT std::string line_of(message const& m);

}  // namespace outbox::inline v0::json_lines
