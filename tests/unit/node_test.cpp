// Whole nodes with their threads. Nothing here sleeps to wait: everything waits for what it waits for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>
#include <mutex>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/testing.hpp>
#include <set>
#include <thread>

#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace spi;

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Node : public ::testing::Test {
 protected:
  single_node_options options() {
    single_node_options o{.store = store_};
    o.listeners.on("t", [this](delivery const& d) { tally_.add(d.id); });
    o.log = nullptr;
    return o;
  }
  void commit(node& n, std::string const& id, std::string const& type = "t") {
    memory::transaction tx{*store_};
    n.writer().write(tx, type, "1", {.id = id});
    tx.commit();
  }
  void put(std::string const& id) {
    auto const e = event::json("t", "1", {.id = id});
    memory::transaction tx{*store_};
    insertion const i{&e};
    store_->backend().insert(join(tx), std::span{&i, 1});
    tx.commit();
  }

  std::shared_ptr<outbox::store> store_ = memory::open();
  tally tally_;
};

TEST_F(Node, DeliversWhatIsCommitted) {
  auto n = single_node(options());
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  commit(n, "a");
  ASSERT_TRUE(tally_.reach(1));
  ASSERT_TRUE(n.stop());
  EXPECT_EQ(store_->inspect().counts().done, 1U);
  EXPECT_EQ(n.counters().hot_enqueued, 1U);
}

TEST_F(Node, DeliversWhatOthersWrote) {
  put("before");
  auto n = single_node(options());
  n.start();
  ASSERT_TRUE(tally_.reach(1));
  put("while");
  n.wake();
  ASSERT_TRUE(tally_.reach(2));
}

TEST_F(Node, AConstructorStartsNothing) {
  put("a");
  auto n = single_node(options());
  EXPECT_FALSE(n.health().running);
  EXPECT_EQ(tally_.total(), 0U);
  EXPECT_TRUE(n.stop()) << "nothing to stop";
}

TEST_F(Node, StartsOnce) {
  auto n = single_node(options());
  n.start();
  EXPECT_THROW(n.start(), error);
  n.stop();
  try {
    n.start();
    FAIL() << "started again";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::lifecycle);
  }
}

// For the thread sanitizer more than for the assertions.
TEST_F(Node, StartAndStopMayRace) {
  for (int round = 0; round < 30; ++round) {
    auto n = single_node(options());
    std::atomic<int> started = 0;
    {
      std::latch all{5};
      auto const race = [&](auto f) {
        return std::jthread{[&all, f] {
          all.arrive_and_wait();
          try {
            f();
          } catch (error const& e) {
            EXPECT_EQ(e.code(), errc::lifecycle);
          }
        }};
      };
      auto const start = [&] {
        n.start();
        ++started;
      };
      auto const first = race(start);
      auto const second = race(start);
      auto const stopper = race([&] { n.stop(round % 2 == 0 ? 0ms : 1s); });
      auto const poller = race([&] { n.poll_once(); });
      auto const looker = race([&] {
        static_cast<void>(n.health());
        static_cast<void>(n.counters());
        n.wake();
      });
    }
    EXPECT_LE(started, 1);
    EXPECT_TRUE(n.stop(60s));
    EXPECT_FALSE(n.health().running);
    EXPECT_THROW(n.start(), error) << "however it came out, it is over";
    EXPECT_TRUE(store_->inspect().nodes().empty());
  }
}

TEST_F(Node, StopDrainsWhatIsQueued) {
  std::latch gate{1};
  single_node_options o{.store = store_, .workers = 1, .log = nullptr};
  o.listeners.on("t", [&](delivery const& d) {
    gate.wait();
    tally_.add(d.id);
  });
  auto n = single_node(std::move(o));
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  for (int i = 0; i < 20; ++i) commit(n, "e" + std::to_string(i));
  std::jthread const opener{[&] { gate.count_down(); }};
  EXPECT_TRUE(n.stop(20s));
  EXPECT_EQ(tally_.total(), 20U);
  EXPECT_EQ(store_->inspect().counts().done, 20U);
}

