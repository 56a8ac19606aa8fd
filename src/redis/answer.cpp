#include "redis/answer.hpp"

#include <charconv>

namespace outbox::inline v0::redis {

std::string_view answer_view::text() const noexcept {
  if (reply_ == nullptr) return {};
  bool const has_text = reply_->type == REDIS_REPLY_STRING || reply_->type == REDIS_REPLY_STATUS || failed();
  return has_text ? std::string_view{reply_->str, reply_->len} : std::string_view{};
}

std::int64_t answer_view::number() const noexcept {
  if (reply_ == nullptr) return 0;
  if (reply_->type == REDIS_REPLY_INTEGER) return reply_->integer;
  std::int64_t n = 0;
  auto const t = text();
  auto const [end, code] = std::from_chars(t.data(), t.data() + t.size(), n);
  return code == std::errc{} && end == t.data() + t.size() ? n : 0;
}

}  // namespace outbox::inline v0::redis
