// The answer to a request, as far as it matters: the status, how long to wait, and that it ends.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <outbox/clock.hpp>
#include <string>
#include <string_view>

namespace outbox::inline v0::webhook {

/// How long a receiver wants to be left alone: seconds, or a date. 1 s to 24 h; none if it is neither.
[[nodiscard]] std::optional<std::chrono::milliseconds> retry_after(std::string_view value, std::time_t now);

/// Collects what libcurl reads. Use from one thread at a time.
class answer {
 public:
  /// One line of the header. An answer may follow another, such as 100 Continue.
  void header_line(std::string_view line);

  /// Returns false if the body is too long. It is not kept.
  [[nodiscard]] bool body(std::size_t bytes) noexcept;

  /// The status, once the whole header is there; else 0.
  [[nodiscard]] int status() const noexcept { return complete_ ? status_ : 0; }

  /// The value of Retry-After.
  [[nodiscard]] std::string const& wish() const noexcept { return wish_; }

 private:
  static constexpr std::size_t longest_body = std::size_t{64} << 10U;

  int status_ = 0;
  bool complete_ = false;
  std::string wish_;
  std::size_t body_ = 0;
};

}  // namespace outbox::inline v0::webhook
