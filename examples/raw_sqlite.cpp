// Writes events on the application's own sqlite3*, in a transaction that the application begins and ends.
//
//   example_raw_sqlite [times]
#include <sqlite3.h>

#include <cstdio>
#include <cstdlib>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <thread>

#include "example_files.hpp"

int main(int argc, char** argv) {
  auto const path = fresh_database("raw");
  auto store = outbox::sqlite::open(path);
  outbox::listeners listeners;
  listeners.on("order.placed", [](outbox::delivery const& d) {
    std::printf("order %s came %s\n", d.event.payload().c_str(), d.path == outbox::path::hot ? "hot" : "cold");
  });
  auto box = outbox::single_node({.store = store, .listeners = std::move(listeners)});
  box.start();
  while (!box.health().active) std::this_thread::yield();
  auto const wait = [&] {
    while (store->inspect().counts().pending() > 0) std::this_thread::yield();
  };

  sqlite3* db = nullptr;
  if (sqlite3_open(path.c_str(), &db) != SQLITE_OK) return 1;
  sqlite3_busy_timeout(db, 5000);  // the store's threads write to the same file
  sqlite3_exec(db, "CREATE TABLE orders (id INT)", nullptr, nullptr, nullptr);

  // The application's own BEGIN and COMMIT: the poller finds the row within milliseconds of the commit.
  sqlite3_exec(db, "BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)", nullptr, nullptr, nullptr);
  for (int i = 0; i < (argc > 1 ? std::atoi(argv[1]) : 1); ++i) box.writer().write(db, "order.placed", "1");
  sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr);
  wait();

  // A sqlite::transaction on the same handle: the listener runs microseconds after the commit.
  outbox::sqlite::transaction tx{db};
  sqlite3_exec(db, "INSERT INTO orders VALUES (2)", nullptr, nullptr, nullptr);
  box.writer().write(tx, "order.placed", "2");
  tx.commit();
  wait();

  sqlite3_close(db);
}
