// What is left after the server was killed, or a replica has taken its place.
#include <iostream>
#include <map>
#include <thread>

#include "outbox_fixture.hpp"
#include "support/tcp_proxy.hpp"

namespace outbox {
namespace {

using steady = std::chrono::steady_clock;

// Events that were acknowledged, and when.
class acknowledged {
 public:
  // Writes until the store fails.
  void write(store& s, std::string const& writer) {
    for (int i = 0;; ++i) {
      auto const id = writer + "-" + std::to_string(i);
      auto const e = event::json("t", "1", {.id = id});
      spi::insertion const row{&e};
      try {
        s.backend().insert(join(no_transaction), std::span{&row, 1});
      } catch (error const&) {
        return;
      }
      std::lock_guard const lock{mutex_};
      at_[id] = steady::now();
    }
  }
  [[nodiscard]] std::size_t size() {
    std::lock_guard const lock{mutex_};
    return at_.size();
  }
  // Those that are not in the store, and how long before `end` the first of them was acknowledged.
  struct loss {
    std::size_t events = 0;
    std::chrono::milliseconds window{};
  };
  [[nodiscard]] loss missing_in(store& s, steady::time_point end) {
    loss l;
    for (auto const& [id, when] : at_) {
      if (s.inspect().find(id)) continue;
      ++l.events;
      l.window = std::max(l.window, std::chrono::duration_cast<std::chrono::milliseconds>(end - when));
    }
    return l;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, steady::time_point> at_;
};

class RedisDurability : public ::testing::Test {
 protected:
  // Kills the server under two writers, and starts it again.
  acknowledged::loss kill_under_load(std::string const& fsync) {
    redis_server server{{.settings = {"appendfsync " + fsync}, .durable = true}};
    acknowledged events;
    steady::time_point killed;
    {
      auto const s = redis::open(server.url(), {.timeout = 2s, .notify = false, .log = {}});
      std::jthread const one{[&] { events.write(*s, "one"); }};
      std::jthread const two{[&] { events.write(*s, "two"); }};
      EXPECT_TRUE(eventually([&] { return events.size() > 3000; }));
      killed = steady::now();
      server.kill_hard();
    }
    server.start();
    auto const after = redis::open(server.url(), {.notify = false, .log = {}});
    auto const lost = events.missing_in(*after, killed);
    RecordProperty("acknowledged", static_cast<int>(events.size()));
    RecordProperty("lost", static_cast<int>(lost.events));
    std::cout << fsync << ": " << events.size() << " acknowledged, " << lost.events << " lost\n";
    // What is there is whole: every event of it can be claimed, once.
    auto const there = after->inspect().counts().pending();
    std::size_t claimed = 0;
    for (int n = 0; claimed < there; ++n) {
      auto const rows = after->backend().claim({.token = "n/" + std::to_string(n), .limit = 500, .lease = 30s}).rows;
      if (rows.empty()) break;
      for (auto const& r : rows) EXPECT_EQ(r.malformed, "");
      claimed += rows.size();
    }
    EXPECT_EQ(claimed, there);
    return lost;
  }
};

TEST_F(RedisDurability, I1_WithFsyncAlwaysNothingThatWasAcknowledgedIsLostWhenTheServerIsKilled) {
  EXPECT_EQ(kill_under_load("always").events, 0U);
}

// The server may put off a write of its file for two seconds while the disk is busy; and the last second is not on the
// disk yet, which matters if the machine fails.
TEST_F(RedisDurability, WithFsyncEverySecondOnlyTheLastTwoSecondsMayBeLost) {
  auto const lost = kill_under_load("everysec");
  EXPECT_LE(lost.window, 2s + 500ms) << lost.events << " events";
}

// A failover as an operator or a supervisor does it: the primary is gone, the replica becomes one.
class RedisFailover : public RedisDurability {
 protected:
  RedisFailover() {
    // After a full copy the primary holds the stream back until the replica has confirmed it.
    EXPECT_TRUE(eventually([&] {
      return primary.ask({"INFO", "replication"}).find("state=online") != std::string::npos;
    }));
  }

