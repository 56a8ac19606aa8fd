// Processes made by fork() without exec.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace outbox {

/// False under the address and thread sanitizers. Their allocators have locks that a child inherits if another thread
/// holds them at the fork, and the latter reports the threads that the child does not have.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool may_fork_beside_threads = false;
#else
inline constexpr bool may_fork_beside_threads = true;
#endif

/// Runs `f` in a child. Its exit code is what `f` returns; -1 if it ended otherwise.
template <class F>
int in_child(F&& f) {
  auto const child = ::fork();
  if (child < 0) throw std::runtime_error{"cannot fork"};
  if (child == 0) {
    ::alarm(60);  // a child that hangs must not hang the test
    int code = 255;
    try {
      code = f();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the code tells
    }
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// The child of a process that has died: `f` made something in that process, which then forked and was killed. The
/// child lives until this object is destroyed.
class orphan {
 public:
  template <class F>
  explicit orphan(F&& f) {
    int ends[2];
    if (::pipe(ends) != 0) throw std::runtime_error{"cannot make a pipe"};
    auto const parent = ::fork();
    if (parent < 0) throw std::runtime_error{"cannot fork"};
    if (parent == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      auto const made = f();
      auto const child = ::fork();
      if (child == 0) {
        ::alarm(300);  // whatever becomes of the test
        while (true) ::pause();
      }
      if (::write(ends[1], &child, sizeof child) != sizeof child) ::_exit(1);
      while (true) ::pause();
    }
    ::close(ends[1]);
    bool const told = ::read(ends[0], &pid_, sizeof pid_) == sizeof pid_;
    ::close(ends[0]);
    ::kill(parent, SIGKILL);
    ::waitpid(parent, nullptr, 0);
    if (!told) throw std::runtime_error{"the process that forks did not come so far"};
  }
  orphan(orphan const&) = delete;
  orphan& operator=(orphan const&) = delete;
  ~orphan() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }

  [[nodiscard]] bool alive() const noexcept { return ::kill(pid_, 0) == 0; }

 private:
  ::pid_t pid_ = -1;
};

}  // namespace outbox
