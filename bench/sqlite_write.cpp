// Writing: what the outbox adds to the caller's transaction.
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>

#include "sqlite_by_hand.hpp"
#include "sqlite_ours.hpp"
#include "suites.hpp"
#include "support/temporary_directory.hpp"

namespace bench {
namespace {

std::string id_of(std::uint64_t n) { return "0000000000000000-" + std::to_string(n); }

// Each side has a file of its own, filled alike.
struct files {
  explicit files(std::string const& in) : directory{in} {
    create_tables(ours);
    create_tables(by_hand);
  }
  outbox::temporary_directory directory;
  std::string ours = directory / "ours.db";
  std::string by_hand = directory / "by_hand.db";
};

row write_one(settings const& s, bool full) {
  files const f{s.directory};
  auto const node = outbox::writer_only({.store = outbox::sqlite::open(f.ours), .log = nullptr});
  writer_of_ours service{f.ours, node.writer(), full};
  writer_by_hand hand{f.by_hand, full};
  auto const count = s.amount(full ? 400 : 4000);
  std::uint64_t n = 0;
  auto const ours = [&]() -> std::vector<double> {
    auto const time = seconds([&] {
      for (int i = 0; i < count; ++i) service.write(id_of(++n));
    });
    return {count / time};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const time = seconds([&] {
      for (int i = 0; i < count; ++i) hand.write(id_of(++n), payload);
    });
    return {count / time};
  };
  measured const m{full ? "sqlite.write.1" : "sqlite.write.1.normal", "tx/s", at_least(full ? 0.85 : 0.75),
                   std::string{"one business INSERT and one event in a transaction, synchronous="} +
                       (full ? "FULL" : "NORMAL") +
                       "; by hand: the same two prepared INSERTs between BEGIN and COMMIT"};
  return interleave(s, {m}, ours, by_hand).front();
}

}  // namespace

rows sqlite_write(settings const& s) { return {write_one(s, true), write_one(s, false)}; }

rows sqlite_write_all(settings const& s) {
  files const f{s.directory};
  auto const node = outbox::writer_only({.store = outbox::sqlite::open(f.ours), .log = nullptr});
  auto const writer = node.writer();
  outbox::sqlite::connection db{f.ours};
  writer_by_hand hand{f.by_hand};
  auto const batches = s.amount(100);
  std::uint64_t n = 0;
  auto const ours = [&]() -> std::vector<double> {
    auto const time = seconds([&] {
      for (int b = 0; b < batches; ++b) {
        std::vector<outbox::event> events;
        events.reserve(100);
        for (int i = 0; i < 100; ++i)
          events.push_back(outbox::event::json("order.placed", payload, {.id = id_of(++n)}));
        outbox::sqlite::transaction tx{db};
        writer.write_all(tx, events);
        tx.commit();
      }
    });
    return {batches * 100 / time};
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const time = seconds([&] {
      for (int b = 0; b < batches; ++b) {
        std::vector<std::string> ids;
        ids.reserve(100);
        for (int i = 0; i < 100; ++i) ids.push_back(id_of(++n));
        hand.write_all(ids, payload);
      }
    });
    return {batches * 100 / time};
  };
  return interleave(s,
                    {{"sqlite.write_all.100", "events/s", at_least(0.85),
                      "100 events in a transaction, made and validated too; by hand: a loop over one prepared INSERT"}},
                    ours, by_hand);
}

}  // namespace bench
