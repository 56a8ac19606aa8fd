// How a store tells nodes that another caller may have written: a subscription, and the signal that calls subscribers.
#pragma once

#include <functional>
#include <memory>
#include <outbox/detail/core_export.hpp>
#include <utility>

namespace outbox::inline v0::spi {

/// Keeps a callback registered. When its destructor returns, the callback is not running and will not run any more.
///
/// Use from one thread at a time. The callback itself must not destroy its subscription: the destructor would wait for
/// the callback. A subscription may outlive its store; the callback is then not called any more.
class subscription {
 public:
  /// No callback is registered.
  subscription() = default;

  /// Ends with `registration`, whose destructor keeps the promise above.
  explicit subscription(std::shared_ptr<void> registration) noexcept : registration_{std::move(registration)} {}

  subscription(subscription&&) noexcept = default;
  subscription& operator=(subscription&&) noexcept = default;
  subscription(subscription const&) = delete;
  subscription& operator=(subscription const&) = delete;
  ~subscription() = default;

  explicit operator bool() const noexcept { return registration_ != nullptr; }

 private:
  std::shared_ptr<void> registration_;
};

/// The subscribers of a store. For authors of stores: `on_change()` calls `subscribe()`, and whatever sees a change
/// calls `notify()`.
///
/// Thread-safe. In a forked child `notify()` does nothing, because the threads that subscribed are not there.
class OUTBOX_CORE_EXPORT change_signal {
 public:
  change_signal();
  change_signal(change_signal const&) = delete;
  change_signal& operator=(change_signal const&) = delete;
  ~change_signal();

  /// Throws `error` (invalid_option) if `callback` is empty.
  [[nodiscard]] subscription subscribe(std::function<void()> callback);

  /// Calls every callback on this thread. Exceptions of a callback are dropped. A callback must be short, and must call
  /// neither the store nor this signal.
  void notify() noexcept;

 private:
  class state;
  class registration;
  std::shared_ptr<state> state_;
};

}  // namespace outbox::inline v0::spi
