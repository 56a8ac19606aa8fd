// A connection that this library opened for a caller, and what is prepared on it.
#pragma once

#include "postgres/driver.hpp"

namespace outbox::inline v0::postgres {

/// Use from one thread at a time.
class session {
 public:
  /// Asks the server whether a pooler is in between: then nothing stays prepared.
  session(handle c, milliseconds timeout);

  handle conn;
  driver statements;
};

}  // namespace outbox::inline v0::postgres
