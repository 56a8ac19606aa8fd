// One event for several listeners, each of which is repeated alone.
#pragma once

#include <memory>
#include <outbox/detail/handler.hpp>
#include <string>
#include <utility>
#include <vector>

namespace outbox::inline v0 {

namespace detail {

struct fan_out_child {
  std::string name;
  std::unique_ptr<handler> listener;
};

/// Throws `error` (invalid_option): no child, an empty function, a name that is empty, too long, or there twice.
[[nodiscard]] OUTBOX_CORE_EXPORT std::unique_ptr<handler> make_fan_out(std::vector<fan_out_child> children);

}  // namespace detail

/// Several listeners for one route: `fan_out<order_placed>{}.to("mail", …).to("audit", …)`; without a type, listeners
/// that take the `delivery`.
///
/// The row remembers by name which of them are done or dead, so that a retry repeats only the rest: a name means the
/// same listener for as long as rows are pending. They are called one after the other, within the route's timeout; an
/// asynchronous one may answer while the next is called. If any failed, the event failed; else if any deferred, it is
/// deferred by the shortest delay; else if any is dead, it is DEAD.
template <class T = void>
class fan_out {
 public:
  template <class F>
  fan_out& to(std::string name, F f) & {
    detail::check_listener<F, T>();
    if constexpr (std::is_void_v<T>) {
      if constexpr (detail::plain_listener<F>) {
        children_.push_back({std::move(name), detail::handler_of<detail::plain_handler<F>>(std::move(f))});
      }
    } else if constexpr (detail::typed_listener<F, T>) {
      children_.push_back({std::move(name), detail::handler_of<detail::typed_handler<T, F>>(std::move(f))});
    }
    return *this;
  }
  template <class F>
  fan_out&& to(std::string name, F f) && {
    to(std::move(name), std::move(f));
    return std::move(*this);
  }

  /// For `listeners`.
  [[nodiscard]] std::unique_ptr<detail::handler> release() { return detail::make_fan_out(std::move(children_)); }

 private:
  std::vector<detail::fan_out_child> children_;
};

}  // namespace outbox::inline v0
