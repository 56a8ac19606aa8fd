// Listeners: who reacts to which event, and what they answer.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <outbox/codec.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/event.hpp>
#include <outbox/retry.hpp>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace outbox::inline v0 {

/// The event was dealt with: it becomes DONE.
struct done_t {};
inline constexpr done_t done{};

/// Not now: the event comes back after `delay`. Not counted as an attempt.
struct defer {
  std::chrono::milliseconds delay{};
  std::string reason{};
};

/// It failed: counted, and tried again after `after`, or after the route's backoff if that is empty; DEAD when the
/// attempts are used up. An exception other than `permanent_failure` means the same.
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

/// hot: handed over by the commit in this process. cold: claimed from the table.
enum class source { hot, cold };

/// One call of a listener.
struct delivery {
  outbox::v0::event event;  ///< The event itself; cheap to copy.
  std::string const&
      id;  ///< The event's id, alive as long as `event` or a copy of it. Send it along: it is what receivers dedupe by.
  std::int32_t attempt;       ///< 1 for the first try; grows with every counted failure.
  std::int32_t max_attempts;  ///< A failure of this attempt number makes the event DEAD.
  steady_time deadline;       ///< After this the call counts as failed and its result is ignored.
  outbox::v0::source source;
  bool maybe_duplicate;  ///< An earlier try may have had its effect: it failed, or its process ended in the middle.
  std::stop_token stop;  ///< Fires when the result no longer counts: timeout, lost lease, or a node that stops now.
};

/// How one route differs from its node.
struct route_options {
  /// In logs and metrics. Default: the event type.
  std::string name{};

  /// How long a call may take. Default: the node's `listener_timeout`. Must be positive.
  std::optional<std::chrono::milliseconds> timeout{};

  /// Default: the node's `retry`.
  std::optional<retry_policy> retry{};
};

namespace detail {

/// A listener with its type gone; may hold a move-only callable.
class OUTBOX_CORE_EXPORT handler {
 public:
  handler() = default;
  handler(handler const&) = delete;
  handler& operator=(handler const&) = delete;
  virtual ~handler();
  virtual result handle(delivery const& d) = 0;
};

/// Calls `f` and turns "returned nothing" into done.
template <class F, class... Args>
result answer_of(F& f, Args const&... args) {
  using answer = std::invoke_result_t<F&, Args const&...>;
  if constexpr (std::is_void_v<answer>) {
    std::invoke(f, args...);
    return done;
  } else {
    static_assert(std::convertible_to<answer, result>, "a listener returns nothing or an outbox::result");
    return std::invoke(f, args...);
  }
}

template <class F>
class plain_handler final : public handler {
 public:
  explicit plain_handler(F f) : f_{std::move(f)} {}
  result handle(delivery const& d) override { return answer_of(f_, d); }

 private:
  F f_;
};

OUTBOX_CORE_EXPORT result undecodable(delivery const& d, char const* why);

template <class T, class F>
class typed_handler final : public handler {
 public:
  explicit typed_handler(F f) : f_{std::move(f)} {}

  result handle(delivery const& d) override {
    std::optional<T> value;
    try {
      value.emplace(codec<T>::decode(d.event));
    } catch (std::exception const& e) {
      return undecodable(d, e.what());
    } catch (...) {
      return undecodable(d, "the codec threw something that is not an exception");
    }
    if constexpr (std::invocable<F&, T const&, delivery const&>) {
      return answer_of(f_, *value, d);
    } else {
      return answer_of(f_, *value);
    }
  }

 private:
  F f_;
};

struct routes;

}  // namespace detail

/// Which listener serves which events. Filled before a node is made, then moved into it.
///
/// There is one listener per (aggregate type, event type). A listener registered without an aggregate type serves every
/// aggregate; one registered with it is the exact match and wins. A second registration for the same pair throws
/// `error` (duplicate_route). Not safe for concurrent use while it is filled.
class OUTBOX_CORE_EXPORT listeners {
 public:
  listeners();
  listeners(listeners&&) noexcept;
  listeners& operator=(listeners&&) noexcept;
  ~listeners();

  /// A listener for a typed event: `f(T const&)` or `f(T const&, delivery const&)`, returning nothing or a `result`.
  /// It is bound to `T::aggregate_type` if there is one. A payload that cannot be decoded makes the event DEAD.
  template <class T, class F>
  listeners& on(F f, route_options options = {}) {
    static_assert(named_event<T>,
                  "an event struct names itself: static constexpr std::string_view event_type = \"...\";");
    static_assert(typed_event<T>,
                  "an event struct says how it is encoded: using outbox_codec = outbox::json; or an outbox::codec<T>");
    static_assert(std::invocable<F&, T const&, delivery const&> || std::invocable<F&, T const&>,
                  "a listener takes (T const&) or (T const&, outbox::delivery const&)");
    std::string_view of;
    if constexpr (requires {
                    { T::aggregate_type } -> std::convertible_to<std::string_view>;
                  })
      of = T::aggregate_type;
    return add(of, T::event_type, std::make_unique<detail::typed_handler<T, F>>(std::move(f)), std::move(options));
  }

  /// A listener for every event of this type, whatever its aggregate: `f(delivery const&)`.
  template <class F>
    requires std::invocable<F&, delivery const&>
  listeners& on(type_name event_type, F f, route_options options = {}) {
    return add({}, event_type.view(), std::make_unique<detail::plain_handler<F>>(std::move(f)), std::move(options));
  }

  /// A listener for one aggregate type only.
  template <class F>
    requires std::invocable<F&, delivery const&>
  listeners& on(type_name aggregate_type, type_name event_type, F f, route_options options = {}) {
    return add(aggregate_type.view(), event_type.view(), std::make_unique<detail::plain_handler<F>>(std::move(f)),
               std::move(options));
  }

  /// For the node that takes them over.
  [[nodiscard]] std::unique_ptr<detail::routes> release() noexcept;

 private:
  listeners& add(std::string_view aggregate_type, std::string_view event_type, std::unique_ptr<detail::handler> h,
                 route_options options);

  std::unique_ptr<detail::routes> routes_;
};

}  // namespace outbox::inline v0
