// Writes events in the transactions of a SQLiteCpp database.
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdio>
#include <outbox/adapt/sqlitecpp.hpp>
#include <outbox/outbox.hpp>
#include <string>
#include <thread>

#include "example_files.hpp"

namespace {

void insert_order(SQLite::Database& db, std::string const& id) {
  SQLite::Statement insert{db, "INSERT INTO orders VALUES (?)"};
  insert.bind(1, id);
  insert.exec();
}

void place_order(SQLite::Database& db, outbox::writer const& writer, std::string const& id) {
  SQLite::Transaction tx{db, SQLite::TransactionBehavior::IMMEDIATE};
  insert_order(db, id);
  writer.write(db, "order.placed", R"({"cents":1999})", {.aggregate = {"order", id}});  // the database, not tx
  tx.commit();
}

void place_order_hot(SQLite::Database& db, outbox::writer const& writer, std::string const& id) {
  outbox::sqlite::transaction tx{db.getHandle()};
  insert_order(db, id);
  writer.write(tx, "order.placed", R"({"cents":1999})", {.aggregate = {"order", id}});
  tx.commit();
}

}  // namespace

int main() {
  auto const path = fresh_database("join-sqlitecpp");
  auto store = outbox::sqlite::open(path);
  outbox::listeners listeners;
  listeners.on("order.placed", [](outbox::delivery const& d) {  // called by several threads at once
    auto const order = d.event.aggregate_id();
    std::printf("order %s came %s\n", order.c_str(), d.path == outbox::path::hot ? "hot" : "cold");
  });
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners)});
  box.start();
  while (!box.health().active) std::this_thread::yield();
  auto const wait = [&] {
    while (store->inspect().counts().pending() > 0) std::this_thread::yield();
  };

  SQLite::Database db{path, SQLite::OPEN_READWRITE, 5000};  // waits 5 s for the lock of another connection
  db.exec("CREATE TABLE orders (id TEXT PRIMARY KEY)");

  place_order(db, box.writer(), "1");  // the poller finds the event within milliseconds of the commit
  wait();
  try {
    place_order(db, box.writer(), "1");
  } catch (SQLite::Exception const&) {
    std::printf("order 1 is there already, and nothing was written\n");
  }
  place_order_hot(db, box.writer(), "2");  // the listener runs microseconds after the commit
  wait();
}
