// Not `#pragma once`: it is compiled into another directory.
#ifndef OUTBOX_COMPILE_FAIL_COMMON
#define OUTBOX_COMPILE_FAIL_COMMON
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>

struct good {
  static constexpr std::string_view event_type = "good";
  int n = 0;
};
template <>
struct outbox::codec<good> {
  static encoded encode(good const& g) { return {std::to_string(g.n)}; }
  static good decode(event const& e) { return {std::stoi(e.payload())}; }
};

struct only_declared {
  static constexpr std::string_view event_type = "only.declared";
  using outbox_codec = outbox::json;  // and no #include <outbox/json.hpp>
};
#endif
