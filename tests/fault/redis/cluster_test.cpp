// Many nodes and writers on one outbox, each a process: with nothing that fails, with processes that are killed or
// stopped, and with a server that is killed under them.
#include "support/cluster.hpp"
#include "outbox_fixture.hpp"

namespace outbox {
namespace {

class RedisProcesses : public RedisOutbox {
 protected:
  using member = cluster_of_processes::member;
  using ledger = cluster_of_processes::ledger;

  explicit RedisProcesses(redis_server& s = redis_server::shared()) : RedisOutbox{s} {
    static_cast<void>(redis::migrate(s.url(), options()));
  }

  std::int64_t ask(std::string const& command, std::string const& rest) {
    return redis::connection{server.url()}.command(command, key(rest)).number;
  }
  bool drained() {
    try {
      return ask("ZCARD", "open") == 0;
    } catch (error const&) {
      return false;
    }
  }

  // I1: what was committed was delivered and is DONE. I2: what was delivered was committed, with its business key.
  void expect_whole(ledger const& l) {
    EXPECT_EQ(ask("ZCARD", "open"), 0) << "I1";
    EXPECT_EQ(ask("ZCARD", "dead"), 0) << "I1";
    EXPECT_EQ(ask("ZCARD", "done"), ask("SCARD", "orders")) << "orders and events go together";
    for (auto const& id : l.committed) EXPECT_TRUE(l.delivered.contains(id)) << "I1: " << id;
    EXPECT_EQ(ask("SCARD", "orders"), static_cast<std::int64_t>(l.delivered.size())) << "I1, I2";
    redis::connection c{server.url()};
    for (auto const& [id, who] : l.delivered) {
      EXPECT_EQ(c.command("SISMEMBER", key("orders"), id).number, 1) << "I2: " << id;
      EXPECT_EQ(c.command("HGET", key("event:") + id, "status").text, "DONE") << id;
    }
  }

  cluster_of_processes cluster{OUTBOX_CLUSTER_CHILD, server.url(), name};
};

TEST_F(RedisProcesses, I7_FourNodesAndFourWritersDeliverEachEventExactlyOnce) {
  constexpr int each = 1000;                 // of which every tenth is rolled back
  cluster.lease = std::chrono::seconds{30};  // no pause of the machine may look like a failure
  std::vector<member> nodes, writers;
  for (int i = 0; i < 4; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), "node", each));
  for (int i = 0; i < 4; ++i) writers.push_back(cluster.begin("w" + std::to_string(i), "writer", each));
  for (auto& w : writers) EXPECT_EQ(w.process->wait(), 0);
  ASSERT_TRUE(eventually([&] { return ask("SCARD", "orders") == 8 * each * 9 / 10 && drained(); }));
  printed_counters all;
  for (auto& n : nodes) {
    auto const c = cluster_of_processes::end(n);
    EXPECT_EQ(c.lost, 0U);
    all.hot += c.hot;
    all.cold += c.cold;
    all.settled += c.settled;
  }
  auto const l = cluster.read();
  expect_whole(l);
  for (auto const& [id, who] : l.delivered) EXPECT_EQ(who.size(), 1U) << "I7: " << id << " was delivered twice";
  EXPECT_EQ(l.delivered.size(), static_cast<std::size_t>(8 * each * 9 / 10));
  EXPECT_EQ(all.settled, l.delivered.size()) << "I13";
  EXPECT_GT(all.hot, 0U);
  EXPECT_GT(all.cold, 0U);
}

TEST_F(RedisProcesses, I1_I6_OneNodeIsKilledAndOneSleepsThroughItsLease) {
  constexpr int each = 1500;
  cluster.lease = std::chrono::seconds{4};
  std::vector<member> nodes, writers;
  for (int i = 0; i < 4; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), "node", 0));
  for (int i = 0; i < 2; ++i) writers.push_back(cluster.begin("w" + std::to_string(i), "writer", each));
  ASSERT_TRUE(eventually([&] { return cluster.lines() > 500; }));
  nodes[0].process->kill_hard();
  auto& zombie = nodes[1];
  zombie.process->signal(SIGSTOP);
  for (auto& w : writers) EXPECT_EQ(w.process->wait(), 0);
  ASSERT_TRUE(eventually([&] { return drained(); })) << "the others take over what the two held";
  zombie.process->signal(SIGCONT);
  cluster_of_processes::end(zombie);
  for (auto* n : {&nodes[2], &nodes[3]}) cluster_of_processes::end(*n);
  auto const l = cluster.read();
  expect_whole(l);
  for (auto const& [id, who] : l.delivered) {
    if (who.size() == 1) continue;
    EXPECT_TRUE(std::ranges::any_of(who, [](auto const& w) { return w == "n0" || w == "n1"; }))
        << id << " was delivered twice, and neither by the killed node nor by the stopped one";
  }
}

// A server of its own, killed three times under load. What it answered is on the disk.
class RedisKilled : public RedisProcesses {
 protected:
  static redis_server& durable() {
    static redis_server one{{.settings = {"appendfsync always"}, .durable = true}};
    return one;
  }
  RedisKilled() : RedisProcesses{durable()} {}
};

TEST_F(RedisKilled, I1_I2_I4_NothingIsLostOrInventedByAServerThatIsKilled) {
  constexpr int each = 100'000;  // they are ended before that
  std::vector<member> nodes;
  for (int i = 0; i < 2; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), "node", each));
  for (int round = 0; round < 3; ++round) {
    auto const before = cluster.lines();
    ASSERT_TRUE(eventually([&] { return cluster.lines() > before + 300; })) << "round " << round;
    server.kill_hard();
    server.start();
  }
  auto const before = cluster.lines();
  ASSERT_TRUE(eventually([&] { return cluster.lines() > before + 300; })) << "the nodes did not recover by themselves";
  for (auto& n : nodes) n.process->signal(SIGTERM);
  for (auto& n : nodes) {
    printed_counters const c{n.process->line()};
    c.expect_to_add_up();
    EXPECT_EQ(n.process->wait(), 0);
  }
  auto last = cluster.begin("n9", "node", 0);  // what is left over is for the next node
  ASSERT_TRUE(eventually([&] { return drained(); }));
  cluster_of_processes::end(last);
  expect_whole(cluster.read());
}

}  // namespace
}  // namespace outbox