TEST_F(Node, AStopDeadlineReleasesWhatHasNotBegun) {
  std::latch started{1};
  std::latch gate{1};
  single_node_options o{.store = store_, .workers = 1, .log = nullptr};
  std::stop_token seen;
  o.listeners.on("t", [&](delivery const& d) {
    seen = d.stop;
    started.count_down();
    gate.wait();
  });
  {
    auto n = single_node(std::move(o));
    n.start();
    ASSERT_TRUE(eventually([&] { return n.health().active; }));
    commit(n, "running");
    started.wait();
    commit(n, "queued");
    EXPECT_FALSE(n.stop(1ms)) << "a listener still runs";
    EXPECT_TRUE(seen.stop_requested());
    EXPECT_TRUE(eventually([&] { return store_->inspect().find("queued")->locked_by.empty(); }));
    EXPECT_NE(store_->inspect().find("running")->locked_by, "") << "still held";
    gate.count_down();
  }  // the destructor waits for the listener and settles it
  EXPECT_EQ(store_->inspect().find("running")->status, event_status::delivered);
  EXPECT_EQ(store_->inspect().find("queued")->status, event_status::created);
}

TEST_F(Node, AStopCallbackMayUseTheNode) {
  std::atomic<node*> self = nullptr;
  std::latch started{1};
  std::atomic<bool> called = false;
  single_node_options o{.store = store_, .workers = 1, .log = nullptr};
  o.listeners.on("t", [&](delivery const& d) {
    std::stop_callback const callback{d.stop, [&] {
                                        static_cast<void>(self.load()->counters());
                                        called = true;
                                      }};
    started.count_down();
    while (!called) std::this_thread::yield();
  });
  auto n = single_node(std::move(o));
  self = &n;
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  commit(n, "a");
  started.wait();
  n.stop(1ms);
  EXPECT_TRUE(eventually([&] { return called.load(); }));
}

TEST_F(Node, AnEndlessDrainWaits) {
  std::latch gate{1};
  single_node_options o{.store = store_, .workers = 1, .log = nullptr};
  o.listeners.on("t", [&](delivery const& d) {
    gate.wait();
    tally_.add(d.id);
  });
  auto n = single_node(std::move(o));
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  commit(n, "a");
  commit(n, "b");
  std::jthread const opener{[&] { gate.count_down(); }};
  EXPECT_TRUE(n.stop(std::chrono::milliseconds::max()));
  EXPECT_EQ(tally_.total(), 2U);
}

TEST_F(Node, I9_NothingIsLoggedOnAWritersThread) {
  std::mutex mutex;
  std::set<std::thread::id> loggers;
  std::latch gate{1};
  single_node_options o{.store = store_, .workers = 1, .queue = {.hot = 1}};
  o.log = [&](log_line const&) {
    std::lock_guard const lock{mutex};
    loggers.insert(std::this_thread::get_id());
  };
  o.listeners.on("t", [&](delivery const&) { gate.wait(); });
  auto n = single_node(std::move(o));
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  std::thread::id writer;
  std::thread{[&] {
    writer = std::this_thread::get_id();
    for (int i = 0; i < 5; ++i) commit(n, "e" + std::to_string(i));
  }}.join();
  EXPECT_EQ(n.counters().hot_dropped, 4U);
  gate.count_down();
  ASSERT_TRUE(eventually([&] { return store_->inspect().counts().done == 5; }));
  n.stop();
  EXPECT_FALSE(loggers.empty());
  EXPECT_FALSE(loggers.contains(writer));
}

TEST_F(Node, StopFromAListenerReturnsAtOnce) {
  std::atomic<node*> self = nullptr;
  std::atomic<int> answer = -1;
  single_node_options o{.store = store_, .log = nullptr};
  o.listeners.on("t", [&](delivery const& d) {
    answer = self.load()->stop() ? 1 : 0;
    tally_.add(d.id);
  });
  auto n = single_node(std::move(o));
  self = &n;
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  commit(n, "a");
  ASSERT_TRUE(tally_.reach(1));
  EXPECT_EQ(answer, 0);
  EXPECT_TRUE(n.stop());
  EXPECT_EQ(store_->inspect().find("a")->status, event_status::delivered);
}

