// How a C++ type becomes an event: its name, and its bytes.
#pragma once

#include <concepts>
#include <exception>
#include <new>
#include <outbox/detail/core_export.hpp>
#include <outbox/error.hpp>
#include <outbox/event.hpp>
#include <outbox/result.hpp>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace outbox::inline v0 {

/// The codec that `using outbox_codec = outbox::json;` asks for. Complete after `#include <outbox/json.hpp>`.
struct json;

/// What a codec makes of a value.
struct encoded {
  std::string payload{};                          ///< The bytes of the payload.
  payload_kind kind = payload_kind::json;         ///< JSON is checked; bytes are kept as they are.
  std::string content_type = "application/json";  ///< Of a bytes payload.
};

/// How values of type `T` are written and read. A type opts in with `using outbox_codec = …` or a specialisation of
/// this template with
///
///     static encoded encode(T const& value);
///     static T decode(event const& e);
///
/// Including a header never selects a codec. What `encode` throws becomes `error` (invalid_event) about "payload",
/// unless it is an `error` itself; what `decode` throws makes the event DEAD. std::bad_alloc is passed on as it is.
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
    if constexpr (complete<typename T::outbox_codec>) {
      return T::outbox_codec::template encode<T>(value);
    } else {
      return {};
    }
  }
  static T decode(event const& e) {
    static_assert(complete<typename T::outbox_codec>,
                  "the codec of this event is only declared; include <outbox/json.hpp>");
    if constexpr (complete<typename T::outbox_codec>) {
      return T::outbox_codec::template decode<T>(e);
    } else {
      std::terminate();
    }
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

namespace detail {

template <class T>
concept readable = requires(event const& e) {
  { codec<T>::decode(e) } -> std::convertible_to<T>;
};

template <class T>
concept has_codec = requires { sizeof(codec<T>); };

/// Says in one sentence what a struct lacks to be an event.
template <class T>
constexpr void check_event_type() {
  if constexpr (!named_event<T>) {
    static_assert(named_event<T>,
                  "an event struct names itself: static constexpr std::string_view event_type = \"...\";");
  } else if constexpr (!has_codec<T>) {
    static_assert(has_codec<T>,
                  "an event struct says how it is encoded: using outbox_codec = outbox::json; or an outbox::codec<T>");
  } else {
    static_assert(typed_event<T>,
                  "an outbox::codec<T> has static outbox::encoded encode(T const&) and static T decode(outbox::event "
                  "const&)");
  }
}

template <class E>
std::string_view enum_name(E value) {
  if constexpr (named_enum<E>) {
    return outbox_name(value);
  } else if constexpr (requires { outbox_name(value); }) {
    static_assert(
        named_enum<E>,
        "outbox_name(E) returns a std::string_view or a char const*, because a std::string would end too soon");
  } else {
    static_assert(named_enum<E>,
                  "an enum that is used as a type name has std::string_view outbox_name(E) in its own namespace");
  }
  return {};
}

/// Empty: it names none.
template <class T>
constexpr std::string_view aggregate_type_of() {
  if constexpr (requires {
                  { T::aggregate_type } -> std::convertible_to<std::string_view>;
                }) {
    return T::aggregate_type;
  } else {
    return {};
  }
}

/// Completes the options with the struct's own aggregate type. Throws `error` (invalid_event) if they name another.
OUTBOX_CORE_EXPORT void use_aggregate_type(event_options& options, std::string_view own, std::string_view event_type);

[[nodiscard]] OUTBOX_CORE_EXPORT error unencodable(std::string_view event_type, char const* why);
[[nodiscard]] OUTBOX_CORE_EXPORT permanent_failure undecodable(event const& e, char const* why);

template <typed_event T>
encoded encode(T const& value) {
  try {
    return codec<T>::encode(value);
  } catch (error const&) {
    throw;
  } catch (std::bad_alloc const&) {
    throw;
  } catch (std::exception const& e) {
    throw unencodable(T::event_type, e.what());
  } catch (...) {
    throw unencodable(T::event_type, "the codec threw something that is not an exception");
  }
}

}  // namespace detail

/// Makes an event of a typed value. The aggregate type is `T::aggregate_type` if there is one, else that of `options`.
/// Throws `error` (invalid_event): also if the two differ, because the listener of `T` would not be found then.
template <class T>
[[nodiscard]] event make_event(T const& value, event_options options = {}, event_limits const& limits = {}) {
  detail::check_event_type<T>();
  if constexpr (typed_event<T>) {
    detail::use_aggregate_type(options, detail::aggregate_type_of<T>(), T::event_type);
    encoded e = detail::encode(value);
    if (e.kind == payload_kind::json) {
      return event::json(T::event_type, std::move(e.payload), std::move(options), limits);
    }
    return event::bytes(T::event_type, std::move(e.payload), std::move(e.content_type), std::move(options), limits);
  } else {
    std::terminate();
  }
}

/// The payload of an event as a `T`, for a listener that takes the `delivery`: one for several types, or for an enum.
/// Throws `permanent_failure` if it cannot be decoded, so that a listener which lets that pass makes the event DEAD.
template <class T>
[[nodiscard]] T decode(event const& e) {
  static_assert(
      detail::readable<T>,
      "a type is decoded by its codec: using outbox_codec = outbox::json; in the type, or an outbox::codec<T>");
  if constexpr (detail::readable<T>) {
    try {
      return codec<T>::decode(e);
    } catch (std::bad_alloc const&) {
      throw;
    } catch (std::exception const& cause) {
      throw detail::undecodable(e, cause.what());
    } catch (...) {
      throw detail::undecodable(e, "the codec threw something that is not an exception");
    }
  } else {
    std::terminate();
  }
}

/// An event type or aggregate type given as text or as a named enum.
class type_name {
 public:
  type_name(std::string_view text) : text_{text} {}  // NOLINT(google-explicit-constructor): reads as text
  type_name(char const* text) : text_{text == nullptr ? std::string_view{} : std::string_view{text}} {}
  type_name(std::string const& text) : text_{text} {}
  template <class E>
    requires std::is_enum_v<E>
  type_name(E value) : text_{detail::enum_name(value)} {}

  [[nodiscard]] std::string_view view() const noexcept { return text_; }

 private:
  std::string_view text_;
};

}  // namespace outbox::inline v0
