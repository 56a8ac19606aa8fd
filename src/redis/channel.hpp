// Bytes to and from a server, plain or encrypted, and waiting for them until a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "redis/url.hpp"

namespace outbox::inline v0::redis {

using deadline = std::chrono::steady_clock::time_point;

/// The instant that is so far away; 0: there is no limit.
[[nodiscard]] deadline deadline_after(std::chrono::milliseconds t) noexcept;

/// Asked after every wait: a peer that does a little now and then must not make the whole last for ever.
[[nodiscard]] bool is_over(deadline until) noexcept;

/// What ended a wait.
enum class woken { ready, late, interrupted };

/// Waits until the descriptor can be read or written, as `events` of poll() says, or another one can be read.
[[nodiscard]] woken wait_for(int descriptor, short events, deadline until, int interrupt = -1) noexcept;

/// Use from one thread at a time. Its functions do not wait, and raise no SIGPIPE.
class channel {
 public:
  channel() = default;
  channel(channel const&) = delete;
  channel& operator=(channel const&) = delete;
  virtual ~channel() = default;

  /// Returns the number of bytes read; 0 if there are none yet. Throws `error` (unavailable) if the connection has
  /// ended, (store_failure) if the server refuses TLS.
  [[nodiscard]] virtual std::size_t read(std::span<char> into) = 0;

  /// Returns the number of bytes that were taken; 0 if there is no room now. Throws like `read()`.
  [[nodiscard]] virtual std::size_t write(std::string_view bytes) = 0;

  /// To wait for.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
};

/// Connects, with TLS if the address says so. Throws `error`: unavailable if there is no server, or it does not answer
/// in time; store_failure if TLS fails for a reason that will not pass.
[[nodiscard]] std::unique_ptr<channel> open_channel(address const& to, deadline until);

}  // namespace outbox::inline v0::redis
