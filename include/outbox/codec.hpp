// How a C++ type becomes an event: its name, and its bytes.
#pragma once

#include <concepts>
#include <outbox/event.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace outbox::inline v0 {

/// The codec that `using outbox_codec = outbox::json;` asks for. Complete after `#include <outbox/json.hpp>`.
struct json;

/// What a codec makes of a value.
struct encoded {
  std::string payload{};
  payload_kind kind = payload_kind::json;
  std::string content_type = "application/json";
};

/// How values of type `T` are written and read. A type opts in with `using outbox_codec = …` or a specialisation of
/// this template with
///
///     static encoded encode(T const& value);
///     static T decode(event const& e);       // throws anything if it cannot: the event is then DEAD
///
/// never by which header happens to be included.
template <class T>
struct codec;

template <class T>
  requires requires { typename T::outbox_codec; }
struct codec<T> {
  template <class Codec>
  static constexpr bool complete = requires { sizeof(Codec); };

  static encoded encode(T const& value) {
    static_assert(complete<typename T::outbox_codec>,
                  "the codec of this event is only declared; include <outbox/json.hpp>");
    return T::outbox_codec::template encode<T>(value);
  }
  static T decode(event const& e) {
    static_assert(complete<typename T::outbox_codec>,
                  "the codec of this event is only declared; include <outbox/json.hpp>");
    return T::outbox_codec::template decode<T>(e);
  }
};

/// A struct that names its event type: `static constexpr std::string_view event_type = "order.placed";`.
template <class T>
concept named_event = requires {
  { T::event_type } -> std::convertible_to<std::string_view>;
};

/// A named event that can be written and read.
template <class T>
concept typed_event = named_event<T> && requires(T const& value, event const& e) {
  { codec<T>::encode(value) } -> std::same_as<encoded>;
  { codec<T>::decode(e) } -> std::convertible_to<T>;
};

/// An enum that names its values through `std::string_view outbox_name(E)`, found by argument-dependent lookup.
template <class E>
concept named_enum = std::is_enum_v<E> && requires(E value) {
  // A view of something that lives: a std::string would be gone before it is used.
  requires std::same_as<decltype(outbox_name(value)), std::string_view> ||
               std::same_as<decltype(outbox_name(value)), char const*>;
};

/// Makes an event of a typed value. The aggregate type is the one in `options`, else `T::aggregate_type` if it has one.
template <typed_event T>
[[nodiscard]] event make_event(T const& value, event_options options = {}, event_limits const& limits = {}) {
  if constexpr (requires {
                  { T::aggregate_type } -> std::convertible_to<std::string_view>;
                }) {
    if (options.aggregate.type.empty()) options.aggregate.type = std::string_view{T::aggregate_type};
  }
  encoded e = codec<T>::encode(value);
  if (e.kind == payload_kind::json) return event::json(T::event_type, std::move(e.payload), std::move(options), limits);
  return event::bytes(T::event_type, std::move(e.payload), std::move(e.content_type), std::move(options), limits);
}

/// An event type or aggregate type given as text or as a named enum.
class type_name {
 public:
  type_name(std::string_view text) : text_{text} {}  // NOLINT(google-explicit-constructor): reads as text
  type_name(char const* text) : text_{text} {}
  type_name(std::string const& text) : text_{text} {}
  template <named_enum E>
  type_name(E value) : text_{outbox_name(value)} {}

  [[nodiscard]] std::string_view view() const noexcept { return text_; }

 private:
  std::string_view text_;
};

}  // namespace outbox::inline v0
