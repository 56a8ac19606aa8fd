#include "cli/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

namespace outbox_tool {
namespace {

std::string_view variable(char const* name) {
  char const* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing changes the environment
  return value == nullptr ? "" : value;
}

std::size_t columns_of_terminal() {
  ::winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

std::string_view code_of(look l) {
  switch (l) {
    case look::normal: return "";
    case look::bold: return "\033[1m";
    case look::good: return "\033[32m";
    case look::warning: return "\033[33m";
    case look::bad: return "\033[31m";
    case look::faint: return "\033[2m";
  }
  return "";
}

}  // namespace

void output_options::add_to(CLI::App& verb) {
  auto* const json_flag = verb.add_flag("--json", json, "print JSON")->group("Output");
  auto* const plain_flag =
      verb.add_flag("--plain", plain, "print one row per line, columns divided by tabs; the default in a pipe")
          ->group("Output");
  auto* const pretty_flag =
      verb.add_flag("--pretty", pretty, "print tables; the default on a terminal")->group("Output");
  json_flag->excludes(plain_flag)->excludes(pretty_flag);
  plain_flag->excludes(pretty_flag);
  verb.add_flag("--no-color", no_color, "print no colours; NO_COLOR does the same")->group("Output");
  verb.add_flag("-q,--quiet", quiet, "print data and errors only")->group("Output");
}

console::console(output_options const& o) : quiet_{o.quiet} {
  out_is_terminal_ = ::isatty(STDOUT_FILENO) == 1;
  bool const talk = ::isatty(STDERR_FILENO) == 1;
  bool const dumb = variable("TERM") == "dumb" || !variable("NO_COLOR").empty() || o.no_color;
  form_ = o.json ? form::json : o.plain ? form::plain : o.pretty || out_is_terminal_ ? form::pretty : form::plain;
  colours_ = form_ == form::pretty && out_is_terminal_ && !dumb;
  can_ask_ = talk && ::isatty(STDIN_FILENO) == 1;
  redraws_ = talk && variable("TERM") != "dumb" && !o.quiet;
  width_ = out_is_terminal_ ? columns_of_terminal() : 100;
}

std::string console::painted(std::string_view text, look l) const {
  if (!colours_ || l == look::normal || text.empty()) return std::string{text};
  return std::string{code_of(l)} + std::string{text} + "\033[0m";
}

void console::out(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return;
  throw std::system_error{errno, std::generic_category(), "cannot write to standard output"};
}

void console::document(nlohmann::ordered_json const& j) {
  // Only ASCII: a terminal is safe from what other people wrote.
  out(j.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void console::flush() {
  if (std::fflush(stdout) == 0) return;
  throw std::system_error{errno, std::generic_category(), "cannot write to standard output"};
}

void console::say(std::string_view line) const {
  if (!quiet_) warn(line);
}

void console::warn(std::string_view line) const {
  std::string const text = std::string{line} + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void console::redraw(std::string_view line) const {
  if (!redraws_) return;
  std::string const text = "\r\033[K" + std::string{line};
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

bool console::ask(std::string_view question) const {
  if (!can_ask_) return false;
  std::string const text = std::string{question} + " [y/N] ";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

}  // namespace outbox_tool
