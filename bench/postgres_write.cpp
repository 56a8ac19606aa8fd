// Writing on PostgreSQL: what the outbox adds to the caller's transaction, or saves it.
#include <outbox/adapt/pqxx.hpp>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>

#include "postgres_by_hand.hpp"
#include "postgres_ours.hpp"
#include "suites.hpp"

namespace bench {
namespace {

using outbox::postgres::send_mode;

std::string id_of(std::uint64_t n) { return "0000000000000000-" + std::to_string(n); }

// Both sides write the same, each in a schema of its own.
template <class Ours, class ByHand>
row write_one(settings const& s, measured const& m, Ours&& ours, ByHand&& by_hand) {
  std::uint64_t n = 0;
  return alternate(
      s, m, s.amount(600), [&] { ours(id_of(++n)); }, [&] { by_hand(id_of(++n)); });
}

class places {
 public:
  places() : node{outbox::writer_only({.store = pg::store_of(ours), .log = nullptr})}, writer{node.writer()} {}
  pg::place ours = pg::new_place("ours");
  pg::place by_hand = pg::new_place("by_hand");
  outbox::node node;
  outbox::writer writer;
};

row direct(settings const& s) {
  places p;
  outbox::postgres::connection db{p.ours.connection};
  pg::prepared_insert const order{db.handle(), pg::insert_order_sql(p.ours)};
  pg::writer_by_hand const hand{p.by_hand};
  return write_one(
      s,
      {"postgres.write.1", "tx/s", at_least(1.0),
       "one business INSERT by the caller (prepared) and one event in our transaction; by hand: both prepared, BEGIN "
       "and "
       "COMMIT, four round trips"},
      [&](std::string const& id) {
        outbox::postgres::transaction tx{db};
        order.run(id);
        p.writer.write(tx, "order.placed", payload, {.id = id});
        tx.commit();
      },
      [&](std::string const& id) { hand.write(id, payload); });
}

// Beside some way to write it by hand.
row pipelined(settings const& s, measured const& m,
              void (pg::writer_by_hand::*by_hand)(std::string const&, std::string const&) const) {
  places p;
  outbox::postgres::connection db{p.ours.connection};
  auto const order = pg::insert_order_sql(p.ours);
  pg::writer_by_hand const hand{p.by_hand};
  return write_one(
      s, m,
      [&](std::string const& id) {
        outbox::postgres::transaction tx{db, send_mode::pipelined};
        tx.enqueue(order, id);
        p.writer.write(tx, "order.placed", payload, {.id = id});
        tx.commit();
      },
      [&](std::string const& id) { (hand.*by_hand)(id, payload); });
}

row borrowed(settings const& s) {
  places p;
  pg::client const c{p.ours.connection};
  pg::client const h{p.by_hand.connection};
  auto const order = pg::insert_order_sql(p.ours);
  auto const hand_order = pg::insert_order_sql(p.by_hand);
  auto const hand_event = pg::insert_event_sql(p.by_hand);
  return write_one(
      s,
      {"postgres.write.borrowed", "tx/s", at_least(0.95),
       "BEGIN, business INSERT and COMMIT by the caller on a libpq handle, and an event; by hand: the event by "
       "PQexecParams too"},
      [&](std::string const& id) {
        c.run("BEGIN");
        c.execute_params(order, {id.c_str()});
        auto* handle = c.handle();
        p.writer.write(handle, "order.placed", payload, {.id = id});
        c.run("COMMIT");
      },
      [&](std::string const& id) {
        h.run("BEGIN");
        h.execute_params(hand_order, {id.c_str()});
        h.execute_params(hand_event, {id.c_str(), payload.c_str()});
        h.run("COMMIT");
      });
}

row through_pqxx(settings const& s) {
  places p;
  pqxx::connection c{p.ours.connection};
  pqxx::connection h{p.by_hand.connection};
  auto const order = pg::insert_order_sql(p.ours);
  auto const hand_order = pg::insert_order_sql(p.by_hand);
  auto const hand_event = pg::insert_event_sql(p.by_hand);
  return write_one(
      s,
      {"postgres.write.pqxx", "tx/s", at_least(0.95),
       "a pqxx::work with the business INSERT by exec_params, and an event; by hand: the event by exec_params too"},
      [&](std::string const& id) {
        pqxx::work tx{c};
        tx.exec_params(order, id);
        p.writer.write(tx, "order.placed", payload, {.id = id});
        tx.commit();
      },
      [&](std::string const& id) {
        pqxx::work tx{h};
        tx.exec_params(hand_order, id);
        tx.exec_params(hand_event, id, payload);
        tx.commit();
      });
}

std::string element(std::string const& text) {
  std::string quoted = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

rows postgres_write(settings const& s) {
  return {direct(s),
          pipelined(s,
                    {"postgres.write.pipelined", "tx/s", no_bar,
                     "the business INSERT goes through enqueue(), all in one round trip; by hand: as in write.1"},
                    &pg::writer_by_hand::write),
          pipelined(s,
                    {"postgres.write.same_pipeline", "tx/s", at_least(0.95),
                     "the same; by hand: the same four statements, prepared, in one round trip too"},
                    &pg::writer_by_hand::write_pipelined),
          borrowed(s), through_pqxx(s)};
}

rows postgres_write_all(settings const& s) {
  places p;
  outbox::postgres::connection db{p.ours.connection};
  pg::client const h{p.by_hand.connection};
  h.prepare("events", "INSERT INTO " + p.by_hand.table() +
                          " (event_id, event_type, aggregate_type, payload, available_at, created_at) SELECT u.id, "
                          "'order.placed', '__GLOBAL__', u.payload::json, clock_timestamp(), clock_timestamp() FROM "
                          "unnest($1::text[], $2::text[]) u(id, payload)");
  std::uint64_t n = 0;
  auto const ours = [&] {
    std::vector<outbox::event> events;
    events.reserve(100);
    for (int i = 0; i < 100; ++i) events.push_back(outbox::event::json("order.placed", payload, {.id = id_of(++n)}));
    outbox::postgres::transaction tx{db};
    p.writer.write_all(tx, events);
    tx.commit();
  };
  auto const by_hand = [&] {
    std::string ids = "{";
    std::string payloads = "{";
    for (int i = 0; i < 100; ++i) {
      if (i > 0) {
        ids += ',';
        payloads += ',';
      }
      ids += id_of(++n);
      payloads += element(payload);
    }
    ids += '}';
    payloads += '}';
    h.run("BEGIN");
    h.execute("events", {ids.c_str(), payloads.c_str()});
    h.run("COMMIT");
  };
  return {alternate(s,
                    {"postgres.write_all.100", "tx/s", at_least(0.8),
                     "100 events in a transaction, made and validated too; by hand: one prepared INSERT of unnest"},
                    s.amount(200), ours, by_hand)};
}

}  // namespace bench
