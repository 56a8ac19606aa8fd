// How a node stops: what it waits for, and for how long; and who may ask for it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/testing.hpp>
#include <semaphore>
#include <set>
#include <thread>

#include <outbox/spi/forwarding_store.hpp>
#include "support/log_lines.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace spi;

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::HasSubstr;

/// A store whose calls hang until they are let go.
class hanging_store final : public spi::forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  claim_reply claim(claim_request const& r) override { return pass(), behind().claim(r); }
  settle_reply settle(std::span<settlement const> items) override { return pass(), behind().settle(items); }
  std::vector<bool> renew(std::span<row_handle const> rows, std::chrono::milliseconds lease) override {
    return pass(), behind().renew(rows, lease);
  }
  std::size_t release(std::span<owner_token const> tokens, std::chrono::milliseconds lease) override {
    return pass(), behind().release(tokens, lease);
  }
  void heartbeat(node_row const& node) override { pass(), behind().heartbeat(node); }
  void retire(std::string_view incarnation) override { pass(), behind().retire(incarnation); }
  std::size_t purge(purge_request const& r) override {
    if (hang_at_purge.exchange(false)) hang();
    return pass(), behind().purge(r);
  }

  void hang() { open_ = false; }
  void let_go() {
    open_ = true;
    open_.notify_all();
  }
  std::atomic<bool> hang_at_purge = false;
  std::atomic<int> waiting = 0;

 private:
  void pass() {
    if (open_) return;
    ++waiting;
    open_.wait(false);
    --waiting;
  }
  std::atomic<bool> open_ = true;
};

class Stop : public ::testing::Test {
 protected:
  single_node_options options() {
    single_node_options o{.store = store_};
    o.poll.every = 10ms;
    o.log = [this](log_line const& line) {
      std::lock_guard const lock{mutex_};
      log_.push_back(without_source(line));
    };
    return o;
  }
  void start(node& n) {
    n.start();
    ASSERT_TRUE(eventually([&] { return n.health().active; }));
  }
  void commit(node& n, std::string const& id) {
    memory::transaction tx{*table_};
    n.writer().write(tx, "t", "1", {.id = id});
    tx.commit();
  }
  std::vector<std::string> log() {
    std::lock_guard const lock{mutex_};
    return log_;
  }

  std::shared_ptr<outbox::store> table_ = memory::open();
  std::shared_ptr<hanging_store> store_ = std::make_shared<hanging_store>(table_);
  tally tally_;
  std::mutex mutex_;
  std::vector<std::string> log_;
};

TEST_F(Stop, KeepsItsDeadlineWhileTheStoreHangs) {
  auto o = options();
  o.listeners.on("t", [&](delivery const& d) { tally_.add(d.id); });
  std::optional<node> n{single_node(std::move(o))};
  start(*n);
  store_->hang();
  commit(*n, "a");
  ASSERT_TRUE(tally_.reach(1));
  ASSERT_TRUE(eventually([&] { return store_->waiting >= 2; })) << "the poller and the settler";
  EXPECT_FALSE(n->stop(10ms)) << "it would never return";
  EXPECT_FALSE(n->health().running);
  store_->let_go();
  EXPECT_TRUE(n->stop(60s));
  EXPECT_EQ(table_->inspect().find("a")->status, event_status::delivered);
}

TEST_F(Stop, DoesNotWaitForTheWholePurge) {
  auto o = options();
  o.purge = purge_options{.keep = 0ms, .batch = 1, .every = 1s};
  {
    auto writer = writer_only({.store = table_, .log = nullptr});
    std::vector<event> many;
    for (int i = 0; i < 2000; ++i) many.push_back(event::json("t", "1"));
    memory::transaction tx{*table_};
    writer.writer().write_all(tx, many);
    tx.commit();
    for (auto reply = table_->backend().claim({.token = "x/1", .limit = 2000, .lease = 30s});
         auto const& r : reply.rows) {
      settlement const s{.row = r.handle};
      ASSERT_TRUE(table_->backend().settle(std::span{&s, 1}).applied.front());
    }
  }
  store_->hang_at_purge = true;
  auto n = single_node(std::move(o));
  start(n);
  ASSERT_TRUE(eventually([&] { return store_->waiting > 0; }));
  auto stopped = std::async(std::launch::async, [&] { return n.stop(60s); });
  ASSERT_TRUE(eventually([&] { return !n.health().running; }));
  store_->let_go();
  EXPECT_TRUE(stopped.get());
  EXPECT_GT(table_->inspect().counts().done, 0U) << "the rest is for another day";
}

