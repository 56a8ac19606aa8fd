// Delivering: from commit to DONE.
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

std::vector<double> ours(settings const& s, delivery_ledger& ledger, int each, bool full) {
  using outbox::sqlite::synchronous;
  outbox::temporary_directory const dir{s.directory};
  auto const path = dir / "ours.db";
  create_tables(path);
  outbox::single_node_options o{
      .store = outbox::sqlite::open(path, {.synchronous = full ? synchronous::full : synchronous::normal}),
      .log = nullptr};
  o.listeners.on("order.placed", [&](outbox::delivery const& d) { ledger.saw(d.id); });
  auto node = outbox::single_node(std::move(o));
  node.start();
  while (!node.health().active) std::this_thread::yield();
  ledger.forget();
  auto const time = seconds([&] {
    on_threads(writers, [&](int t) {
      writer_of_ours service{path, node.writer(), full};
      for (int i = 0; i < each; ++i) service.write(id_of(t, i));
    });
    wait_until_done(path, writers * each);
  });
  return {writers * each / time};
}

std::vector<double> by_hand(settings const& s, int each, bool full) {
  outbox::temporary_directory const dir{s.directory};
  auto const path = dir / "by_hand.db";
  create_tables(path);
  auto const time = seconds([&] {
    on_threads(writers, [&](int t) {
      writer_by_hand hand{path, full};
      for (int i = 0; i < each; ++i) hand.write(id_of(t, i), payload);
    });
  });
  return {writers * each / time};
}

}  // namespace

rows sqlite_end_to_end(settings const& s, delivery_ledger& ledger, bool full) {
  auto const each = s.amount(full ? 400 : 2000);
  std::string const what =
      "4 writers of a business row and an event each, a listener that does nothing, until every event is DONE; by "
      "hand: "
      "the same writers, and nothing delivers";
  measured const m = full ? measured{"sqlite.end_to_end", "events/s", at_least(0.85), what + "; synchronous=FULL"}
                          : measured{"sqlite.end_to_end.normal", "events/s", at_least(0.7),
                                     what + "; synchronous=NORMAL for the writers and for the store"};
  return interleave(
      s, {m}, [&] { return ours(s, ledger, each, full); }, [&] { return by_hand(s, each, full); });
}

}  // namespace bench
