#include "core/base/fork_guard.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

namespace outbox::inline v0::core {
namespace {

// Locked across every fork, so that the list is whole in the child.
constinit std::mutex guards_mutex;
constinit fork_guard* first_guard = nullptr;
constinit std::atomic<std::uint64_t> fork_count = 0;

// In a child only system calls are safe. Closed first: the process may be at its limit of descriptors.
void replace_by_dead_socket(int fd) noexcept {
  ::close(fd);
  int const dead = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (dead < 0 || dead == fd) return;
  ::dup3(dead, fd, O_CLOEXEC);
  ::close(dead);
}

}  // namespace

void fork_guard::lock_all() noexcept { guards_mutex.lock(); }

void fork_guard::unlock_in_parent() noexcept {
  ++fork_count;
  guards_mutex.unlock();
}

void fork_guard::abandon_in_child() noexcept {
  for (auto* g = first_guard; g != nullptr; g = g->next_) {
    if (!g->in_child_) replace_by_dead_socket(g->fd_);  // a child of a child has the dead one already
    g->in_child_ = true;
  }
  guards_mutex.unlock();
}

// Once per process. It fails only for want of memory: then children keep what they inherit.
void fork_guard::install() noexcept {
  static int const failed = ::pthread_atfork(&lock_all, &unlock_in_parent, &abandon_in_child);
  static_cast<void>(failed);
}

std::uint64_t fork_guard::forks() noexcept {
  install();
  return fork_count;
}

fork_guard::fork_guard(int fd) noexcept : fd_{fd} {
  install();
  std::lock_guard const lock{guards_mutex};
  next_ = first_guard;
  if (next_ != nullptr) next_->previous_ = this;
  first_guard = this;
}

fork_guard::~fork_guard() {
  std::lock_guard const lock{guards_mutex};
  (previous_ != nullptr ? previous_->next_ : first_guard) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

}  // namespace outbox::inline v0::core
