// What an answer, or the lack of one, means to an event.
#pragma once

#include <ctime>
#include <outbox/sink.hpp>
#include <string>

namespace outbox::inline v0::webhook {

/// What became of a request that was answered. `wish` is the value of Retry-After; `now` is in seconds since 1970.
[[nodiscard]] published outcome_of_status(int status, std::string const& wish, std::time_t now);

/// Where a request stopped that has no answer.
struct interruption {
  int code = 0;              ///< A CURLcode.
  bool resolved = false;     ///< The name of the host has an address.
  bool sent = false;         ///< Something of the request was sent.
  std::string refused = {};  ///< The address that was refused, and why; empty if none was.
  std::string text = {};     ///< What libcurl says.
};
[[nodiscard]] published outcome_of_interruption(interruption const& i);

}  // namespace outbox::inline v0::webhook
