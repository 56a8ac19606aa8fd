// The tool as a process of its own: its arguments, what it prints on either output, how it ends.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/temporary_directory.hpp"

namespace outbox {

struct tool_result {
  int status = -1;  ///< Its exit status, or 128 and the signal that ended it.
  std::string out, err;
};

/// A run of the tool that has not ended yet. It is killed with its object.
class running_tool {
 public:
  /// `environment` has entries like "OUTBOX_DB=sqlite:a.db". The variables of the tool itself are not inherited.
  explicit running_tool(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    arguments.insert(arguments.begin(), OUTBOX_TOOL);
    std::vector<char*> argv, envp;
    for (auto& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    for (auto& e : environment) envp.push_back(e.data());
    for (char** e = environ; *e != nullptr; ++e) {
      std::string_view const entry{*e};
      bool const of_the_tool = entry.starts_with("OUTBOX_") || entry.starts_with("NO_COLOR=");
      if (!of_the_tool) envp.push_back(*e);
    }
    envp.push_back(nullptr);
    auto const out = out_file(), err = err_file();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error{"cannot start a process"};
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666), STDOUT_FILENO);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666), STDERR_FILENO);
      ::execve(argv[0], argv.data(), envp.data());
      ::_exit(127);
    }
  }
  running_tool(running_tool const&) = delete;
  running_tool& operator=(running_tool const&) = delete;
  ~running_tool() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void signal(int which) const { ::kill(pid_, which); }

  /// What it has printed so far.
  [[nodiscard]] std::string out() const { return text_of(out_file()); }
  [[nodiscard]] std::string err() const { return text_of(err_file()); }

  /// Waits until it ends.
  tool_result wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out(), err()};
  }

 private:
  [[nodiscard]] std::string out_file() const { return dir_ / "out"; }
  [[nodiscard]] std::string err_file() const { return dir_ / "err"; }
  static std::string text_of(std::string const& path) {
    std::ifstream in{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  temporary_directory dir_;
  ::pid_t pid_ = -1;
};

inline tool_result run_tool(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
  return running_tool{std::move(arguments), std::move(environment)}.wait();
}

}  // namespace outbox
