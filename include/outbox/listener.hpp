// Listeners: which function handles which event.
/// \file
///
///     outbox::listeners listeners;
///     listeners.on<order_placed>(
///         [&](order_placed const& e, outbox::delivery const& d) -> outbox::result {
///           switch (carrier.book(e.order_id)) {
///             case 429: return outbox::defer{30s, "carrier is throttling"};  // tried again later, not counted
///             case 503: return outbox::failed{"carrier is down"};            // counted, backs off; so does a throw
///             case 422: return outbox::dead{"carrier rejected " + d.id};
///             default: return outbox::done;
///           }
///         },
///         {.name = "carrier", .timeout = 30s});
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <outbox/codec.hpp>
#include <outbox/completion.hpp>
#include <outbox/delivery.hpp>
#include <outbox/detail/core_export.hpp>
#include <outbox/detail/handler.hpp>
#include <outbox/fan_out.hpp>
#include <outbox/result.hpp>
#include <outbox/retry.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::inline v0 {

/// How one route differs from its node. The last argument of `on` and `on_batch`.
struct route_options {
  /// The name of the route in logs and metrics. Default: the event type.
  std::string name{};

  /// How long a call may take. Default: the node's `listener_timeout`. 1 ms … 24 h, or 0: no limit.
  std::optional<std::chrono::milliseconds> timeout{};

  /// How often a failed event is tried. Default: the node's `retry`. Refused by `ordered`, which tries once.
  std::optional<retry_policy> retry{};

  /// Events at a time. Default: no limit except the node's workers and queues. At least 1. Refused by `ordered`. Set it
  /// for a listener that is slow or asynchronous, so that it leaves room for others: while twice as many events wait in
  /// the node, or those that wait and those that run take half of `queue.cold`, claims leave out the rows of this route
  /// and its births go through the table.
  std::optional<std::size_t> max_in_flight{};

  /// Events per call of a batch listener. Default 100. 1 … 10,000. `on` refuses it with `error` (invalid_option).
  std::optional<std::size_t> max_batch{};

  /// Whether the listener itself keeps the order of the events that it is given, as the producer of a broker does. Only
  /// `keyed` uses it. Default false: the next event of a key waits until the one before it is delivered. With true, an
  /// asynchronous listener gets the next event of a key as soon as its function has returned from the one before, and a
  /// batch may have several events of a key, in order. If one of them fails, later ones may have been sent already;
  /// they are delivered again behind it.
  bool keeps_order = false;
};

namespace detail {

struct routes;

/// A listener that has a say in the options of its route has a member `fit`, as a `publisher` has.
template <class F>
route_options fitted(F const& f, route_options o) {
  if constexpr (requires { f.fit(std::move(o)); }) {
    return f.fit(std::move(o));
  } else {
    return o;
  }
}

}  // namespace detail

/// The listeners of a node, by aggregate type and event type.
///
/// There is one listener per (aggregate type, event type). A listener registered without an aggregate type serves every
/// aggregate; one registered with it is the exact match and wins. `global_aggregate` ("__GLOBAL__") is an aggregate
/// type like any other: events that name none have it. A listener returns nothing or a `result`. A listener whose last
/// parameter is an `outbox::completion` is asynchronous: it returns nothing and answers later.
///
/// Use from one thread at a time. The node calls the listeners from several threads at once.
///
/// Fill it before the node is made, then move it into the options. The node owns the functions and destroys them when
/// it is destroyed.
///
/// Throws `error` (duplicate_route) for a second listener of the same pair, and (invalid_option) for a wrong option or
/// an empty function (a null pointer, an empty std::function); the message names the route.
class OUTBOX_CORE_EXPORT listeners {
 public:
  listeners();
  listeners(listeners&&) noexcept;
  listeners& operator=(listeners&&) noexcept;
  ~listeners();

  /// A listener for a typed event: `f(T const&)`, `f(T const&, delivery const&)`, or that and a `completion`. It is
  /// bound to `T::aggregate_type` if there is one. A payload that cannot be decoded makes the event DEAD.
  template <class T, class F>
  listeners& on(F f, route_options options = {}) {
    detail::check_event_type<T>();
    if constexpr (typed_event<T>) detail::check_listener<F, T>();
    if constexpr (typed_event<T> && detail::typed_listener<F, T>) {
      add(detail::aggregate_type_of<T>(), T::event_type, detail::handler_of<detail::typed_handler<T, F>>(std::move(f)),
          std::move(options));
    }
    return *this;
  }

