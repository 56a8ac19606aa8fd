// A connection that this library opened for a caller.
#pragma once

#include "mysql/driver.hpp"

namespace outbox::inline v0::mysql {

class session {
 public:
  explicit session(handle c) noexcept : conn{std::move(c)}, statements{conn.get()} {}

  handle conn;
  driver statements;
};

}  // namespace outbox::inline v0::mysql
