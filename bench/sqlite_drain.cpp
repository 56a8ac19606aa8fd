// A table full of rows that wait for delivery.
#include <filesystem>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>

#include "drain.hpp"
#include "sqlite_by_hand.hpp"
#include "sqlite_lean.hpp"
#include "sqlite_ours.hpp"
#include "suites.hpp"
#include "support/temporary_directory.hpp"

namespace bench {
namespace {

// A full file that each round takes a copy of.
class full_table {
 public:
  full_table(settings const& s, std::function<void(std::string const&)> const& make) : dir_{s.directory} {
    make(full_);
    database{full_}.run("PRAGMA wal_checkpoint(TRUNCATE)");
  }
  [[nodiscard]] std::string copy(char const* name) const {
    auto path = dir_ / name;
    for (auto const* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end);
    std::filesystem::copy_file(full_, path);
    return path;
  }

 private:
  outbox::temporary_directory dir_;
  std::string full_ = dir_ / "full.db";
};

auto rows_of_ours(int count) {
  return [count](std::string const& path) {
    create_tables(path);
    writer_by_hand hand{path};
    hand.db().run("BEGIN IMMEDIATE");
    for (int i = 0; i < count; ++i) hand.insert_event("0000000000000000-" + std::to_string(i), payload);
    hand.db().run("COMMIT");
  };
}

// Rows a second, from the start of the node until all are DONE, or gone.
double drain_of_ours(std::string const& path, int count, delivery_ledger& ledger, tuning how,
                     outbox::done_rows done = outbox::done_rows::keep) {
  outbox::single_node_options o{.store = outbox::sqlite::open(path, {.done_rows = done}), .log = nullptr};
  how(o);
  counting_listener all{o, ledger, count};
  auto node = outbox::single_node(std::move(o));
  auto const time = seconds([&] {
    node.start();
    all.wait();
    wait_until_done(path, done == outbox::done_rows::erase ? 0 : count);
  });
  return count / time;
}

template <class Drainer>
double drain_by_hand(Drainer hand, int count) {
  auto const time = seconds([&] {
    while (hand.drain_some(1000) > 0) {
    }
  });
  return count / time;
}

}  // namespace

rows sqlite_cold_drain(settings const& s, delivery_ledger& ledger, outbox::done_rows done) {
  bool const erase = done == outbox::done_rows::erase;
  auto const count = s.amount(100'000);
  full_table const full{s, rows_of_ours(count)};
  auto const ours = [&]() -> std::vector<double> {
    return {drain_of_ours(full.copy("ours.db"), count, ledger, one_worker, done)};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    return {drain_by_hand(drainer_by_hand{full.copy("by_hand.db"), erase}, count)};
  };
  measured const keep{"sqlite.cold_drain", "rows/s", at_least(0.75),
                      "100,000 rows without an owner, from the claim to DONE, claims of 1000, one worker; by hand: a "
                      "loop of a transaction that locks 1000 rows and one that marks them"};
  measured const remove{"sqlite.cold_drain.erase", "rows/s", at_least(0.85),
                        "as cold_drain, but a delivered row is deleted; by hand: a loop of a transaction that locks "
                        "1000 rows and one that deletes them"};
  return interleave(s, {erase ? remove : keep}, ours, by_hand);
}

rows sqlite_cold_drain_defaults(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(100'000);
  full_table const full{s, rows_of_ours(count)};
  auto const with = [&](tuning how) {
    return [&, how]() -> std::vector<double> { return {drain_of_ours(full.copy("ours.db"), count, ledger, how)}; };
  };
  return interleave(s,
                    {{"sqlite.cold_drain.defaults", "rows/s", at_least(0.9),
                      "as cold_drain, by a node with default options; beside it: our own with poll.batch 1000, "
                      "queue.cold 10,000, 4 workers"}},
                    with(as_it_comes), with(four_workers));
}

rows sqlite_cold_drain_lean(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(100'000);
  full_table const full{s, rows_of_ours(count)};
  full_table const lean{s, [&](std::string const& path) { lean_queue::create(path, count, payload); }};
  auto const ours = [&]() -> std::vector<double> {
    return {drain_of_ours(full.copy("ours.db"), count, ledger, four_workers)};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    return {drain_by_hand(lean_queue{lean.copy("lean.db")}, count)};
  };
  return interleave(
      s,
      {{"sqlite.cold_drain.lean", "rows/s", at_least(0.5),
        "as cold_drain, with queue.cold 10,000 and 4 workers; by hand: a queue on a table of its own with six "
        "columns (message_id TEXT PRIMARY KEY, data, status, in_time, lock_time, done_time) and an index by (status, "
        "message_id): UPDATE … RETURNING of 1000 rows by an IN-subquery, then 1000 marks in one transaction"}},
      ours, by_hand);
}

}  // namespace bench
