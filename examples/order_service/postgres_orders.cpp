// Orders on PostgreSQL.
#include <outbox/postgres.hpp>

#include "databases.hpp"
#include "sql_order_book.hpp"

namespace order_service {
namespace {

struct on_postgres {
  using connection = outbox::postgres::connection;
  using transaction = outbox::postgres::transaction;

  // Instances that start at the same time take turns: IF NOT EXISTS alone does not keep two CREATE TABLE apart.
  static void create_tables(connection& db) {
    transaction tx{db};
    tx.execute("SELECT pg_advisory_xact_lock(hashtext('order_service'))");
    tx.execute(
        "CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
        " customer text NOT NULL, cents bigint NOT NULL, idempotency_key text UNIQUE)");
    tx.execute(
        "CREATE TABLE IF NOT EXISTS shipments (order_id bigint PRIMARY KEY, event_id text NOT NULL,"
        " deliveries integer NOT NULL)");
    tx.commit();
  }

  // Nothing if the key is taken. Waits for a transaction that is about to take it.
  static std::optional<std::int64_t> insert(transaction& tx, new_order const& o) {
    auto const ids = tx.query<std::int64_t>(
        "INSERT INTO orders (customer, cents, idempotency_key) VALUES ($1, $2, $3)"
        " ON CONFLICT (idempotency_key) DO NOTHING RETURNING id",
        o.customer, o.cents, o.key);
    if (ids.empty()) return std::nullopt;
    return ids.front();
  }

  static constexpr std::string_view find =
      "SELECT o.id, o.customer, o.cents, coalesce(s.deliveries, 0) FROM orders o"
      " LEFT JOIN shipments s ON s.order_id = o.id WHERE o.id = $1";
  static constexpr std::string_view find_by_key =
      "SELECT o.id, o.customer, o.cents, coalesce(s.deliveries, 0) FROM orders o"
      " LEFT JOIN shipments s ON s.order_id = o.id WHERE o.idempotency_key = $1";
  static constexpr std::string_view newest =
      "SELECT o.id, o.customer, o.cents, coalesce(s.deliveries, 0) FROM orders o"
      " LEFT JOIN shipments s ON s.order_id = o.id ORDER BY o.id DESC LIMIT $1";
  static constexpr std::string_view ship =
      "INSERT INTO shipments AS s (order_id, event_id, deliveries) VALUES ($1, $2, 1)"
      " ON CONFLICT (order_id) DO UPDATE SET deliveries = s.deliveries + 1";
};

}  // namespace

std::unique_ptr<order_book> postgres_orders(std::string const& url) {
  return std::make_unique<sql_order_book<on_postgres>>(url);
}

}  // namespace order_service
