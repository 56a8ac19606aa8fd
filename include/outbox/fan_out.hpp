// Several listeners for one event; a retry repeats only those that are not done.
#pragma once

#include <memory>
#include <outbox/detail/handler.hpp>
#include <string>
#include <utility>
#include <vector>

namespace outbox::inline v0 {

namespace detail {

struct fan_out_child {
  std::string name;                   ///< Unique within its fan_out.
  std::unique_ptr<handler> listener;  ///< Never null.
};

/// Throws `error` (invalid_option): no child, an empty function, a name that is empty, too long, or there twice.
[[nodiscard]] OUTBOX_CORE_EXPORT std::unique_ptr<handler> make_fan_out(std::vector<fan_out_child> children);

}  // namespace detail

/// Several listeners for one route: `fan_out<order_placed>{}.to("mail", …).to("audit", …)`. Without a type, the
/// listeners take the `delivery`.
///
/// The row keeps the names of the listeners that are done or dead, so that a retry repeats only the rest. So a name
/// must mean the same listener for as long as rows are pending. The node calls them one after the other, within the
/// timeout of the route; an asynchronous one may answer while the next is called. If one failed, the event failed.
/// Otherwise, if one deferred, the event is deferred by the shortest delay. Otherwise, if one is dead, the event is
/// DEAD.
///
/// Use from one thread at a time. The node calls the listeners from several threads at once, for different events.
template <class T = void>
class fan_out {
 public:
  /// Adds a listener. `listeners::on` checks the names and throws `error` (invalid_option).
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
