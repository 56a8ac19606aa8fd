// The words of a command while they are put together.
#pragma once

#include <chrono>
#include <concepts>
#include <outbox/clock.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outbox::inline v0::redis {

/// Microseconds since 1970, as the scripts read them.
[[nodiscard]] inline std::string text_of(instant t) { return std::to_string(t.time_since_epoch().count()); }

[[nodiscard]] inline std::string text_of(std::chrono::microseconds d) { return std::to_string(d.count()); }

/// Grows by one word at a time. Texts are copied.
class arguments {
 public:
  template <class... Words>
  explicit arguments(Words&&... words) {
    (add(std::forward<Words>(words)), ...);
  }

  arguments& add(std::string_view text) {
    words_.emplace_back(text);
    return *this;
  }
  arguments& add(std::string&& text) {
    words_.push_back(std::move(text));
    return *this;
  }
  arguments& add(std::string const& text) { return add(std::string_view{text}); }
  arguments& add(char const* text) { return add(std::string_view{text}); }
  arguments& add(bool flag) { return add(flag ? "1" : "0"); }
  arguments& add(std::integral auto number) { return add(std::to_string(number)); }
  arguments& add(instant t) { return add(text_of(t)); }
  template <class Rep, class Period>
  arguments& add(std::chrono::duration<Rep, Period> d) {
    return add(text_of(std::chrono::microseconds{d}));
  }

  [[nodiscard]] std::vector<std::string> const& words() const noexcept { return words_; }
  [[nodiscard]] std::vector<std::string>& words() noexcept { return words_; }
  void reserve(std::size_t n) { words_.reserve(n); }

 private:
  std::vector<std::string> words_;
};

}  // namespace outbox::inline v0::redis
