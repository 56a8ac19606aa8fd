// A connection of the store's own.
#pragma once

#include <mutex>
#include <outbox/sqlite.hpp>
#include <string>

#include "sqlite/driver.hpp"

namespace outbox::inline v0::sqlite {

/// A connection of the store, and the lock for its users.
struct own_connection {
  own_connection(std::string const& path, options const& o, clock const& c)
      : wait{o.busy_timeout, waiting::in_short_steps},
        db{open_handle(path, o.connect, o.busy_timeout, o.synchronous, o.read_only)},
        statements{db.get(), c, prepared::kept} {
    wait.attach(db.get());
  }
  patience wait;
  handle db;
  driver statements;
  std::mutex mutex;
};

}  // namespace outbox::inline v0::sqlite
