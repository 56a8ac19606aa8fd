// Tells when a file is written to, by the means of the operating system.
#pragma once

#include <optional>
#include <outbox/detail/sqlite_export.hpp>
#include <string>

#include "core/base/fork_guard.hpp"

namespace outbox::inline v0::sqlite {

/// On Linux this is inotify, on a file system of this machine; elsewhere it never listens. Use from one thread at a
/// time.
class OUTBOX_SQLITE_EXPORT file_events {
 public:
  explicit file_events(std::string file);
  file_events(file_events const&) = delete;
  file_events& operator=(file_events const&) = delete;
  ~file_events();

  /// Begins to listen, or goes over to a file with the same name that has taken the place of the old one. Returns false
  /// if it cannot listen now.
  bool listen() noexcept;

  /// Stops listening until the next `listen()`. While it listens, every write to the file costs its writer about half a
  /// microsecond.
  void stop() noexcept;

  /// A descriptor that is readable when there is something to `take()`; -1 before the first `listen()`.
  [[nodiscard]] int descriptor() const noexcept { return fd_; }

  /// Takes what has happened, and returns true if the file was written to. Ends listening if the file is gone.
  bool take() noexcept;

  [[nodiscard]] bool listening() const noexcept { return watch_ >= 0; }

 private:
  bool open() noexcept;

  std::string const file_;
  bool const local_;  ///< The kernel sees every write.
  int fd_ = -1;
  int watch_ = -1;
  std::optional<core::fork_guard> guard_;  ///< A forked child must not take our events.
};

}  // namespace outbox::inline v0::sqlite
