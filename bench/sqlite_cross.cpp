// Between two processes on SQLite: one writes, the other delivers.
#include <poll.h>

#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>

#include "cross.hpp"
#include "idle.hpp"
#include "probes.hpp"
#include "sqlite_by_hand.hpp"
#include "suites.hpp"
#include "support/temporary_directory.hpp"

namespace bench {
namespace {

std::vector<double> measure(settings const& s, char const* reader, int count,
                            std::function<write_event(std::string const& path)> const& writer_on) {
  outbox::temporary_directory const dir{s.directory};
  auto const path = dir / "cross.db";
  create_tables(path);
  shared_slots const slots{cross_slots(count)};
  probe const other{reader, {path, slots.path(), std::to_string(slots.size())}};
  static_cast<void>(other.hear());
  return p50_p99(cross_times(slots, count, writer_on(path)));
}

write_event our_writer(std::string const& path) {
  auto node =
      std::make_shared<outbox::node>(outbox::writer_only({.store = outbox::sqlite::open(path), .log = nullptr}));
  auto db = std::make_shared<outbox::sqlite::connection>(path);
  return [node, db](std::string const& id, auto const& committed) {
    outbox::sqlite::transaction tx{*db};
    node->writer().write(tx, "order.placed", payload, {.id = id});
    tx.commit();
    committed();
  };
}

write_event writer_without_us(std::string const& path) {
  auto hand = std::make_shared<writer_by_hand>(path);
  return [hand](std::string const& id, auto const& committed) {
    hand->db().run("BEGIN IMMEDIATE");
    hand->insert_event(id, payload);
    hand->db().run("COMMIT");
    committed();
  };
}

}  // namespace

void sqlite_node_probe(std::vector<std::string> const& a) {
  shared_slots const slots{a.at(1), std::stoul(a.at(2))};
  outbox::multi_node_options o{.store = outbox::sqlite::open(a.at(0)), .log = nullptr};
  o.listeners.on("order.placed", [&](outbox::delivery const& d) { stamp(slots, d.id); });
  auto node = outbox::multi_node(std::move(o));
  node.start();
  static_cast<void>(tell_and_wait("ready"));
}

void sqlite_loop_probe(std::vector<std::string> const& a) {
  database const db{a.at(0)};
  shared_slots const slots{a.at(1), std::stoul(a.at(2))};
  auto const version = db.prepare("PRAGMA data_version");
  auto const take = db.prepare(
      "UPDATE outbox_event SET status = 1, done_at = ?1 WHERE seq IN (SELECT seq FROM outbox_event WHERE status IN (0, "
      "2) "
      "AND blocked IS NOT TRUE AND max(available_at, coalesce(lease_until, '')) <= ?1 LIMIT 100) "
      "RETURNING event_id, event_type, payload");
  std::puts("ready");
  std::fflush(stdout);
  std::int64_t last = 0;
  while (true) {
    ::pollfd waiting{0, POLLIN, 0};
    ::poll(&waiting, 1, 1);
    if (waiting.revents != 0) return;  // the starter wants it to end
    sqlite3_step(version.get());
    auto const current = sqlite3_column_int64(version.get(), 0);
    sqlite3_reset(version.get());
    if (std::exchange(last, current) == current) continue;
    auto const now = now_text();
    put(take, 1, now);
    std::vector<std::string> ids;
    while (sqlite3_step(take.get()) == SQLITE_ROW) {
      ids.emplace_back(reinterpret_cast<char const*>(sqlite3_column_text(take.get(), 0)));
    }
    sqlite3_reset(take.get());
    for (auto const& id : ids) stamp(slots, id);
  }
}

rows sqlite_cross_latency(settings const& s) {
  auto const count = s.amount(300);
  std::string const what =
      "commit() returned in a writer_only until the listener is entered in a multi_node of another process, default "
      "options, 200 a second; by hand: the same INSERT and COMMIT; the other process asks PRAGMA data_version every "
      "millisecond, and one UPDATE … RETURNING to DONE of at most 100 rows takes them, without a lease";
  return interleave(
      s, {{"sqlite.cross_latency.p50", "ms", no_bar, what}, {"sqlite.cross_latency.p99", "ms", no_bar, what}},
      [&] { return measure(s, "sqlite.node", count, our_writer); },
      [&] { return measure(s, "sqlite.loop", count, writer_without_us); });
}

rows sqlite_idle(settings const& s) {
  outbox::temporary_directory const dir{s.directory};
  auto const path = dir / "idle.db";
  create_tables(path);
  shared_slots const slots{cross_slots(0)};
  probe const other{"sqlite.node", {path, slots.path(), std::to_string(slots.size())}};
  static_cast<void>(other.hear());
  return idle_rows(s, "sqlite", 10, "an idle multi_node, default options", other.pid(), slots, our_writer(path));
}

}  // namespace bench
