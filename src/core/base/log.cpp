#include <cstdio>
#include <outbox/log.hpp>
#include <string>

#include "core/base/text.hpp"

namespace outbox::inline v0 {
namespace {

// What needs no quotes: visible ASCII without the characters that logfmt gives a meaning.
bool is_plain(std::string_view value) noexcept {
  for (char const c : value) {
    if (c <= ' ' || c > '~' || c == '"' || c == '=' || c == '\\') return false;
  }
  return !value.empty();
}

void append_escaped(std::string& to, unsigned code) {
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", code);
  to += text;
}

// One character that begins at `at`. Returns how many bytes it has.
std::size_t append_character(std::string& to, std::string_view value, std::size_t at) {
  auto const length = core::character_at(value, at);
  auto const byte = static_cast<unsigned char>(value[at]);
  if (length == 0) {
    append_escaped(to, 0xfffd);
    return 1;
  }
  if (byte < 0x20 || byte == 0x7f) {
    append_escaped(to, byte);
  } else if (byte == 0xc2 && static_cast<unsigned char>(value[at + 1]) < 0xa0) {  // terminals obey these too
    append_escaped(to, static_cast<unsigned char>(value[at + 1]));
  } else {
    if (byte == '"' || byte == '\\') to += '\\';
    to += value.substr(at, length);
  }
  return length;
}

void append_value(std::string& to, std::string_view value) {
  if (is_plain(value)) {
    to += value;
    return;
  }
  to += '"';
  for (std::size_t at = 0; at < value.size();) at += append_character(to, value, at);
  to += '"';
}

}  // namespace

std::string_view name(log_level level) noexcept {
  switch (level) {
    case log_level::debug: return "debug";
    case log_level::info: return "info";
    case log_level::warning: return "warning";
    case log_level::error: return "error";
  }
  return "unknown";
}

std::string log_line::text() const {
  std::string all{source};
  if (!source.empty()) all += ": ";
  return all += message;
}

std::string log_line::logfmt() const {
  std::string all;
  for (auto const& [key, value] : fields) {
    if (!all.empty()) all += ' ';
    all += key;
    all += '=';
    append_value(all, value);
  }
  return all;
}

void log_to_stderr(log_line const& line) {
  if (line.level < log_level::warning) return;
  // One write per line, so that lines of several nodes do not mix.
  auto const text = "outbox " + std::string{name(line.level)} + ": " + line.text() + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace outbox::inline v0
