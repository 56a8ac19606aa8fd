// Delivering on Redis: from write() to the end of the row, and from write() to the listener.
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "drain.hpp"
#include "pace.hpp"
#include "redis_by_hand.hpp"
#include "redis_ours.hpp"
#include "suites.hpp"

namespace bench {
namespace {

using namespace std::chrono_literals;

// A thread that gets events from their writers, is their listener, and settles those of a few milliseconds together.
class settler_by_hand {
 public:
  explicit settler_by_hand(re::place const& p)
      : drainer_{p}, thread_{[this](std::stop_token const& stop) { work(stop); }} {}
  void give(std::string id, std::string number) {
    std::lock_guard const lock{mutex_};
    waiting_.push_back({std::move(id), std::move(number)});
    if (waiting_.size() == 1) changed_.notify_one();
  }

 private:
  void work(std::stop_token const& stop) {
    while (true) {
      std::vector<re::taken> some;
      {
        std::unique_lock lock{mutex_};
        changed_.wait(lock, stop, [&] { return !waiting_.empty(); });
        if (waiting_.empty()) return;
      }
      std::this_thread::sleep_for(5ms);
      {
        std::lock_guard const lock{mutex_};
        some.swap(waiting_);
      }
      drainer_.settle(some);
    }
  }

  re::drainer_by_hand drainer_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<re::taken> waiting_;
  std::jthread thread_;
};

double end_to_end_of_ours(re::fsync when, int each, delivery_ledger& ledger) {
  auto const p = re::new_place(when, 0);
  re::client const c{p};
  ledger.forget();
  auto node = re::node_on(re::store_of(p), ledger);
  node.start();
  auto const time = seconds([&] {
    on_threads(re::writers, [&](int t) {
      auto const writer = node.writer();
      for (int i = 0; i < each; ++i) {
        writer.write(outbox::no_transaction, "order.placed", payload, {.id = re::id_of(t, i)});
      }
    });
    re::wait_until_done(c);
  });
  return re::writers * each / time;
}

double end_to_end_by_hand(re::fsync when, int each) {
  auto const p = re::new_place(when, 1);
  re::client const c{p};
  settler_by_hand settler{p};
  auto const time = seconds([&] {
    on_threads(re::writers, [&](int t) {
      re::writer_by_hand hand{p};
      for (int i = 0; i < each; ++i) {
        auto id = re::id_of(t, i);
        auto number = hand.write(id, payload, re::drainer_by_hand::token);
        settler.give(std::move(id), std::move(number));
      }
    });
    re::wait_until_done(c);
  });
  return re::writers * each / time;
}

// From the start of the node until all are gone. Rows a second.
double drain_of_ours(re::fsync when, int count, delivery_ledger& ledger) {
  auto const p = re::new_place(when, 0);
  re::fill(p, {.count = count}, payload);
  outbox::multi_node_options o{.store = re::store_of(p), .log = nullptr};
  one_worker(o);
  counting_listener all{o, ledger, count};
  auto node = outbox::multi_node(std::move(o));
  re::client const c{p};
  return count / seconds([&] {
           node.start();
           all.wait();
           re::wait_until_done(c);
         });
}

double drain_by_hand(re::fsync when, int count) {
  auto const p = re::new_place(when, 1);
  re::fill(p, {.count = count}, payload);
  re::drainer_by_hand hand{p};
  return count / seconds([&] {
           while (hand.drain_some(1000) > 0) {
           }
         });
}

}  // namespace

rows redis_end_to_end(settings const& s, delivery_ledger& ledger, re::fsync when) {
  auto const each = s.amount(when == re::fsync::always ? 500 : 2500);
  return interleave(
      s,
      {{"redis.end_to_end" + re::suffix(when), "events/s", re::bar_of(when, at_least(0.8)),
        "4 writers as in write.1, a listener that does nothing, until every event is gone, default options; by hand: 4 "
        "connections that write the same events with an owner and hand them to a thread, which settles those of 5 ms "
        "by one script"}},
      [&]() -> std::vector<double> { return {end_to_end_of_ours(when, each, ledger)}; },
      [&]() -> std::vector<double> { return {end_to_end_by_hand(when, each)}; });
}

rows redis_cold_drain(settings const& s, delivery_ledger& ledger, re::fsync when) {
  auto const count = s.amount(50'000);
  return interleave(
      s,
      {{"redis.cold_drain" + re::suffix(when), "rows/s", re::bar_of(when, at_least(0.7)),
        "50,000 rows without an owner, from the claim until they are gone, claims of 1000, one worker; by hand: a loop "
        "of the script that claims 1000 rows and the script that settles them, which deletes them"}},
      [&]() -> std::vector<double> { return {drain_of_ours(when, count, ledger)}; },
      [&]() -> std::vector<double> { return {drain_by_hand(when, count)}; });
}

rows redis_hot_latency(settings const& s, delivery_ledger& ledger) {
  auto const count = s.amount(300);
  auto const ours = [&]() -> std::vector<double> {
    auto const p = re::new_place(re::fsync::everysec, 0);
    arrival listener;
    auto node = re::node_on(re::store_of(p), ledger, [&] { listener.arrived(); });
    node.start();
    ledger.forget();
    std::vector<double> samples;
    paced(count, [&](int i) {
      node.writer().write(outbox::no_transaction, "order.placed", payload);
      auto const written = steady::now();
      samples.push_back(std::max(0.0, microseconds(listener.wait_for(i + 1) - written)));
    });
    return p50_p99(samples);
  };
  auto const by_hand = [&]() -> std::vector<double> {
    auto const p = re::new_place(re::fsync::everysec, 1);
    re::writer_by_hand hand{p};
    bare_hand_off thread;
    std::vector<double> samples;
    paced(count, [&](int i) {
      hand.write(re::id_of(0, i), payload, re::drainer_by_hand::token);
      auto const written = steady::now();
      thread.give();
      samples.push_back(microseconds(thread.wait() - written));
    });
    return p50_p99(samples);
  };
  std::string const what =
      "write() returned until the listener is entered, 200 a second; by hand: the same script, then a mutex and a "
      "condition variable to a waiting thread";
  return interleave(
      s, {{"redis.hot_latency.p50", "us", at_most(2), what}, {"redis.hot_latency.p99", "us", at_most(5), what}}, ours,
      by_hand);
}

}  // namespace bench
