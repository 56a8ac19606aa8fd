// Writing on MariaDB: what the outbox adds to the caller's transaction.
#include <outbox/mysql.hpp>
#include <outbox/outbox.hpp>

#include "mysql_by_hand.hpp"
#include "mysql_ours.hpp"
#include "suites.hpp"

namespace bench {
namespace {

std::string id_of(std::uint64_t n) { return "0000000000000000-" + std::to_string(n); }

class places {
 public:
  places() : node{outbox::writer_only({.store = my::store_of(ours), .log = nullptr})}, writer{node.writer()} {}
  my::place ours = my::new_place("ours");
  my::place by_hand = my::new_place("by_hand");
  outbox::node node;
  outbox::writer writer;
};

// Both sides write the same, each in a database of its own.
template <class Ours, class ByHand>
row write_one(settings const& s, measured const& m, Ours&& ours, ByHand&& by_hand) {
  std::uint64_t n = 0;
  return alternate(
      s, m, s.amount(600), [&] { ours(id_of(++n)); }, [&] { by_hand(id_of(++n)); });
}

row direct(settings const& s) {
  places p;
  outbox::mysql::connection db{p.ours.url};
  my::prepared const order{db.handle(), my::insert_order_sql(p.ours, "?")};
  my::writer_by_hand const hand{p.by_hand};
  return write_one(
      s,
      {"mysql.write.1", "tx/s", at_least(0.9),
       "one business INSERT by the caller (prepared) and one event in our transaction, which asks for the event when "
       "it "
       "commits; by hand: both prepared, START TRANSACTION and COMMIT, four round trips"},
      [&](std::string const& id) {
        outbox::mysql::transaction tx{db};
        order.run({&id});
        p.writer.write(tx, "order.placed", payload, {.id = id});
        tx.commit();
      },
      [&](std::string const& id) { hand.write(id, payload); });
}

row borrowed(settings const& s) {
  places p;
  my::client const c;
  my::client const h;
  return write_one(
      s,
      {"mysql.write.borrowed", "tx/s", at_least(0.9),
       "START TRANSACTION, business INSERT as text and COMMIT by the caller on a MYSQL handle, and an event; by hand: "
       "the event as text too, its values escaped"},
      [&](std::string const& id) {
        c.run("START TRANSACTION");
        c.run(my::insert_order_sql(p.ours, c.quoted(id)));
        auto* handle = c.handle();
        p.writer.write(handle, "order.placed", payload, {.id = id});
        c.run("COMMIT");
      },
      [&](std::string const& id) {
        h.run("START TRANSACTION");
        h.run(my::insert_order_sql(p.by_hand, h.quoted(id)));
        h.run(my::insert_event_sql(p.by_hand, h.quoted(id), h.quoted(payload)));
        h.run("COMMIT");
      });
}

}  // namespace

rows mysql_write(settings const& s) { return {direct(s), borrowed(s)}; }

rows mysql_write_all(settings const& s) {
  places p;
  outbox::mysql::connection db{p.ours.url};
  my::client const h;
  std::uint64_t n = 0;
  auto const ours = [&] {
    std::vector<outbox::event> events;
    events.reserve(100);
    for (int i = 0; i < 100; ++i) events.push_back(outbox::event::json("order.placed", payload, {.id = id_of(++n)}));
    outbox::mysql::transaction tx{db};
    p.writer.write_all(tx, events);
    tx.commit();
  };
  auto const by_hand = [&] {
    std::string sql = my::insert_event_sql(p.by_hand, h.quoted(id_of(++n)), h.quoted(payload));
    for (int i = 1; i < 100; ++i) {
      sql += ",(" + h.quoted(id_of(++n)) + ", 'order.placed', '__GLOBAL__', " + h.quoted(payload) +
             ", utc_timestamp(6), utc_timestamp(6))";
    }
    h.run("START TRANSACTION");
    h.run(sql);
    h.run("COMMIT");
  };
  return {alternate(s,
                    {"mysql.write_all.100", "tx/s", at_least(0.8),
                     "100 events in a transaction, made and validated too; by hand: one INSERT of 100 rows as text"},
                    s.amount(200), ours, by_hand)};
}

}  // namespace bench
