// Writes events in the transactions of a QSqlDatabase on SQLite.
#include <QtCore/QCoreApplication>
#include <QtSql/QSqlError>
#include <QtSql/QSqlQuery>
#include <cstdio>
#include <outbox/adapt/qt_sqlite.hpp>
#include <outbox/outbox.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "example_files.hpp"

namespace {

// Qt returns false where other clients throw.
void check(bool done, QSqlError const& e) {
  if (!done) throw std::runtime_error{e.text().toStdString()};
}

void insert_order(QSqlDatabase const& db, std::string const& id) {
  QSqlQuery insert{db};
  insert.prepare("INSERT INTO orders VALUES (?)");
  insert.addBindValue(QString::fromStdString(id));
  check(insert.exec(), insert.lastError());
}

void place_order(QSqlDatabase db, outbox::writer const& writer, std::string const& id) {
  check(db.transaction(), db.lastError());
  try {
    insert_order(db, id);
    writer.write(db, "order.placed", R"({"cents":1999})", {.aggregate = {"order", id}});
    check(db.commit(), db.lastError());
  } catch (...) {
    db.rollback();
    throw;
  }
}

void place_order_hot(QSqlDatabase const& db, outbox::writer const& writer, std::string const& id) {
  outbox::sqlite::transaction tx{outbox::adapt::sqlite_handle(db)};
  insert_order(db, id);
  writer.write(tx, "order.placed", R"({"cents":1999})", {.aggregate = {"order", id}});
  tx.commit();
}

}  // namespace

int main(int argc, char** argv) {
  QCoreApplication const application{argc, argv};
  auto const path = fresh_database("join-qt");
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

  auto db = QSqlDatabase::addDatabase("QSQLITE");  // waits 5 s for the lock of another connection
  db.setDatabaseName(QString::fromStdString(path));
  check(db.open(), db.lastError());
  QSqlQuery{db}.exec("CREATE TABLE orders (id TEXT PRIMARY KEY)");

  place_order(db, box.writer(), "1");  // the poller finds the event within milliseconds of the commit
  wait();
  try {
    place_order(db, box.writer(), "1");
  } catch (std::runtime_error const&) {
    std::printf("order 1 is there already, and nothing was written\n");
  }
  place_order_hot(db, box.writer(), "2");  // the listener runs microseconds after the commit
  wait();
}
