// A pool of one connection, as the PostgreSQL store has pools.
#pragma once

#include <chrono>
#include <string>

#include "core/base/pool.hpp"
#include "postgres/connector.hpp"
#include "postgres/own_connection.hpp"

namespace outbox {

struct one_connection : core::pool<postgres::own_connection> {
  static constexpr std::chrono::milliseconds timeout{2000};
  explicit one_connection(std::string const& where)
      : pool{[where] {
               return postgres::connect_own(postgres::connector{where, {}}, timeout);
             },
             1, timeout} {}
};

}  // namespace outbox
