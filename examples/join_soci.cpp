// Writes events in the transactions of a SOCI session on SQLite.
#include <cstdio>
#include <outbox/adapt/soci_sqlite.hpp>
#include <outbox/outbox.hpp>
#include <string>
#include <thread>

#include "example_files.hpp"

namespace {

void place_order(soci::session& sql, outbox::writer const& writer, std::string const& id) {
  soci::transaction tx{sql};
  sql << "INSERT INTO orders VALUES (:id)", soci::use(id);
  writer.write(sql, "order.placed", R"({"cents":1999})", {.aggregate = {"order", id}});  // the session, not tx
  tx.commit();
}

void place_order_hot(soci::session& sql, outbox::writer const& writer, std::string const& id) {
  outbox::sqlite::transaction tx{outbox::adapt::sqlite_handle(sql)};
  sql << "INSERT INTO orders VALUES (:id)", soci::use(id);
  writer.write(tx, "order.placed", R"({"cents":1999})", {.aggregate = {"order", id}});
  tx.commit();
}

}  // namespace

int main() {
  auto const path = fresh_database("join-soci");
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

  soci::session sql{soci::sqlite3, "dbname=" + path + " timeout=5"};  // waits 5 s for the lock of another connection
  sql << "CREATE TABLE orders (id TEXT PRIMARY KEY)";

  place_order(sql, box.writer(), "1");  // the poller finds the event within milliseconds of the commit
  wait();
  try {
    place_order(sql, box.writer(), "1");
  } catch (soci::soci_error const&) {
    std::printf("order 1 is there already, and nothing was written\n");
  }
  place_order_hot(sql, box.writer(), "2");  // the listener runs microseconds after the commit
  wait();
}
