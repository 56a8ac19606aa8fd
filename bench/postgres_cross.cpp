// Between two processes on PostgreSQL: one writes, the other delivers.
#include <poll.h>

#include "cross.hpp"
#include "idle.hpp"
#include "postgres_by_hand.hpp"
#include "postgres_ours.hpp"
#include "probes.hpp"
#include "suites.hpp"

namespace bench {
namespace {

std::vector<std::string> arguments_of(pg::place const& p, shared_slots const& slots) {
  return {p.connection, p.schema, slots.path(), std::to_string(slots.size())};
}

// A process that reads, and is ready.
class reader {
 public:
  reader(std::string const& name, pg::place const& p, shared_slots const& slots)
      : process_{name, arguments_of(p, slots)} {
    static_cast<void>(process_.hear());
  }
  [[nodiscard]] ::pid_t pid() const noexcept { return process_.pid(); }

 private:
  probe process_;
};

// Writes in this process, with hints to others.
class our_writer {
 public:
  explicit our_writer(pg::place const& p)
      : node_{outbox::writer_only({.store = pg::store_of(p, outbox::done_rows::keep, true), .log = nullptr})},
        db_{p.connection} {}
  void operator()(std::string const& id, std::function<void()> const& committed) {
    outbox::postgres::transaction tx{db_};
    node_.writer().write(tx, "order.placed", payload, {.id = id});
    tx.commit();
    committed();
  }

 private:
  outbox::node node_;
  outbox::postgres::connection db_;
};

std::vector<double> ours(int count) {
  auto const p = pg::new_place("ours");
  shared_slots const slots{cross_slots(count)};
  reader const other{"postgres.node", p, slots};
  our_writer writer{p};
  return p50_p99(cross_times(slots, count, std::ref(writer)));
}

std::vector<double> by_hand(int count) {
  auto const p = pg::new_place("by_hand");
  shared_slots const slots{cross_slots(count)};
  reader const other{"postgres.loop", p, slots};
  pg::writer_by_hand const hand{p};
  pg::client const second{p.connection};
  second.prepare("tell", "SELECT pg_notify('events', '')");
  return p50_p99(cross_times(slots, count, [&](std::string const& id, auto const& committed) {
    hand.db().run("BEGIN");
    hand.event(id, payload);
    hand.db().run("COMMIT");
    committed();
    second.execute("tell", {});
  }));
}

}  // namespace

void postgres_node_probe(std::vector<std::string> const& a) {
  shared_slots const slots{a.at(2), std::stoul(a.at(3))};
  outbox::multi_node_options o{.store = pg::store_of({a.at(0), a.at(1)}, outbox::done_rows::keep, true),
                               .log = nullptr};
  o.listeners.on("order.placed", [&](outbox::delivery const& d) { stamp(slots, d.id); });
  auto node = outbox::multi_node(std::move(o));
  node.start();
  static_cast<void>(tell_and_wait("ready"));
}

void postgres_loop_probe(std::vector<std::string> const& a) {
  pg::place const p{a.at(0), a.at(1)};
  shared_slots const slots{a.at(2), std::stoul(a.at(3))};
  pg::client const c{p.connection};
  c.prepare(
      "take",
      "UPDATE " + p.table() + " SET status = 1, done_at = now() WHERE event_id IN (SELECT event_id FROM " + p.table() +
          " WHERE status IN (0, 2) AND blocked IS NOT TRUE AND greatest(available_at, lease_until) <= now() ORDER "
          "BY greatest(available_at, lease_until), seq LIMIT 100 FOR UPDATE SKIP LOCKED) RETURNING event_id, "
          "event_type, aggregate_type, aggregate_id, payload, headers, attempts");
  c.run("LISTEN events");
  std::puts("ready");
  std::fflush(stdout);
  while (true) {
    ::pollfd waiting[] = {{PQsocket(c.handle()), POLLIN, 0}, {0, POLLIN, 0}};
    ::poll(waiting, 2, -1);
    if (waiting[1].revents != 0) return;  // the starter wants it to end
    PQconsumeInput(c.handle());
    bool told = false;
    while (auto* const n = PQnotifies(c.handle())) {
      told = true;
      PQfreemem(n);
    }
    if (!told) continue;
    auto const taken = c.execute("take", {});
    for (int i = 0; i < PQntuples(taken.get()); ++i) stamp(slots, PQgetvalue(taken.get(), i, 0));
  }
}

rows postgres_cross_latency(settings const& s) {
  auto const count = s.amount(300);
  std::string const what =
      "commit() returned in a writer_only until the listener is entered in a multi_node of another process, both with "
      "notify and else default options, 200 a second; by hand: the same INSERT and COMMIT, then pg_notify on a second "
      "connection; the other process waits in poll() on a connection that listens, and one UPDATE … RETURNING to DONE "
      "of at most 100 rows (FOR UPDATE SKIP LOCKED) takes them, without a lease";
  return interleave(
      s,
      {{"postgres.cross_latency.p50", "ms", at_most(1.7), what},
       {"postgres.cross_latency.p99", "ms", at_most(2.5), what}},
      [&] { return ours(count); }, [&] { return by_hand(count); });
}

rows postgres_idle(settings const& s) {
  auto const p = pg::new_place("ours");
  shared_slots const slots{cross_slots(0)};
  reader const other{"postgres.node", p, slots};
  our_writer writer{p};
  return idle_rows(s, "postgres", 2, "an idle multi_node, with notify and else default options", other.pid(), slots,
                   std::ref(writer));
}

}  // namespace bench
