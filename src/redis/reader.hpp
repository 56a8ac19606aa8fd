// Parses answers: the reader of hiredis, with a bound for lists.
#pragma once

#include <hiredis/hiredis.h>

#include <memory>

namespace outbox::inline v0::redis {

struct free_reader {
  void operator()(redisReader* r) const noexcept { redisReaderFree(r); }
};
using reader_handle = std::unique_ptr<redisReader, free_reader>;

/// It refuses lists of more than 16 million elements: hiredis takes memory for as many as a server announces, before
/// any of them has come. Throws std::bad_alloc.
[[nodiscard]] reader_handle make_reader();

/// True if a part of an answer was read: bytes that the parser could not use yet, or the beginning of a list.
[[nodiscard]] bool in_an_answer(redisReader const& r) noexcept;

}  // namespace outbox::inline v0::redis
