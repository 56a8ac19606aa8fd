// Whole nodes that keep the order of keys on one Redis: writers in every node, listeners that fail now and then.
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "outbox_fixture.hpp"

namespace outbox {
namespace {

/// First successful deliveries of each key.
class Ledger {
 public:
  // Every seventh first try fails.
  void deliver(delivery const& d) {
    std::lock_guard const lock{mutex_};
    if (++tries_[d.id] == 1 && std::hash<std::string>{}(d.id) % 7 == 0) throw std::runtime_error{"not now"};
    auto& all = of_[d.event.ordering_key()];
    if (std::ranges::find(all, d.id) != all.end()) return;
    all.push_back(d.id);
    ++delivered_;
  }
  [[nodiscard]] int delivered() const { return delivered_; }
  [[nodiscard]] std::vector<std::string> of(std::string const& key) {
    std::lock_guard const lock{mutex_};
    return of_[key];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> tries_;
  std::map<std::string, std::vector<std::string>> of_;
  std::atomic<int> delivered_ = 0;
};

class RedisKeyedNodes : public RedisOutbox, public ::testing::WithParamInterface<bool> {
 protected:
  static constexpr int keys = 12;
  static constexpr int rows = 60;
};

// The writers of each key take turns, so that one after the other writes it.
TEST_P(RedisKeyedNodes, I5_DeliverEveryKeyInTheOrderOfItsWrites) {
  Ledger ledger;
  auto const node_on = [&](std::shared_ptr<store> on) {
    keyed_options o{.store = std::move(on), .hot_path = GetParam(), .log = nullptr};
    o.poll.every = 50ms;
    o.poll.batch = 10;
    o.retry.delay = [](std::int32_t) { return 5ms; };
    o.listeners.on("t", [&](delivery const& d) { ledger.deliver(d); });
    return keyed(std::move(o));
  };
  auto one = node_on(open());
  auto two = node_on(open());
  auto three = node_on(open());
  for (auto* n : {&one, &two, &three}) n->start();
  std::mutex of_key[keys];
  std::map<int, std::vector<std::string>> written;
  for (int k = 0; k < keys; ++k) written[k];
  std::vector<std::thread> threads;
  for (auto* n : {&one, &two, &three}) {
    threads.emplace_back([&, n] {
      redis::connection own{server.url()};
      for (int i = 0; i < rows / 3; ++i) {
        for (int k = 0; k < keys; ++k) {
          std::lock_guard const lock{of_key[k]};
          auto const id = new_event_id();
          event_options const options{.id = id, .ordering_key = std::to_string(k)};
          if (i % 2 == 0) {
            n->writer().write(no_transaction, "t", "1", options);
          } else {
            redis::transaction tx{own};
            n->writer().write(tx, "t", "1", options);
            tx.commit();
          }
          written[k].push_back(id);
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_TRUE(eventually([&] { return ledger.delivered() == keys * rows; })) << ledger.delivered();
  for (int k = 0; k < keys; ++k) EXPECT_EQ(ledger.of(std::to_string(k)), written[k]);
  std::uint64_t hot = 0, cold = 0;
  for (auto* n : {&one, &two, &three}) {
    EXPECT_TRUE(n->stop());
    hot += n->counters().hot_enqueued;
    cold += n->counters().cold_enqueued;
  }
  if (GetParam()) {
    EXPECT_GE(hot, static_cast<std::uint64_t>(keys)) << "the first event of each key at least";
  } else {
    EXPECT_EQ(hot, 0U);
    EXPECT_GE(cold, static_cast<std::uint64_t>(keys * rows));
  }
  EXPECT_EQ(db.command("ZCARD", key("blocked")).number, 0);
  EXPECT_EQ(db.command("KEYS", "*" + name + "}:line:*").elements.size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(HotPath, RedisKeyedNodes, ::testing::Bool());

}  // namespace
}  // namespace outbox
