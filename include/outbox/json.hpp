// Typed payloads as JSON, by nlohmann-json. Opt in per type: `using outbox_codec = outbox::json;`.
#pragma once

#include <nlohmann/json.hpp>
#include <outbox/codec.hpp>
#include <stdexcept>

namespace outbox::inline v0 {

/// Anything that nlohmann-json can convert (`to_json`/`from_json`, or its NLOHMANN_DEFINE_TYPE macros).
///
/// Strings that are not UTF-8 make `encode` throw; nothing is replaced silently.
struct json {
  template <class T>
  static encoded encode(T const& value) {
    return {.payload = nlohmann::json(value).dump(), .kind = payload_kind::json, .content_type = "application/json"};
  }

  template <class T>
  static T decode(event const& e) {
    if (e.kind() != payload_kind::json) throw std::invalid_argument{"the payload is bytes, not JSON"};
    return nlohmann::json::parse(e.payload()).template get<T>();
  }
};

}  // namespace outbox::inline v0
