// Writing on PostgreSQL beside a node that keeps the order of keys.
#include <memory>

#include "postgres_keyed.hpp"

namespace bench {
namespace {

// A table, a node that delivers from it, and one client that writes to it.
class written {
 public:
  written(pg::order kind, delivery_ledger& ledger)
      : place_{pg::new_place(kind == pg::order::of_keys ? "keyed" : "unkeyed")} {
    outbox::multi_node_options o{.store = pg::store_of(place_), .log = nullptr};
    listener_ = std::make_unique<pg::keyed_listener>(o.listeners, ledger, kind);
    node_ = std::make_unique<outbox::node>(pg::node_of(kind, std::move(o)));
    node_->start();
    db_ = std::make_unique<outbox::postgres::connection>(place_.connection);
    order_ = std::make_unique<pg::prepared_insert>(db_->handle(), pg::insert_order_sql(place_));
  }

  // Ids that the other one has not: deliveries of both are in one ledger.
  void write(int writer) {
    auto event = pg::keyed_event(writer, ++written_);
    outbox::postgres::transaction tx{*db_};
    order_->run(event.id);
    node_->writer().write(tx, "order.placed", payload, std::move(event));
    tx.commit();
  }

 private:
  pg::place place_;
  std::unique_ptr<pg::keyed_listener> listener_;
  std::unique_ptr<outbox::node> node_;
  std::unique_ptr<outbox::postgres::connection> db_;
  std::unique_ptr<pg::prepared_insert> order_;
  int written_ = 0;
};

}  // namespace

rows postgres_keyed_write(settings const& s, delivery_ledger& ledger) {
  written keyed{pg::order::of_keys, ledger};
  written unkeyed{pg::order::none, ledger};
  return {alternate(
      s,
      {"postgres.keyed.write.1", "tx/s", at_least(0.8),
       "one business INSERT by the caller (prepared) and one event in our transaction, by one client that goes through "
       "100 keys, while a keyed node of the same process delivers the events at once; beside it: the same client with "
       "a multi_node, on a table without the index of keys"},
      s.amount(600), [&] { keyed.write(0); }, [&] { unkeyed.write(1); })};
}

}  // namespace bench