  std::shared_ptr<store> promote() {
    primary.kill_hard();
    replica.ask({"REPLICAOF", "NO", "ONE"});
    return redis::open(replica.url(), {.notify = false, .log = {}});
  }
  static void put(store& s, std::string const& id) {
    auto const e = event::json("t", "1", {.id = id});
    spi::insertion const row{&e};
    s.backend().insert(join(no_transaction), std::span{&row, 1});
  }

  redis_server primary;
  tcp_proxy network{primary.port()};  ///< Between the two.
  redis_server replica{{.replica_of = network.port()}};
};

TEST_F(RedisFailover, I1_WhatAReplicaHasConfirmedIsThereAfterAFailover) {
  acknowledged events;
  steady::time_point killed;
  {
    auto const s = redis::open(primary.url(), {.timeout = 2s, .notify = false, .replicas = 1, .log = {}});
    std::jthread const one{[&] { events.write(*s, "one"); }};
    std::jthread const two{[&] { events.write(*s, "two"); }};
    EXPECT_TRUE(eventually([&] { return events.size() > 200; }));
    killed = steady::now();
    primary.kill_hard();
  }
  auto const after = promote();
  auto const lost = events.missing_in(*after, killed);
  RecordProperty("acknowledged", static_cast<int>(events.size()));
  EXPECT_EQ(lost.events, 0U);
}

// A replica that is cut off: everything since then is lost, however long that is. Only waiting for replicas tells.
TEST_F(RedisFailover, WithoutWaitingWhatTheReplicaHadNotReceivedIsLost) {
  auto const s = redis::open(primary.url(), {.timeout = 500ms, .notify = false, .log = {}});
  auto const waiting = redis::open(primary.url(), {.timeout = 500ms, .notify = false, .replicas = 1, .log = {}});
  for (int i = 0; i < 100; ++i) put(*s, "early-" + std::to_string(i));
  put(*waiting, "confirmed");
  network.stall();
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW(put(*s, "late-" + std::to_string(i))) << "it is acknowledged";
  EXPECT_TRUE(error_by([&] { put(*waiting, "doubtful"); }).in_doubt()) << "this one is not";
  auto const after = promote();
  std::size_t lost = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(after->inspect().find("early-" + std::to_string(i)));
    lost += after->inspect().find("late-" + std::to_string(i)) ? 0U : 1U;
  }
  EXPECT_TRUE(after->inspect().find("confirmed"));
  EXPECT_EQ(lost, 100U);
}

TEST_F(RedisDurability, TooFewReplicasPutAWriteInDoubtAndItIsDeliveredCold) {
  redis_server alone;
  auto const s = redis::open(alone.url(), {.timeout = 400ms, .replicas = 1, .log = {}});
  tally seen;
  std::atomic<int> hot = 0;
  multi_node_options o{.store = s, .log = nullptr};
  o.poll.every = 50ms;
  o.listeners.on("t", [&](delivery const& d) {
    hot += d.path == path::hot ? 1 : 0;
    seen.add(d.id);
  });
  auto n = multi_node(std::move(o));
  n.start();
  auto const e = error_by([&] { n.writer().write(no_transaction, "t", "1", {.id = "a"}); });
  EXPECT_TRUE(e.in_doubt());
  EXPECT_THAT(e.what(), HasSubstr("0 of 1 replicas"));
  redis::connection c{alone.url()};
  {
    redis::transaction tx{c};
    n.writer().write(tx, "t", "1", {.id = "b"});
    EXPECT_TRUE(error_by([&] { tx.commit(); }).in_doubt());
  }
  ASSERT_TRUE(seen.reach(2));
  EXPECT_EQ(hot, 0) << "a failover may take them back";
}

}  // namespace
}  // namespace outbox
