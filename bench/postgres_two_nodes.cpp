// Two nodes that drain one table, each in a process of its own, beside one.
#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "drain.hpp"
#include "postgres_by_hand.hpp"
#include "postgres_ours.hpp"
#include "probes.hpp"
#include "processor_time.hpp"
#include "shared_slots.hpp"
#include "suites.hpp"

namespace bench {

using namespace std::chrono_literals;

namespace {

// Slots: deliveries, duplicates, then deliveries of each row.
constexpr std::size_t seen = 0, twice = 1, first_row = 2;

// Looks every few milliseconds who waits for another transaction to end.
class wait_sampler {
 public:
  explicit wait_sampler(std::string const& connection) : c_{connection} {
    c_.prepare("waits",
               "SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE wait_event_type = 'Lock' AND wait_event = "
               "'transactionid'");
  }
  [[nodiscard]] ::pid_t backend() const { return PQbackendPID(c_.handle()); }
  // Samples until `work` is done. Returns the number of waits that were seen.
  template <class Work>
  double during(Work&& work) {
    double waits = 0;
    {
      std::jthread const sampling{[&](std::stop_token const& stop) {
        while (!stop.stop_requested()) {
          waits += std::stod(PQgetvalue(c_.execute("waits", {}).get(), 0, 0));
          std::this_thread::sleep_for(2ms);
        }
      }};
      work();
    }
    return waits;
  }

 private:
  pg::client c_;
};

struct outcome {
  double rate, cpu_us, waits;
};

outcome drain(int nodes, int count, delivery_ledger& ledger) {
  auto const p = pg::new_place("drained");
  pg::fill(p, count, payload);
  shared_slots const slots{first_row + static_cast<std::size_t>(count) + 1};
  std::vector<std::unique_ptr<probe>> running;
  for (int i = 0; i < nodes; ++i) {
    running.push_back(std::make_unique<probe>(
        "drain", std::vector{p.connection, p.schema, slots.path(), std::to_string(slots.size())}));
  }
  for (auto const& r : running) static_cast<void>(r->hear());
  pg::client const c{p.connection};
  wait_sampler sampler{p.connection};
  auto const cpu = [&] {
    auto sum = server_seconds(pg::server().pid(), sampler.backend());
    for (auto const& r : running) sum += processor_seconds(r->pid());
    return sum;
  };
  auto const before = cpu();
  double time = 0;
  auto const waits = sampler.during([&] {
    time = seconds([&] {
      for (auto const& r : running) r->say("go");
      while (slots[seen] < count) std::this_thread::sleep_for(1ms);
      pg::wait_until_done(c, p);
    });
  });
  auto const took = cpu() - before;
  ledger.add_duplicates(static_cast<std::uint64_t>(slots[twice].load()));
  return {count / time, took / count * 1e6, waits};
}

}  // namespace

void drain_probe(std::vector<std::string> const& arguments) {
  pg::place const p{arguments.at(0), arguments.at(1)};
  shared_slots const slots{arguments.at(2), std::stoul(arguments.at(3))};
  outbox::multi_node_options o{.store = pg::store_of(p), .log = nullptr};
  four_workers(o);
  o.listeners.on("order.placed", [&](outbox::delivery const& d) {
    if (slots[first_row + number_of(d.id)]++ > 0) ++slots[twice];
    ++slots[seen];
  });
  auto node = outbox::multi_node(std::move(o));
  if (!tell_and_wait("ready")) return;
  node.start();
  static_cast<void>(tell_and_wait("started"));
}

rows postgres_two_nodes(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(100'000);
  std::vector<double> waits;
  auto const with = [&](int nodes) {
    return [&, nodes]() -> std::vector<double> {
      auto const o = drain(nodes, count, ledger);
      if (nodes > 1) waits.push_back(o.waits);
      return {o.rate, o.cpu_us};
    };
  };
  std::string const what =
      " of two nodes, each in a process of its own, that drain one table of 100,000 rows with poll.batch 1000, "
      "queue.cold 10,000, 4 workers; beside it: one such node in a process of its own";
  auto all = interleave(s,
                        {{"postgres.cold_drain.two_nodes", "rows/s", at_least(0.95), "the rate" + what},
                         {"postgres.cold_drain.two_nodes.cpu", "us/row", at_most(1.15),
                          "processor time of the nodes and the server" + what}},
                        with(2), with(1));
  waits.erase(waits.begin());  // of the round that does not count
  all.push_back(alone({"postgres.cold_drain.two_nodes.waits", "samples", at_most(0),
                       "samples of pg_stat_activity every 2 ms while two nodes drain, in which a session waits on "
                       "Lock:transactionid"},
                      waits));
  return all;
}

}  // namespace bench
