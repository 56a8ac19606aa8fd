// Keeps a descriptor from living on in a forked child.
//
// A child made by fork() without exec shares every open file and socket of its parent. A lock that belongs to an open
// file, or to the session at the other end of a socket, would then outlast the process that took it. O_CLOEXEC does not
// help: it acts at exec.
#pragma once

#include <cstdint>
#include <outbox/detail/core_export.hpp>

namespace outbox::inline v0::core {

/// While a guard exists, a child made by fork() gets a dead socket in place of `fd`. The number stays taken, so the
/// child cannot mistake a file that it opens for `fd`, and code that uses `fd` in the child sees that the other side is
/// gone. Destroy the guard before you close `fd`.
class OUTBOX_CORE_EXPORT fork_guard {
 public:
  explicit fork_guard(int fd) noexcept;
  fork_guard(fork_guard const&) = delete;
  fork_guard& operator=(fork_guard const&) = delete;
  ~fork_guard();

  /// True in a forked child, where the descriptor is dead.
  [[nodiscard]] bool in_child() const noexcept { return in_child_; }

  /// The number of times that this process has forked. If it changes while a descriptor is opened and its guard is
  /// made, a child may have the descriptor: close it and begin again.
  [[nodiscard]] static std::uint64_t forks() noexcept;

 private:
  static void lock_all() noexcept;
  static void unlock_in_parent() noexcept;
  static void abandon_in_child() noexcept;
  static void install() noexcept;

  int fd_;
  bool in_child_ = false;
  fork_guard* previous_ = nullptr;
  fork_guard* next_ = nullptr;
};

}  // namespace outbox::inline v0::core
