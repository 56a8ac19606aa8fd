// A connection of a caller: its handle, the statements that are prepared on it, and the file that it is open on.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <outbox/sqlite.hpp>
#include <string>
#include <vector>

#include "sqlite/driver.hpp"

namespace outbox::inline v0::sqlite {

/// Which file a handle is open on; two paths to the same file are the same.
struct file_identity {
  ::dev_t device = 0;
  ::ino_t inode = 0;
  friend bool operator==(file_identity const&, file_identity const&) = default;
};

/// Returns nothing for a database without a file.
[[nodiscard]] std::optional<file_identity> identity_of(sqlite3* db) noexcept;

/// Use from one thread at a time, like the connection.
class session {
 public:
  /// A handle that the caller closes.
  explicit session(sqlite3* db);
  /// A handle that this library opened, closed with the session.
  session(handle owned, std::chrono::milliseconds busy_timeout);

  [[nodiscard]] driver& statements() noexcept { return driver_; }
  [[nodiscard]] sqlite3* raw() const noexcept { return driver_.raw(); }

  /// The file, looked up once.
  [[nodiscard]] std::optional<file_identity> const& file();

 private:
  std::shared_ptr<clock const> clock_ = machine_clock();
  patience wait_;  ///< Of a handle that this library opened.
  handle owned_;
  std::optional<std::optional<file_identity>> file_;
  driver driver_;
};

}  // namespace outbox::inline v0::sqlite
