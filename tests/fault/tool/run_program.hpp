// Other programs that read what the tool prints: shells, scdoc, groff.
#pragma once

#include <pty.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace outbox {

/// A word of a command line for sh.
inline std::string shell_word(std::string_view word) {
  std::string result = "'";
  for (char const c : word) result += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return result + "'";
}

struct program_result {
  int status = -1;
  std::string out;  ///< Both outputs.
};

/// Runs a command line of sh with `input` as its standard input.
inline program_result run_program(std::string const& command, std::string const& input_file = "/dev/null") {
  program_result r;
  auto* const pipe = ::popen(("{ " + command + "; } 2>&1 <" + shell_word(input_file)).c_str(), "r");
  if (pipe == nullptr) return r;
  char some[4096];
  for (std::size_t n = 0; (n = std::fread(some, 1, sizeof some, pipe)) > 0;) r.out.append(some, n);
  auto const status = ::pclose(pipe);
  r.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return r;
}

inline bool is_installed(std::string const& program) { return run_program("command -v " + program).status == 0; }

inline std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream in{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// A shell on a terminal: types `keys` when it shows `prompt`, and waits until it ends. False if it ended before.
inline bool type_into(std::vector<std::string> command, std::string const& prompt, std::string const& keys) {
  std::vector<char*> argv;
  for (auto& c : command) argv.push_back(c.data());
  argv.push_back(nullptr);
  ::winsize const size{.ws_row = 100, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  auto const pid = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (pid < 0) return false;
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  std::string shown;
  bool typed = false;
  char some[4096];
  for (::ssize_t n = 0; (n = ::read(terminal, some, sizeof some)) > 0;) {
    shown.append(some, static_cast<std::size_t>(n));
    if (typed || shown.find(prompt) == std::string::npos) continue;
    typed = ::write(terminal, keys.data(), keys.size()) == static_cast<::ssize_t>(keys.size());
  }
  ::close(terminal);
  ::waitpid(pid, nullptr, 0);
  return typed;
}

}  // namespace outbox
