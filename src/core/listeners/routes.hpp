// Routes: which listener serves which events.
#pragma once

#include <memory>
#include <outbox/listener.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/text_map.hpp"

namespace outbox::inline v0 {

namespace core {

/// One listener and its options. It has a handler or, if it takes several events at once, a batch handler.
struct route {
  std::string name;
  std::string event_type;
  std::string aggregate_type;  ///< Empty: every aggregate type.
  route_options options;
  std::unique_ptr<detail::handler> handler;
  std::unique_ptr<detail::batch_handler> batch;
  std::size_t max_batch = 1;
  std::size_t index = 0;  ///< From 0; the engine keeps its state of this route under it.
};

/// Translates the exception that is being handled into a result. Call it only within a catch block.
[[nodiscard]] result result_of_current_exception();

/// The result of a completion that was destroyed without an answer.
[[nodiscard]] result dropped_completion() noexcept;

}  // namespace core

namespace detail {

/// By event type, then by aggregate type; an empty aggregate type serves all.
struct routes {
  core::text_map<core::text_map<core::route>> by_type;
  std::size_t count = 0;
  std::unique_ptr<core::route> any;         ///< For events that no other serves. May be null.
  std::vector<core::route const*> limited;  ///< Those with `max_in_flight` that a claim can leave out.

  /// The exact match, else the one for every aggregate, else the one for everything, else null. Does not allocate.
  [[nodiscard]] core::route const* find(std::string_view aggregate_type, std::string_view event_type) const noexcept;

  /// Calls `f(route const&)` for each of them.
  template <class F>
  void for_each(F&& f) const {
    for (auto const& [type, by_aggregate] : by_type) {
      for (auto const& [aggregate, r] : by_aggregate) f(r);
    }
    if (any) f(*any);
  }

  /// Call this after the last route was added.
  void finish();

  /// Destroys the user's listeners. They end with the node, even if something else keeps the routes alive.
  void drop_handlers() noexcept;

  /// Throws `error` (invalid_option, duplicate_route).
  void add(std::string_view aggregate_type, std::string_view event_type, core::route r);
  void add_any(core::route r);

 private:
  static void check_options(core::route const& r);
};

}  // namespace detail

}  // namespace outbox::inline v0