TEST_F(Node, RunReturnsWhenTheTokenIsStopped) {
  auto n = single_node(options());
  std::stop_source source;
  std::thread runner{[&] { n.run(source.get_token()); }};
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  commit(n, "a");
  ASSERT_TRUE(tally_.reach(1));
  source.request_stop();
  runner.join();
  EXPECT_FALSE(n.health().running);
}

TEST_F(Node, WritersOutliveIt) {
  std::optional<writer> w;
  memory::transaction open_tx{*store_};
  {
    auto o = options();
    o.stop_timeout = 1ms;  // it would wait for the transaction
    auto n = single_node(std::move(o));
    n.start();
    w = n.writer();
    w->write(open_tx, "t", "1", {.id = "during"});
  }
  open_tx.commit();
  memory::transaction tx{*store_};
  EXPECT_TRUE(w->write(tx, "t", "1", {.id = "after"}));
  tx.commit();
  EXPECT_EQ(store_->inspect().find("after")->locked_by, "") << "left to a poller";
  EXPECT_TRUE(store_->inspect().find("during"));
}

TEST_F(Node, CanBeMoved) {
  auto a = single_node(options());
  a.start();
  auto b = std::move(a);
  ASSERT_TRUE(eventually([&] { return b.health().active; }));
  commit(b, "x");
  ASSERT_TRUE(tally_.reach(1));
}

TEST_F(Node, PollOnceBringsRows) {
  multi_node_options o{.store = store_, .poll = {.every = 1h}, .log = nullptr};
  o.listeners.on("t", [this](delivery const& d) { tally_.add(d.id); });
  auto n = multi_node(std::move(o));
  EXPECT_THROW(n.poll_once(), error) << "not started";
  n.start();
  for (int i = 0; i < 3; ++i) {  // the first may be brought by the node's own first look
    put("e" + std::to_string(i));
    n.poll_once();
    ASSERT_TRUE(tally_.reach(static_cast<std::size_t>(i) + 1));
  }
}

TEST_F(Node, ANodeOfAnotherModeIsRefused) {
  auto many = multi_node({.store = store_, .name = "many", .log = nullptr});
  many.start();
  auto one = single_node(options());
  try {
    one.start();
    FAIL() << "started";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::mode_conflict);
    EXPECT_THAT(e.what(), HasSubstr("'many'"));
    EXPECT_THAT(e.what(), HasSubstr("multi_node"));
  }
  many.stop();
  EXPECT_NO_THROW(one.start()) << "a refused start may be tried again";
}

TEST_F(Node, ASecondSingleNodeTakesOver) {
  auto first = single_node(options());
  first.start();
  ASSERT_TRUE(eventually([&] { return first.health().active; }));
  auto o = options();
  o.poll.every = 10ms;
  auto second = single_node(std::move(o));
  second.start();
  EXPECT_FALSE(second.health().active);
  first.stop();
  EXPECT_TRUE(eventually([&] { return second.health().active; }));
  commit(second, "a");
  ASSERT_TRUE(tally_.reach(1));
}

TEST_F(Node, ALogThatThrowsIsIgnored) {
  auto o = options();
  o.log = [](log_line const&) { throw std::runtime_error{"log is full"}; };
  auto n = single_node(std::move(o));
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  commit(n, "a", "nobody.listens");
  EXPECT_TRUE(eventually([&] { return store_->inspect().counts().dead == 1; }));
}

