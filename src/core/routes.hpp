// Who serves which event.
#pragma once

#include <functional>
#include <memory>
#include <outbox/listener.hpp>
#include <string>
#include <string_view>
#include <unordered_map>

namespace outbox::inline v0 {

namespace core {

/// One listener and how it differs from the node.
struct route {
  std::string name;
  route_options options;
  std::unique_ptr<detail::handler> handler;
};

struct text_hash {
  using is_transparent = void;
  std::size_t operator()(std::string_view s) const noexcept { return std::hash<std::string_view>{}(s); }
};

template <class Value>
using text_map = std::unordered_map<std::string, Value, text_hash, std::equal_to<>>;

}  // namespace core

namespace detail {

/// By event type, then by aggregate type; an empty aggregate type serves all.
struct routes {
  core::text_map<core::text_map<core::route>> by_type;

  /// The exact match, else the one for every aggregate, else null. Does not allocate.
  [[nodiscard]] core::route const* find(std::string_view aggregate_type, std::string_view event_type) const noexcept;
};

}  // namespace detail

}  // namespace outbox::inline v0
