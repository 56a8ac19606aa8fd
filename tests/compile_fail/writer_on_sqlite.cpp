// Business code on SQLite needs the writer and the header of its store.
#include <outbox/sqlite.hpp>
#include <outbox/writer.hpp>

void place_order(outbox::writer const& events, outbox::sqlite::connection& db) {
  outbox::sqlite::transaction tx{db};
  db.execute("INSERT INTO orders VALUES (42)");
  events.write(tx, "order.placed", "42", {.aggregate = {"order", "42"}});
  tx.commit();
}