TEST_F(Stop, WaitsForATransactionThatIsOpen) {
  auto o = options();
  o.listeners.on("t", [&](delivery const& d) { tally_.add(d.id); });
  auto n = single_node(std::move(o));
  start(n);
  memory::transaction tx{*table_};
  n.writer().write(tx, "t", "1", {.id = "a"});
  auto stopped = std::async(std::launch::async, [&] { return n.stop(60s); });
  ASSERT_TRUE(eventually([&] { return !n.health().running; }));
  tx.commit();
  EXPECT_TRUE(stopped.get());
  EXPECT_EQ(tally_.of("a"), 1);
  EXPECT_EQ(table_->inspect().find("a")->status, event_status::delivered);
}

TEST_F(Stop, GivesBackWhatATransactionCommitsLater) {
  auto o = options();
  o.listeners.on("t", [&](delivery const& d) { tally_.add(d.id); });
  auto n = single_node(std::move(o));
  start(n);
  memory::transaction tx{*table_};
  n.writer().write(tx, "t", "1", {.id = "a"});
  EXPECT_FALSE(n.stop(1ms)) << "a transaction is open";
  tx.commit();
  EXPECT_TRUE(eventually([&] { return table_->inspect().find("a")->locked_by.empty(); }))
      << "another node need not wait for the lease";
  EXPECT_TRUE(n.stop(60s));
}

TEST_F(Stop, MayReleaseWhatIsQueued) {
  std::latch gate{1};
  auto o = options();
  o.workers = 1;
  o.stop_queued = stop_queued::release;
  o.listeners.on("t", [&](delivery const& d) {
    tally_.add(d.id);
    gate.wait();
  });
  auto n = single_node(std::move(o));
  start(n);
  for (int i = 0; i < 5; ++i) commit(n, "e" + std::to_string(i));
  ASSERT_TRUE(tally_.reach(1));
  auto stopped = std::async(std::launch::async, [&] { return n.stop(60s); });
  ASSERT_TRUE(eventually([&] { return n.counters().released == 4; })) << "while the first still runs";
  gate.count_down();
  EXPECT_TRUE(stopped.get());
  EXPECT_EQ(tally_.total(), 1U);
  EXPECT_EQ(table_->inspect().counts().pending(), 4U);
}

TEST_F(Stop, AskedForByAListenerLeavesTheTableToAnotherNode) {
  std::atomic<node*> self = nullptr;
  auto o = options();
  o.listeners.on("t", [&](delivery const& d) {
    EXPECT_FALSE(self.load()->stop());
    tally_.add(d.id);
  });
  auto n = single_node(std::move(o));
  self = &n;
  start(n);
  auto other = options();
  tally seen_by_other;
  other.listeners.on("t", [&](delivery const& d) { seen_by_other.add(d.id); });
  auto standby = single_node(std::move(other));
  standby.start();
  commit(n, "a");
  ASSERT_TRUE(tally_.reach(1));
  ASSERT_TRUE(eventually([&] { return standby.health().active; })) << "only the listener has called stop()";
  commit(n, "b");
  EXPECT_TRUE(seen_by_other.reach(1));
  auto const h = n.health();
  EXPECT_FALSE(h.running);
  EXPECT_FALSE(h.active);
  EXPECT_FALSE(h.healthy);
  EXPECT_EQ(h.reason, "the node is stopping because a listener or a callback called stop()");
  EXPECT_TRUE(n.stop(60s));
  EXPECT_THAT(log(), Contains(HasSubstr("a listener or a callback called stop()")));
  EXPECT_TRUE(standby.stop(60s));
}

TEST_F(Stop, MayBeAskedForByAStopCallbackOfTheStoppingThread) {
  std::atomic<node*> self = nullptr;
  std::atomic<int> answer = -1;
  std::binary_semaphore stopped{0};
  auto o = options();
  o.listeners.on("t", [&](delivery const& d) {
    tally_.add(d.id);
    std::stop_callback const callback{d.stop, [&] {
                                        answer = self.load()->stop(1ms) ? 1 : 0;
                                        stopped.release();
                                      }};
    stopped.acquire();
  });
  auto n = single_node(std::move(o));
  self = &n;
  start(n);
  commit(n, "a");
  ASSERT_TRUE(tally_.reach(1));
  n.stop(1ms);
  ASSERT_TRUE(eventually([&] { return answer != -1; }));
  EXPECT_EQ(answer, 0);
  EXPECT_TRUE(n.stop(60s));
}

TEST_F(Stop, AListenerMayDestroyItsOwnNode) {
  std::atomic<bool> ended = false;
  auto const alive = std::make_shared<int>();
  auto owner = std::make_shared<std::optional<node>>();
  auto o = options();
  o.listeners.on("t", [&, alive, weak = std::weak_ptr{owner}](delivery const&) {
    if (auto const n = weak.lock()) n->reset();
    ended = true;
  });
  owner->emplace(single_node(std::move(o)));
  start(**owner);
  auto const w = (*owner)->writer();
  memory::transaction tx{*table_};
  w.write(tx, "t", "1", {.id = "a"});
  tx.commit();
  ASSERT_TRUE(eventually([&] { return ended.load(); }));
  EXPECT_TRUE(eventually([&] { return alive.use_count() == 1; })) << "a thread of the library ends the node";
  EXPECT_EQ(table_->inspect().find("a")->status, event_status::delivered);
}

