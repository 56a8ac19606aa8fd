#include <cstdio>
#include <outbox/log.hpp>
#include <string>

namespace outbox::inline v0 {

std::string_view name(log_level level) noexcept {
  switch (level) {
    case log_level::debug: return "debug";
    case log_level::info: return "info";
    case log_level::warning: return "warning";
    case log_level::error: return "error";
  }
  return "unknown";
}

void log_to_stderr(log_level level, std::string_view message) {
  if (level < log_level::warning) return;
  // One write per line, so that lines of several nodes do not mix.
  std::string line{"outbox "};
  line += name(level);
  line += ": ";
  line += message;
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace outbox::inline v0
