// Orders on MariaDB and MySQL.
#include <outbox/mysql.hpp>

#include "databases.hpp"
#include "sql_order_book.hpp"

namespace order_service {
namespace {

struct on_mysql {
  using connection = outbox::mysql::connection;
  using transaction = outbox::mysql::transaction;

  // Keys are compared byte for byte; the default collations take "a" and "A" for equal.
  static void create_tables(connection& db) {
    db.execute(
        "CREATE TABLE IF NOT EXISTS orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, customer VARCHAR(100) NOT NULL,"
        " cents BIGINT NOT NULL, idempotency_key VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin UNIQUE)"
        " ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4");
    db.execute(
        "CREATE TABLE IF NOT EXISTS shipments (order_id BIGINT PRIMARY KEY, event_id VARCHAR(36) NOT NULL,"
        " deliveries INTEGER NOT NULL) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4");
  }

  // Nothing if the key is taken: the only unique column whose value comes from outside.
  static std::optional<std::int64_t> insert(transaction& tx, new_order const& o) {
    try {
      tx.execute("INSERT INTO orders (customer, cents, idempotency_key) VALUES (?, ?, ?)", o.customer, o.cents, o.key);
    } catch (outbox::error const& e) {
      if (o.key && e.sqlstate() == "23000") return std::nullopt;
      throw;
    }
    return tx.query_one<std::int64_t>("SELECT LAST_INSERT_ID()");
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
      " ON DUPLICATE KEY UPDATE deliveries = deliveries + 1";
};

}  // namespace

std::unique_ptr<order_book> mysql_orders(std::string const& url) {
  return std::make_unique<sql_order_book<on_mysql>>(url);
}

}  // namespace order_service