TEST_F(Stop, ALogMayCallTheNode) {
  std::atomic<node*> self = nullptr;
  auto o = options();
  std::atomic<bool> paused = false;
  o.log = [&](log_line const& line) {
    if (line.message.find("is DEAD") != std::string_view::npos && !paused.exchange(true)) self.load()->pause({"t", ""});
  };
  o.listeners.on("t", [](delivery const&) -> result { return dead{"no"}; });
  auto n = single_node(std::move(o));
  self = &n;
  start(n);
  commit(n, "a");
  ASSERT_TRUE(eventually([&] { return paused.load() && n.paused().size() == 1; }));
  EXPECT_TRUE(n.stop(60s));
}

TEST_F(Stop, StartAndStopAreLogged) {
  auto n = multi_node({.store = store_, .log = options().log});
  n.start();
  EXPECT_THAT(log(), Contains(HasSubstr("info: started as multi_node")));
  EXPECT_TRUE(n.stop());
  EXPECT_THAT(log(), Contains("info: stopped"));
}

TEST_F(Stop, ALogMayAskForItWhileTheNodeStarts) {
  std::atomic<node*> self = nullptr;
  auto o = options();
  o.log = [&](log_line const& line) {
    if (!line.message.starts_with("started as")) return;
    EXPECT_FALSE(self.load()->stop());
  };
  auto n = single_node(std::move(o));
  self = &n;
  n.start();
  // A thread of the node may be logging at that moment. Then it logs this line too, after start() has returned.
  EXPECT_TRUE(eventually([&] { return !n.health().running; }));
  EXPECT_TRUE(n.stop(60s));
}

TEST_F(Stop, KeepsItsDeadlineWhileAnotherThreadStopsTheNode) {
  std::latch gate{1};
  auto o = options();
  o.listeners.on("t", [&](delivery const& d) {
    tally_.add(d.id);
    gate.wait();
  });
  auto n = single_node(std::move(o));
  start(n);
  commit(n, "a");
  ASSERT_TRUE(tally_.reach(1));
  auto patient = std::async(std::launch::async, [&] { return n.stop(60s); });
  ASSERT_TRUE(eventually([&] { return !n.health().running; }));
  EXPECT_FALSE(n.stop(1ms)) << "it would wait for the other one";
  gate.count_down();
  EXPECT_TRUE(patient.get());
}

TEST_F(Stop, EveryLineNamesTheNodeAndItsTable) {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::set<std::string> fields;
  multi_node_options o{.store = store_, .name = "web-1"};
  o.log = [&](log_line const& line) {
    std::lock_guard const lock{mutex};
    lines.push_back(line.text());
    fields.insert(line.logfmt().substr(0, line.logfmt().find(" mode=")));
  };
  auto n = multi_node(std::move(o));
  n.start();
  EXPECT_TRUE(n.stop());
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines, ::testing::Each(::testing::StartsWith("node 'web-1' on the store in memory: ")));
  EXPECT_THAT(fields, ::testing::ElementsAre("node=web-1 table=\"the store in memory\""));
}

TEST_F(Stop, ANodeThatOnlyWritesIsHealthyWithoutAThread) {
  auto n = writer_only({.store = store_, .log = nullptr});
  EXPECT_TRUE(n.health().healthy);
  EXPECT_EQ(n.health().reason, "");
  EXPECT_TRUE(n.stop());
  EXPECT_FALSE(n.health().healthy);
  EXPECT_EQ(n.health().reason, "the node was stopped");
}

TEST_F(Stop, PollOnceOfANodeThatStandsByReturns) {
  auto first = single_node(options());
  start(first);
  auto o = options();
  o.poll.every = 1h;
  auto second = single_node(std::move(o));
  second.start();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(second.poll_once(), 0U);
  EXPECT_FALSE(second.health().active);
}

// Under the thread sanitizer this is what it looks for.
TEST_F(Stop, FromManyThreadsAtOnce) {
  for (int round = 0; round < 20; ++round) {
    auto o = options();
    o.listeners.on("t", [&](delivery const& d) { tally_.add(d.id); });
    auto n = multi_node({.store = store_, .listeners = std::move(o.listeners), .log = nullptr});
    n.start();
    commit(n, "r" + std::to_string(round));
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back([&] { n.stop(60s); });
    threads.emplace_back([&] { static_cast<void>(n.health()); });
    threads.clear();
    EXPECT_FALSE(n.health().running);
  }
  EXPECT_EQ(table_->inspect().counts().pending(), 0U);
}

}  // namespace
}  // namespace outbox
