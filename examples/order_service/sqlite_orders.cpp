// Orders on SQLite.
#include <outbox/sqlite.hpp>

#include "databases.hpp"
#include "sql_order_book.hpp"

namespace order_service {
namespace {

struct on_sqlite {
  using connection = outbox::sqlite::connection;
  using transaction = outbox::sqlite::transaction;

  static void create_tables(connection& db) {
    db.execute(
        "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY AUTOINCREMENT, customer TEXT NOT NULL,"
        " cents INTEGER NOT NULL, idempotency_key TEXT UNIQUE);"
        "CREATE TABLE IF NOT EXISTS shipments (order_id INTEGER PRIMARY KEY, event_id TEXT NOT NULL,"
        " deliveries INTEGER NOT NULL)");
  }

  // Nothing if the key is taken.
  static std::optional<std::int64_t> insert(transaction& tx, new_order const& o) {
    auto const ids = tx.query<std::int64_t>(
        "INSERT INTO orders (customer, cents, idempotency_key) VALUES (?, ?, ?)"
        " ON CONFLICT (idempotency_key) DO NOTHING RETURNING id",
        o.customer, o.cents, o.key);
    if (ids.empty()) return std::nullopt;
    return ids.front();
  }

  static constexpr std::string_view find =
      "SELECT o.id, o.customer, o.cents, coalesce(s.deliveries, 0) FROM orders o"
      " LEFT JOIN shipments s ON s.order_id = o.id WHERE o.id = ?";
  static constexpr std::string_view find_by_key =
      "SELECT o.id, o.customer, o.cents, coalesce(s.deliveries, 0) FROM orders o"
      " LEFT JOIN shipments s ON s.order_id = o.id WHERE o.idempotency_key = ?";
  static constexpr std::string_view newest =
      "SELECT o.id, o.customer, o.cents, coalesce(s.deliveries, 0) FROM orders o"
      " LEFT JOIN shipments s ON s.order_id = o.id ORDER BY o.id DESC LIMIT ?";
  static constexpr std::string_view ship =
      "INSERT INTO shipments (order_id, event_id, deliveries) VALUES (?, ?, 1)"
      " ON CONFLICT (order_id) DO UPDATE SET deliveries = deliveries + 1";
};

}  // namespace

std::unique_ptr<order_book> sqlite_orders(std::string const& path) {
  return std::make_unique<sql_order_book<on_sqlite>>(path);
}

}  // namespace order_service
