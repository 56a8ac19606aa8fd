// A socket that is connected before a deadline, and never blocks.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "redis/channel.hpp"

namespace outbox::inline v0::redis {

/// Move-only. No program that this one starts inherits it.
class socket {
 public:
  /// Connects to the unix socket of the address if it has one, else to the host. Each of the host's addresses gets its
  /// share of the time that is left. Looking up its name takes as long as the system lets it. Throws `error`
  /// (unavailable).
  socket(address const& to, deadline until);
  socket(socket&& other) noexcept : name_{std::move(other.name_)}, descriptor_{std::exchange(other.descriptor_, -1)} {}
  socket& operator=(socket&& other) = delete;
  ~socket();

  /// Like `channel::read()` and `channel::write()`.
  [[nodiscard]] std::size_t receive(std::span<char> into) const;
  [[nodiscard]] std::size_t send(std::string_view bytes) const;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  [[noreturn]] void fail(std::string const& why) const;

  std::string name_;  ///< Of the server, for messages.
  int descriptor_ = -1;
};

}  // namespace outbox::inline v0::redis
