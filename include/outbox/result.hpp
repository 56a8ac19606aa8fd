// The result of a listener, and the exceptions that it may throw instead.
#pragma once

#include <chrono>
#include <optional>
#include <outbox/detail/core_export.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace outbox::inline v0 {

/// The listener is done with the event, which becomes DONE.
struct done_t {};
inline constexpr done_t done{};

/// Not now: the event comes back after `delay`. It is not counted as an attempt.
struct defer {
  std::chrono::milliseconds delay{};  ///< If it is not positive: the `backoff.base` of the route.
  std::string reason{};               ///< Stored with the row.

  /// True: the node leaves alone all events of the same event type and aggregate type for as long, and does not touch
  /// their rows: the receiver is away, or its configuration is wrong. An `ordered` node waits anyway. Default false.
  bool whole_route = false;
};

/// The listener failed. The attempt is counted, and the event is tried again; it is DEAD when the attempts are used up.
/// An exception other than `permanent_failure` means the same.
struct failed {
  std::string reason{};                              ///< Stored with the row.
  std::optional<std::chrono::milliseconds> after{};  ///< How long to wait. Default: the route's backoff. Negative: 0.
};

/// The listener will never succeed: the event becomes DEAD at once. The attempt is not counted.
struct dead {
  std::string reason{};  ///< Stored with the row.
};

/// The result of a listener: one of the four above.
class result {
 public:
  using value_type = std::variant<done_t, defer, failed, dead>;

  result(done_t r) : value_{r} {}  // NOLINT(google-explicit-constructor): a listener returns any of the four
  result(defer r) : value_{std::move(r)} {}
  result(failed r) : value_{std::move(r)} {}
  result(dead r) : value_{std::move(r)} {}

  [[nodiscard]] value_type const& value() const noexcept { return value_; }
  [[nodiscard]] value_type& value() noexcept { return value_; }

 private:
  value_type value_;
};

/// A listener throws it instead of returning `failed`.
class OUTBOX_CORE_EXPORT failure : public std::runtime_error {
 public:
  explicit failure(std::string const& reason, std::optional<std::chrono::milliseconds> after = {});
  ~failure() override;

  [[nodiscard]] std::optional<std::chrono::milliseconds> after() const noexcept { return after_; }

 private:
  std::optional<std::chrono::milliseconds> after_;
};

/// A listener throws it instead of returning `dead`.
class OUTBOX_CORE_EXPORT permanent_failure : public std::runtime_error {
 public:
  explicit permanent_failure(std::string const& reason);
  ~permanent_failure() override;
};

}  // namespace outbox::inline v0