TEST_F(Node, MetricsCountEveryStep) {
  struct recorder final : metrics {
    void add(counter c, std::uint64_t by) noexcept override {
      std::lock_guard const lock{mutex};
      counts[c] += by;
    }
    void set(gauge g, std::int64_t v) noexcept override {
      std::lock_guard const lock{mutex};
      gauges[g] = v;
    }
    std::mutex mutex;
    std::map<counter, std::uint64_t> counts;
    std::map<gauge, std::int64_t> gauges;
  };
  auto const m = std::make_shared<recorder>();
  put("cold");
  auto o = options();
  o.metrics = m;
  auto n = single_node(std::move(o));
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  commit(n, "hot");
  ASSERT_TRUE(tally_.reach(2));
  n.stop();
  EXPECT_EQ(m->counts[counter::hot_enqueued], 1U);
  EXPECT_EQ(m->counts[counter::cold_enqueued], 1U);
  EXPECT_EQ(m->counts[counter::delivered], 2U);
  EXPECT_EQ(m->gauges[gauge::held], 0);
  EXPECT_EQ(name(counter::hot_enqueued), "enqueue.hot");
  EXPECT_EQ(name(gauge::hot_queue_depth), "queue.hot.depth");
}

TEST_F(Node, I7_ManyWritersManyNodesEachEventOnce) {
  constexpr int writers = 4;
  constexpr int each = 250;
  std::vector<node> nodes;
  for (int i = 0; i < 3; ++i) {
    multi_node_options o{.store = store_, .poll = {.every = 5ms}, .queue = {.hot = 20, .cold = 50}, .log = nullptr};
    o.listeners.on("t", [this](delivery const& d) -> result {
      tally_.add(d.id);
      return done;
    });
    nodes.push_back(multi_node(std::move(o)));
    nodes.back().start();
  }
  std::vector<std::thread> threads;
  for (int w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      auto& n = nodes[static_cast<std::size_t>(w) % nodes.size()];
      for (int i = 0; i < each; ++i) {
        memory::transaction tx{*store_};
        n.writer().write(tx, "t", "1", {.id = std::to_string(w) + "-" + std::to_string(i)});
        if (i % 10 == 9) {
          tx.rollback();
        } else {
          tx.commit();
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  constexpr auto committed = static_cast<std::size_t>(writers) * each * 9 / 10;
  ASSERT_TRUE(tally_.reach(committed));
  ASSERT_TRUE(eventually([&] { return store_->inspect().counts().pending() == 0; }));
  for (auto& n : nodes) EXPECT_TRUE(n.stop(60s));
  EXPECT_EQ(tally_.total(), committed) << "a duplicate, or a phantom";
  for (auto& n : nodes) {
    auto const c = n.counters();
    EXPECT_EQ(c.hot_enqueued + c.cold_enqueued, c.settled + c.released + c.lost + c.unconfirmed + c.held);
    EXPECT_EQ(c.lost, 0U);
    EXPECT_EQ(c.own_rows_reclaimed, 0U);
  }
}

TEST_F(Node, SurvivesAStoreThatFailsNowAndThen) {
  std::atomic<unsigned> calls = 0;
  auto const flaky = std::make_shared<testing::faulty_store>(store_, [&](testing::operation) {
    auto const n = ++calls;
    return n % 5 == 1 ? testing::fault::before : n % 7 == 1 ? testing::fault::after : testing::fault::none;
  });
  multi_node_options o{.store = flaky,
                       .poll = {.every = 5ms},
                       .retry = {.max_attempts = 50, .backoff = {.base = 1ms, .cap = 2ms}},
                       .log = nullptr};
  o.listeners.on("t", [this](delivery const& d) -> result {
    if (d.attempt == 1) return failed{"once"};
    tally_.add(d.id);
    return done;
  });
  auto n = multi_node(std::move(o));
  while (true) {
    try {
      n.start();
      break;
    } catch (error const& e) {
      ASSERT_TRUE(e.transient());
    }
  }
  for (int i = 0; i < 100; ++i) commit(n, "e" + std::to_string(i));
  ASSERT_TRUE(eventually([&] { return store_->inspect().counts().pending() == 0; }));
  EXPECT_EQ(store_->inspect().counts().done, 100U);
  EXPECT_EQ(tally_.total(), 100U);
}

}  // namespace
}  // namespace outbox
