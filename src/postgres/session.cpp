#include "postgres/session.hpp"

#include <outbox/spi/postgres_adapter.hpp>
#include <utility>

#include "postgres/own_connection.hpp"

namespace outbox::inline v0::postgres {

session::session(handle c, milliseconds timeout)
    : conn{std::move(c)},
      statements{conn.get(), behind_pooler(conn.get(), timeout) ? prepared::once : prepared::kept} {}

bool in_transaction(pg_conn const* connection) noexcept {
  auto const s = connection == nullptr ? PQTRANS_UNKNOWN : PQtransactionStatus(connection);
  return s == PQTRANS_INTRANS || s == PQTRANS_INERROR;
}

}  // namespace outbox::inline v0::postgres
