// Notices that another connection has committed, for as long as there are subscribers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <outbox/detail/sqlite_export.hpp>
#include <outbox/spi/subscription.hpp>
#include <string>

#include "sqlite/watch_pace.hpp"

namespace outbox::inline v0::sqlite {

/// One thread serves all subscribers; it exists only while there are any. Thread-safe.
///
/// SQLite cannot call another process. It has a number that changes with every commit of another connection, and
/// reading that takes a few microseconds and no lock. The thread reads it when the operating system says that the log
/// of the database was written to, and at long intervals; where the system does not say so, at short ones.
class OUTBOX_SQLITE_EXPORT change_watch {
 public:
  /// Returns that number, or nothing if it cannot be read now.
  using reader = std::function<std::optional<std::int64_t>()>;

  /// `log`: the file that a commit writes to.
  explicit change_watch(std::string log, watch_limits const& limits = {});

  /// `read` is called here and then on the thread of the watch, until the last subscription has ended. Throws `error`
  /// (unavailable) if no thread can be started.
  [[nodiscard]] spi::subscription subscribe(std::function<void()> callback, reader read);

  /// Tells the subscribers without a check.
  void push() const noexcept { changes_->notify(); }

 private:
  class watcher;
  class registration;

  std::string const log_;
  watch_limits const limits_;
  std::shared_ptr<spi::change_signal> const changes_ = std::make_shared<spi::change_signal>();
  std::mutex mutex_;
  std::weak_ptr<watcher> watcher_;
};

}  // namespace outbox::inline v0::sqlite