  /// A listener for every event of this type, whatever its aggregate: `f(delivery const&)`, or that and a `completion`.
  /// One that needs the payload as a struct asks `outbox::decode<T>(d.event)` for it.
  template <class F>
  listeners& on(type_name event_type, F f, route_options options = {}) {
    return on_aggregate({}, event_type.view(), std::move(f), std::move(options));
  }

  /// A listener for one aggregate type only.
  template <class F>
  listeners& on(type_name aggregate_type, type_name event_type, F f, route_options options = {}) {
    return on_aggregate(aggregate_type.view(), event_type.view(), std::move(f), std::move(options));
  }

  /// A listener for every event that no other one serves: for relays, which publish whatever the table has. Its options
  /// may not have `max_in_flight`, because a claim cannot leave out "everything else".
  template <class F>
  listeners& on_any(F f, route_options options = {}) {
    detail::check_listener<F, void>();
    options = detail::fitted(f, std::move(options));
    if constexpr (detail::plain_listener<F>) {
      add_any(detail::handler_of<detail::plain_handler<F>>(std::move(f)), std::move(options));
    }
    return *this;
  }

  /// Several listeners for one typed event.
  template <class T>
    requires(!std::is_void_v<T>)
  listeners& on(fan_out<T> several, route_options options = {}) {
    detail::check_event_type<T>();
    if constexpr (typed_event<T>) {
      add(detail::aggregate_type_of<T>(), T::event_type, several.release(), std::move(options));
    }
    return *this;
  }

  /// Several listeners for every event of this type, or of one aggregate type.
  listeners& on(type_name event_type, fan_out<> several, route_options options = {});
  listeners& on(type_name aggregate_type, type_name event_type, fan_out<> several, route_options options = {});

  /// A listener that takes as many events as are waiting, up to `max_batch`: `f(std::span<delivery const>)` returns one
  /// result per event, in order. If it throws, or returns another number of results, all of them failed.
  template <class F>
  listeners& on_batch(type_name event_type, F f, route_options options = {}) {
    constexpr bool fits = std::is_invocable_r_v<std::vector<result>, F&, std::span<delivery const>>;
    static_assert(fits,
                  "a batch listener takes (std::span<outbox::delivery const>) and returns a std::vector of one "
                  "outbox::result per event");
    if constexpr (fits) {
      add_batch({}, event_type.view(), detail::handler_of<detail::plain_batch_handler<F>>(std::move(f)),
                std::move(options));
    }
    return *this;
  }

  /// The same, typed: `f(std::span<T const>, std::span<delivery const>)`.
  template <class T, class F>
  listeners& on_batch(F f, route_options options = {}) {
    constexpr bool fits = std::is_invocable_r_v<std::vector<result>, F&, std::span<T const>, std::span<delivery const>>;
    detail::check_event_type<T>();
    static_assert(!typed_event<T> || fits,
                  "a batch listener takes (std::span<T const>, std::span<outbox::delivery const>) and returns a "
                  "std::vector of one outbox::result per event");
    if constexpr (typed_event<T> && fits) {
      add_batch(detail::aggregate_type_of<T>(), T::event_type,
                detail::handler_of<detail::typed_batch_handler<T, F>>(std::move(f)), std::move(options));
    }
    return *this;
  }

  /// For the node that takes them over.
  [[nodiscard]] std::unique_ptr<detail::routes> release();

 private:
  template <class F>
  listeners& on_aggregate(std::string_view aggregate_type, std::string_view event_type, F f, route_options options) {
    detail::check_listener<F, void>();
    options = detail::fitted(f, std::move(options));
    if constexpr (detail::plain_listener<F>) {
      add(aggregate_type, event_type, detail::handler_of<detail::plain_handler<F>>(std::move(f)), std::move(options));
    }
    return *this;
  }

  listeners& add(std::string_view aggregate_type, std::string_view event_type, std::unique_ptr<detail::handler> h,
                 route_options options);
  listeners& add_any(std::unique_ptr<detail::handler> h, route_options options);
  listeners& add_batch(std::string_view aggregate_type, std::string_view event_type,
                       std::unique_ptr<detail::batch_handler> h, route_options options);

  [[nodiscard]] detail::routes& routes();  ///< Throws `error` (lifecycle) if this was moved from.

  std::unique_ptr<detail::routes> routes_;
};

}  // namespace outbox::inline v0
