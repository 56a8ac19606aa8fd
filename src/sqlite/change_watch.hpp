// Looks every few milliseconds whether another connection has committed, for as long as there are subscribers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <outbox/spi/subscription.hpp>

namespace outbox::inline v0::sqlite {

/// One thread serves all subscribers; it exists only while there are any. Thread-safe.
///
/// SQLite cannot call another process. It has a number that changes with every commit of another connection, and
/// reading that takes a few microseconds and no lock.
class change_watch {
 public:
  /// Returns that number, or nothing if it cannot be read now.
  using reader = std::function<std::optional<std::int64_t>()>;

  /// `read` is called here and then on the thread of the watch, until the last subscription has ended. Throws `error`
  /// (unavailable) if no thread can be started.
  [[nodiscard]] spi::subscription subscribe(std::function<void()> callback, reader read);

 private:
  class looker;
  class registration;

  std::shared_ptr<spi::change_signal> const changes_ = std::make_shared<spi::change_signal>();
  std::mutex mutex_;
  std::weak_ptr<looker> looker_;
};

}  // namespace outbox::inline v0::sqlite
