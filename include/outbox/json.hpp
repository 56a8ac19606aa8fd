// Typed payloads as JSON, by nlohmann-json. Opt in per type: `using outbox_codec = outbox::json;`.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <outbox/codec.hpp>
#include <stdexcept>

namespace outbox::inline v0 {

/// Anything that nlohmann-json can convert (`to_json`/`from_json`, or its NLOHMANN_DEFINE_TYPE macros).
///
/// Strings that are not UTF-8 are refused with `error` (invalid_event). JSON has no NaN and no infinity: nlohmann-json
/// writes null for them.
struct json {
  template <class T>
  static encoded encode(T const& value) {
    constexpr bool converts = std::constructible_from<nlohmann::json, T const&>;
    static_assert(converts,
                  "nlohmann-json cannot write this event: add NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(T, members...) after "
                  "the struct, or a to_json() in its namespace");
    if constexpr (converts) {
      return {.payload = nlohmann::json(value).dump(), .kind = payload_kind::json, .content_type = "application/json"};
    } else {
      return {};
    }
  }

  template <class T>
  static T decode(event const& e) {
    constexpr bool converts = requires(nlohmann::json const& j) { j.template get<T>(); };
    static_assert(converts,
                  "nlohmann-json cannot read this event: add NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(T, members...) after "
                  "the struct, or a from_json() in its namespace");
    if constexpr (converts) {
      if (e.kind() != payload_kind::json) throw std::invalid_argument{"the payload is bytes, not JSON"};
      return nlohmann::json::parse(e.payload()).template get<T>();
    } else {
      std::terminate();
    }
  }
};

}  // namespace outbox::inline v0
