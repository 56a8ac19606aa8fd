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

}  // namespace

rows sqlite_end_to_end(settings const& s, delivery_ledger& ledger) {
  auto const each = s.amount(250);
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
                    {{"sqlite.end_to_end", "events/s", at_least(0.85),
                      "4 writers, a listener that does nothing, until every event is DONE; by hand: the same writers, "
                      "and nothing delivers"}},
                    ours, by_hand);
}

}  // namespace bench
