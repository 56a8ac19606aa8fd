// Orders and the seam to the database: the HTTP interface and the listener know nothing else of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <outbox/json.hpp>
#include <outbox/writer.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace order_service {

/// The event of an order. Receivers in other programs see its fields as JSON.
struct order_placed {
  static constexpr std::string_view event_type = "order.placed";
  using outbox_codec = outbox::json;
  std::int64_t order_id = 0;
  std::string customer;
  std::int64_t cents = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(order_placed, order_id, customer, cents)

/// An order as a client sends it, checked.
struct new_order {
  std::string customer;
  std::int64_t cents = 0;
  std::optional<std::string> key{};  ///< The client's Idempotency-Key.
};

struct order {
  std::int64_t id = 0;
  std::string customer;
  std::int64_t cents = 0;
  bool shipped = false;  ///< The listener has handled its event.
};

struct placement {
  order value;
  bool again = false;  ///< An order with the client's key was there already, and nothing was written.
};

/// The orders in one database. Thread-safe. Every function throws `outbox::error`.
class order_book {
 public:
  order_book() = default;
  order_book(order_book const&) = delete;
  order_book& operator=(order_book const&) = delete;
  virtual ~order_book() = default;

  /// Writes the order and its event in one transaction: both are there afterwards, or neither.
  virtual placement place(outbox::writer const& writer, new_order const& o) = 0;

  [[nodiscard]] virtual std::optional<order> find(std::int64_t id) = 0;
  [[nodiscard]] virtual std::vector<order> newest(std::size_t limit) = 0;

  /// Notes the shipment of an order. An event may arrive twice: the second time only its count grows.
  virtual void ship(std::int64_t order_id, std::string_view event_id) = 0;
};

/// Opens the order book in the database that the URL names, by its scheme: sqlite, postgresql, mysql or mariadb. Makes
/// its tables if they are missing. Throws `outbox::error` (invalid_option) about `db`, or the error of the database.
[[nodiscard]] std::unique_ptr<order_book> open_order_book(std::string const& url);

}  // namespace order_service
