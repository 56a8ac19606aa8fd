// A child process that a test starts, listens to, and kills by its id.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>
#include <string>
#include <vector>

namespace outbox {

class child_process {
 public:
  explicit child_process(std::vector<std::string> command) {
    std::vector<char*> argv;  // made before the fork: in the child only system calls are safe
    for (auto& word : command) argv.push_back(word.data());
    argv.push_back(nullptr);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error{"cannot make a pipe"};
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error{"cannot start a process"};
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // whatever ends this test, ends it
      ::dup2(ends[1], STDOUT_FILENO);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
  }
  child_process(child_process const&) = delete;
  child_process& operator=(child_process const&) = delete;
  ~child_process() {
    if (pid_ > 0) kill_hard();
    ::close(output_);
  }

  /// The next line of its standard output; empty when there will be none.
  std::string line() {
    std::string text;
    char c = 0;
    while (::read(output_, &c, 1) == 1 && c != '\n') text += c;
    return text;
  }

  void signal(int which) const {
    if (pid_ > 0) ::kill(pid_, which);
  }

  /// Returns when none of its threads runs. SIGCONT lets them go on.
  void suspend() const {
    signal(SIGSTOP);
    ::siginfo_t info;
    if (pid_ > 0) ::waitid(P_PID, static_cast<::id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT);
  }

  void kill_hard() {
    signal(SIGKILL);
    wait();
  }

  /// Its wait status.
  int wait() {
    int status = 0;
    if (pid_ > 0) ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  ::pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace outbox
