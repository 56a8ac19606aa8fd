// Bytes that an event appends to SQLite's -wal file.
#include <filesystem>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <thread>

#include "sqlite_by_hand.hpp"
#include "sqlite_ours.hpp"
#include "suites.hpp"
#include "support/temporary_directory.hpp"

namespace bench {
namespace {

// No connection moves pages back into the database, so the file only grows, and its size is what was written.
constexpr char const* no_checkpoint = "PRAGMA wal_autocheckpoint = 0";

sqlite3* open_for_store(std::string const& path) {
  sqlite3* raw = nullptr;
  sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  sqlite3_exec(raw, no_checkpoint, nullptr, nullptr, nullptr);
  return raw;
}

std::string id_of(int i) { return "0000000000000000-" + std::to_string(i); }

// Per event, of `work` that handles `count`.
double bytes_of(std::string const& path, int count, std::function<void()> const& work) {
  auto const size = [&] { return static_cast<double>(std::filesystem::file_size(path + "-wal")); };
  auto const before = size();
  work();
  return (size() - before) / count;
}

// One writer, so that no other transaction shares its pages.
double through_node(settings const& s, delivery_ledger& ledger, int count, bool hot) {
  outbox::temporary_directory const dir{s.directory};
  auto const path = dir / "ours.db";
  create_tables(path);
  auto const store = outbox::sqlite::open(path, {.connect = [path] { return open_for_store(path); }});
  outbox::single_node_options o{.store = store, .log = nullptr};
  o.listeners.on("order.placed", [&](outbox::delivery const& d) { ledger.saw(d.id); });
  auto node = outbox::single_node(std::move(o));
  auto only = outbox::writer_only({.store = store, .log = nullptr});
  ledger.forget();
  if (hot) node.start();
  while (hot && !node.health().active) std::this_thread::yield();
  writer_of_ours service{path, hot ? node.writer() : only.writer()};
  service.db().execute(no_checkpoint);
  return bytes_of(path, count, [&] {
    for (int i = 0; i < count; ++i) service.write(id_of(i));
    if (!hot) node.start();
    wait_until_done(path, count);
  });
}

double by_hand(settings const& s, int count) {
  outbox::temporary_directory const dir{s.directory};
  auto const path = dir / "by_hand.db";
  create_tables(path);
  writer_by_hand hand{path};
  hand.db().run(no_checkpoint);
  hand.write(id_of(count), payload);  // the file is there from here on
  return bytes_of(path, count, [&] {
    for (int i = 0; i < count; ++i) hand.write(id_of(i), payload);
    for (int at = 0; at <= count; at += 100) {
      hand.db().run(
          "UPDATE outbox_event SET status = 1, done_at = available_at WHERE seq IN (SELECT seq FROM outbox_event WHERE "
          "status = 0 LIMIT 100)");
    }
  });
}

}  // namespace

rows sqlite_wal(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(1000);
  settings few = s;
  few.rounds = std::min(s.rounds, 3);  // bytes hardly differ between rounds
  std::string const beside = "; by hand: the same inserts, marked DONE a hundred at a time without a claim";
  return interleave(
      few,
      {{"sqlite.wal_bytes_per_event.hot", "bytes", no_bar,
        "bytes appended to the -wal file from the insert to DONE, business row included, one writer" + beside},
       {"sqlite.wal_bytes_per_event.cold", "bytes", no_bar,
        "the same, by a poller that claims what a writer_only has written" + beside}},
      [&]() -> std::vector<double> {
        return {through_node(s, ledger, count, true), through_node(s, ledger, count, false)};
      },
      [&]() -> std::vector<double> {
        auto const bytes = by_hand(s, count);
        return {bytes, bytes};
      });
}

}  // namespace bench
