// Links to servers, and the errors that they throw.
#pragma once

#include <gmock/gmock.h>

#include <outbox/error.hpp>

#include "redis/link.hpp"
#include "support/redis_server.hpp"
#include "support/scripted_server.hpp"
#include "support/waiting.hpp"

namespace outbox {

using namespace std::chrono_literals;
using redis::link;
using redis::parse_url;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Longer than anything takes on a machine that is busy.
inline constexpr auto patience = 60s;

/// For waits that are to end by themselves.
inline constexpr auto impatience = 100ms;

class RedisLink : public ::testing::Test {
 protected:
  static std::unique_ptr<link> to(std::string const& url) {
    return std::make_unique<link>(parse_url(url), patience, patience);
  }

  template <class F>
  static error thrown_by(F&& f) {
    try {
      f();
    } catch (error const& e) {
      return e;
    }
    ADD_FAILURE() << "nothing was thrown";
    return error{errc::lifecycle, "nothing was thrown"};
  }

  static error refusal_of(std::string const& url) {
    return thrown_by([&] { to(url); });
  }

  /// What a server says to a client that connects: the answer to HELLO.
  static constexpr std::string_view greeting = "*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n";

  /// Takes part in the handshake, then waits for the command that has this word in it.
  static bool meet(scripted_server::client& c, std::string_view word) {
    return c.read_until("outbox\r\n") && c.say(greeting) && c.read_until(word);
  }

  static std::string url_of(scripted_server const& s) { return "redis://" + s.address(); }
};

}  // namespace outbox
