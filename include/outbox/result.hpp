// What a listener answers, and what it may throw instead.
#pragma once

#include <chrono>
#include <optional>
#include <outbox/detail/core_export.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace outbox::inline v0 {

/// The event was dealt with: it becomes DONE.
struct done_t {};
inline constexpr done_t done{};

/// Not now: the event comes back after `delay`. Not counted as an attempt.
struct defer {
  std::chrono::milliseconds delay{};  ///< If it is not positive: the `backoff.base` of the route.
  std::string reason{};
};

/// It failed: counted, and tried again after `after`, or after the route's backoff if that is empty; DEAD when the
/// attempts are used up. An exception other than `permanent_failure` means the same. A negative `after` means no
/// wait.
struct failed {
  std::string reason{};
  std::optional<std::chrono::milliseconds> after{};
};

/// It will never work: the event becomes DEAD at once. Not counted.
struct dead {
  std::string reason{};
};

/// What a listener answers.
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

/// Thrown by a listener: a counted failure, with a wait of its own if `after` is given.
class OUTBOX_CORE_EXPORT failure : public std::runtime_error {
 public:
  explicit failure(std::string const& reason, std::optional<std::chrono::milliseconds> after = {});
  ~failure() override;

  [[nodiscard]] std::optional<std::chrono::milliseconds> after() const noexcept { return after_; }

 private:
  std::optional<std::chrono::milliseconds> after_;
};

/// Thrown by a listener: like `dead`, the event is DEAD at once.
class OUTBOX_CORE_EXPORT permanent_failure : public std::runtime_error {
 public:
  explicit permanent_failure(std::string const& reason);
  ~permanent_failure() override;
};

}  // namespace outbox::inline v0
