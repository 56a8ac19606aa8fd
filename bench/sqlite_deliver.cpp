// Delivering: hot from commit to DONE, and a table full of rows that wait for delivery.
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <thread>

#include "pace.hpp"
#include "sqlite_by_hand.hpp"
#include "sqlite_ours.hpp"
#include "suites.hpp"
#include "support/temporary_directory.hpp"

namespace bench {
namespace {

constexpr int writers = 4;

std::string id_of(int thread, int i) { return "0000000000000000-" + std::to_string(thread) + "-" + std::to_string(i); }

void wait_until_done(std::string const& path, std::int64_t count) {
  database const db{path};
  auto const pending = db.prepare("SELECT 1 FROM outbox_event WHERE status IN (0, 2) AND blocked IS NOT TRUE LIMIT 1");
  while (true) {
    bool const some = sqlite3_step(pending.get()) == SQLITE_ROW;
    sqlite3_reset(pending.get());
    if (!some && db.number("SELECT count(*) FROM outbox_event WHERE status = 1") == count) return;
    std::this_thread::sleep_for(std::chrono::microseconds{200});
  }
}

}  // namespace

rows sqlite_end_to_end(settings const& s, delivery_ledger& ledger) {
  auto const each = static_cast<int>(250 * s.scale);
  auto const ours = [&]() -> std::vector<double> {
    outbox::temporary_directory const dir{s.directory};
    auto const path = dir / "ours.db";
    create_tables(path);
    outbox::single_node_options o{.store = outbox::sqlite::open(path), .log = nullptr};
    o.listeners.on("order.placed", [&](outbox::delivery const& d) { ledger.saw(d.id); });
    auto node = outbox::single_node(std::move(o));
    node.start();
    while (!node.health().active) std::this_thread::yield();
    ledger.forget();
    auto const time = seconds([&] {
      on_threads(writers, [&](int t) {
        writer_of_ours service{path, node.writer()};
        for (int i = 0; i < each; ++i) service.write(id_of(t, i));
      });
      wait_until_done(path, writers * each);
    });
    return {writers * each / time};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    outbox::temporary_directory const dir{s.directory};
    auto const path = dir / "by_hand.db";
    create_tables(path);
    auto const time = seconds([&] {
      on_threads(writers, [&](int t) {
        writer_by_hand hand{path};
        for (int i = 0; i < each; ++i) hand.write(id_of(t, i), payload);
      });
    });
    return {writers * each / time};
  };
  return interleave(s,
                    {{"sqlite.end_to_end", "events/s", at_least(0.7),
                      "4 writers, a listener that does nothing, until every event is DONE; by hand: the same writers, "
                      "and nothing delivers"}},
                    ours, by_hand);
}

rows sqlite_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done) {
  bool const erase = done == outbox::done_rows::erase;
  auto const count = static_cast<int>(100'000 * s.scale);
  outbox::temporary_directory const dir{s.directory};
  auto const full = dir / "full.db";
  create_tables(full);
  {
    writer_by_hand hand{full};
    hand.db().run("BEGIN IMMEDIATE");
    for (int i = 0; i < count; ++i) hand.insert_event(id_of(0, i), payload);
    hand.db().run("COMMIT");
    hand.db().run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  auto const copy = [&](char const* name) {
    auto path = dir / name;
    for (auto const* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end);
    std::filesystem::copy_file(full, path);
    return path;
  };
  auto const ours = [&]() -> std::vector<double> {
    auto const path = copy("ours.db");
    outbox::single_node_options o{
        .store = outbox::sqlite::open(path, {.done_rows = done}), .workers = 1, .log = nullptr};
    o.poll.batch = 1000;
    o.queue.cold = 4000;
    std::mutex mutex;
    std::condition_variable all;
    int seen = 0;
    o.listeners.on("order.placed", [&](outbox::delivery const& d) {
      ledger.saw(d.id);
      std::lock_guard const lock{mutex};
      if (++seen == count) all.notify_one();
    });
    ledger.forget();
    auto node = outbox::single_node(std::move(o));
    auto const time = seconds([&] {
      node.start();
      {
        std::unique_lock lock{mutex};
        all.wait(lock, [&] { return seen == count; });
      }
      wait_until_done(path, erase ? 0 : count);
    });
    return {count / time};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const path = copy("by_hand.db");
    drainer_by_hand hand{path, erase};
    auto const time = seconds([&] {
      while (hand.drain_some(1000) > 0) {
      }
    });
    return {count / time};
  };
  if (erase) {
    return interleave(
        s,
        {{"sqlite.cold_drain.erase", "rows/s", at_least(0.85),
          "as cold_drain, but a delivered row is deleted; by hand: a loop of a transaction that locks 1000 "
          "rows and one that deletes them"}},
        ours, by_hand);
  }
  return interleave(s,
                    {{"sqlite.cold_drain", "rows/s", at_least(0.6),
                      "100,000 rows without an owner, from the claim to DONE, claims of 1000, one worker; by hand: a "
                      "loop of a transaction that locks 1000 rows and one that marks them"}},
                    ours, by_hand);
}

}  // namespace bench
