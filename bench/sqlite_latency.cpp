// How soon: from the commit to the listener, and from a retry's due instant to its call.
#include <condition_variable>
#include <mutex>
#include <outbox/outbox.hpp>
#include <outbox/sqlite.hpp>
#include <thread>
#include <unordered_map>

#include "pace.hpp"
#include "sqlite_by_hand.hpp"
#include "suites.hpp"
#include "support/temporary_directory.hpp"

namespace bench {

using namespace std::chrono_literals;

rows sqlite_hot_latency(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(300);
  auto const ours = [&]() -> std::vector<double> {
    outbox::temporary_directory const dir{s.directory};
    auto const path = dir / "ours.db";
    create_tables(path);
    outbox::single_node_options o{.store = outbox::sqlite::open(path), .log = nullptr};
    arrival listener;
    o.listeners.on("order.placed", [&](outbox::delivery const& d) {
      listener.arrived();
      ledger.saw(d.id);
    });
    auto node = outbox::single_node(std::move(o));
    node.start();
    while (!node.health().active) std::this_thread::yield();
    ledger.forget();
    outbox::sqlite::connection db{path};
    std::vector<double> samples;
    paced(count, [&](int i) {
      outbox::sqlite::transaction tx{db};
      node.writer().write(tx, "order.placed", payload);
      tx.commit();
      auto const committed = steady::now();
      samples.push_back(std::max(0.0, microseconds(listener.wait_for(i + 1) - committed)));
    });
    return p50_p99(samples);
  };
  auto const by_hand = [&]() -> std::vector<double> {
    outbox::temporary_directory const dir{s.directory};
    auto const path = dir / "by_hand.db";
    create_tables(path);
    writer_by_hand hand{path};
    bare_hand_off thread;
    std::vector<double> samples;
    paced(count, [&](int i) {
      hand.db().run("BEGIN IMMEDIATE");
      hand.insert_event("0000000000000000-" + std::to_string(i), payload);
      hand.db().run("COMMIT");
      auto const committed = steady::now();
      thread.give();
      samples.push_back(microseconds(thread.wait() - committed));
    });
    return p50_p99(samples);
  };
  std::string const what =
      "commit() returned until the listener is entered, 200 a second; by hand: the same commit, then a mutex and a "
      "condition variable to a waiting thread";
  return interleave(
      s, {{"sqlite.hot_latency.p50", "us", at_most(2), what}, {"sqlite.hot_latency.p99", "us", at_most(5), what}}, ours,
      by_hand);
}

rows sqlite_retry_lateness(settings const& s) {
  auto const count = s.amount(200);
  std::vector<double> figures;
  for (int round = 0; round < s.rounds; ++round) {
    outbox::temporary_directory const dir{s.directory};
    auto const path = dir / "ours.db";
    create_tables(path);
    outbox::single_node_options o{.store = outbox::sqlite::open(path), .log = nullptr};
    o.poll.every = 5s;
    auto const store = o.store;
    std::mutex mutex;
    std::condition_variable all;
    std::size_t tried = 0;
    std::unordered_map<std::string, std::chrono::system_clock::time_point> again;
    o.listeners.on("order.placed", [&](outbox::delivery const& d) -> outbox::result {
      auto const now = std::chrono::system_clock::now();
      std::lock_guard const lock{mutex};
      if (d.attempt > 1) {
        again[d.id] = now;
        if (again.size() == static_cast<std::size_t>(count)) all.notify_one();
        return outbox::done;
      }
      return outbox::failed{"on purpose", std::chrono::milliseconds{100 + ++tried * 7 % 900}};
    });
    auto node = outbox::single_node(std::move(o));
    node.start();
    while (!node.health().active) std::this_thread::yield();
    outbox::sqlite::connection db{path};
    for (int i = 0; i < count; ++i) {
      outbox::sqlite::transaction tx{db};
      node.writer().write(tx, "order.placed", payload);
      tx.commit();
    }
    {
      std::unique_lock lock{mutex};
      all.wait(lock, [&] { return again.size() == static_cast<std::size_t>(count); });
    }
    node.stop();
    std::vector<double> late;
    for (auto const& [id, at] : again) {
      late.push_back(std::chrono::duration<double, std::milli>{at - store->inspect().find(id)->available_at}.count());
    }
    figures.push_back(percentile(late, 0.99));
  }
  return {alone({"sqlite.retry_lateness.p99", "ms", at_most(50),
                 "a retry's call after the due instant in its row; the poll interval is 5 s"},
                figures)};
}

}  // namespace bench
