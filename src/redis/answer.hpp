// What the server answered: hiredis' replies behind a class of our own.
#pragma once

#include <hiredis/hiredis.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace outbox::inline v0::redis {

/// An answer, or a part of one, that another object owns.
class answer_view {
 public:
  explicit answer_view(redisReply const* r) noexcept : reply_{r} {}

  [[nodiscard]] bool nil() const noexcept { return reply_ == nullptr || reply_->type == REDIS_REPLY_NIL; }
  [[nodiscard]] bool failed() const noexcept { return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR; }
  [[nodiscard]] bool list() const noexcept { return reply_ != nullptr && reply_->type == REDIS_REPLY_ARRAY; }

  /// The text of a string, a status or an error. Empty for everything else.
  [[nodiscard]] std::string_view text() const noexcept;

  /// An integer, also one that came as text. 0 for everything else.
  [[nodiscard]] std::int64_t number() const noexcept;

  /// The number of elements of a list; else 0.
  [[nodiscard]] std::size_t size() const noexcept { return list() ? reply_->elements : 0; }

  /// Nil if there is no such element.
  [[nodiscard]] answer_view operator[](std::size_t i) const noexcept {
    return answer_view{i < size() ? reply_->element[i] : nullptr};
  }

  [[nodiscard]] redisReply const* raw() const noexcept { return reply_; }

 protected:
  redisReply const* reply_;
};

/// An answer that owns its memory. Move-only.
class answer : public answer_view {
 public:
  explicit answer(redisReply* r) noexcept : answer_view{r} {}
  answer(answer&& other) noexcept : answer_view{std::exchange(other.reply_, nullptr)} {}
  answer& operator=(answer&& other) noexcept {
    std::swap(reply_, other.reply_);
    return *this;
  }
  answer(answer const&) = delete;
  answer& operator=(answer const&) = delete;
  ~answer() { freeReplyObject(const_cast<redisReply*>(reply_)); }
};

}  // namespace outbox::inline v0::redis
