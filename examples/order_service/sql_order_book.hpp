// What the order books on all databases share. `Database` has the types of its connection and transaction, its
// statements, and the two steps that differ: making the tables, and inserting an order.
#pragma once

#include <outbox/error.hpp>
#include <string>
#include <utility>

#include "connection_pool.hpp"
#include "orders.hpp"

namespace order_service {

template <class Database>
class sql_order_book final : public order_book {
 public:
  using connection = typename Database::connection;
  using transaction = typename Database::transaction;

  explicit sql_order_book(std::string url) : connections_{std::move(url)} {
    connections_.use([](connection& db) { return Database::create_tables(db), true; });
  }

  placement place(outbox::writer const& writer, new_order const& o) override {
    return connections_.use([&](connection& db) {
      transaction tx{db};
      auto const id = Database::insert(tx, o);
      if (!id) {
        tx.rollback();
        return placed_before(db, o);
      }
      writer.write(tx, order_placed{*id, o.customer, o.cents}, {.aggregate = {"order", std::to_string(*id)}});
      tx.commit();  // the order and its event, or neither
      return placement{.value = {.id = *id, .customer = o.customer, .cents = o.cents}};
    });
  }

  std::optional<order> find(std::int64_t id) override {
    return connections_.use([&](connection& db) { return first(read(db, Database::find, id)); });
  }

  std::vector<order> newest(std::size_t limit) override {
    return connections_.use([&](connection& db) { return read(db, Database::newest, limit); });
  }

  void ship(std::int64_t order_id, std::string_view event_id) override {
    connections_.use([&](connection& db) {
      transaction tx{db};
      tx.execute(Database::ship, order_id, event_id);
      return tx.commit(), true;
    });
  }

 private:
  static placement placed_before(connection& db, new_order const& o) {
    auto const known = first(read(db, Database::find_by_key, *o.key));
    if (!known) throw outbox::error{outbox::errc::unavailable, "the order with this key was being changed"};
    if (known->customer != o.customer || known->cents != o.cents) {
      throw outbox::error::about(outbox::errc::invalid_event, "Idempotency-Key", "was used for another order");
    }
    return {.value = *known, .again = true};
  }

  template <class... Args>
  static std::vector<order> read(connection& db, std::string_view sql, Args const&... args) {
    std::vector<order> all;
    for (auto& [id, customer, cents, shipments] :
         db.template query<std::int64_t, std::string, std::int64_t, std::int64_t>(sql, args...)) {
      all.push_back({.id = id, .customer = std::move(customer), .cents = cents, .shipped = shipments > 0});
    }
    return all;
  }

  static std::optional<order> first(std::vector<order> all) {
    if (all.empty()) return std::nullopt;
    return std::move(all.front());
  }

  connection_pool<connection> connections_;
};

}  // namespace order_service
