// Many nodes and writers on one table, each a process: with nothing that fails, with processes that are killed or
// stopped, and with a server that is killed under them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/mysql.hpp>

#include "support/cluster.hpp"
#include "support/mysql_database.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

class MysqlCluster : public ::testing::Test {
 protected:
  using member = cluster_of_processes::member;
  using ledger = cluster_of_processes::ledger;

  explicit MysqlCluster(mysql_server& server = mysql_server::shared()) : db{server} {
    static_cast<void>(db.open());
    db.execute("CREATE TABLE " + db.table("orders") + " (PRIMARY KEY (id)) SELECT event_id AS id FROM " + db.table());
    watch_every_change();
    db.execute("SET SESSION group_concat_max_len = 100000000");
  }

  // The database itself notes what no node may do: take a row from a live owner (I6), touch one that has ended (I4), or
  // settle a row without an owner (I6).
  void watch_every_change() {
    auto const note = "INSERT INTO " + db.table("violations") + " VALUES (concat(";
    db.execute("CREATE TABLE " + db.table("violations") + " (what text CHARACTER SET utf8mb4)");
    db.execute("CREATE TRIGGER " + db.table("watch") + " BEFORE UPDATE ON " + db.table() + " FOR EACH ROW BEGIN " +
               "IF OLD.status IN (1, 3) THEN " + note + "'I4: ', OLD.event_id)); END IF; " +
               "IF OLD.locked_by IS NOT NULL AND NEW.locked_by IS NOT NULL AND NEW.locked_by <> OLD.locked_by AND " +
               "OLD.lease_until > utc_timestamp(6) THEN " + note +
               "'I6: ', OLD.event_id, ' was taken from ', OLD.locked_by)); END IF; " +
               "IF NEW.status IN (1, 3) AND OLD.locked_by IS NULL THEN " + note +
               "'I6: ', OLD.event_id, ' was ended without an owner')); END IF; END");
  }

  std::string pending() {
    try {
      return db.ask("SELECT count(*) FROM " + db.table() + " WHERE status IN (0, 2)");
    } catch (std::exception const&) {
      return "unknown";
    }
  }

  // I1: what was committed was delivered and is DONE. I2: what was delivered was committed.
  void expect_whole(ledger const& l) {
    EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE status <> 1"), "0") << "I1";
    EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " LEFT JOIN " + db.table("orders") +
                     " ON id = event_id WHERE id IS NULL"),
              "0")
        << "an event without its order";
    EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table("orders") + " LEFT JOIN " + db.table() +
                     " ON id = event_id WHERE event_id IS NULL"),
              "0")
        << "an order without its event";
    EXPECT_EQ(db.ask("SELECT coalesce(group_concat(what SEPARATOR '; '), '') FROM " + db.table("violations")), "");
    for (auto const& id : l.committed) EXPECT_TRUE(l.delivered.contains(id)) << "I1: " << id;
    auto const rows = db.ask("SELECT count(*) FROM " + db.table("orders"));
    EXPECT_EQ(rows, std::to_string(l.delivered.size())) << "I1, I2";
  }

  mysql_database db;
  cluster_of_processes cluster{OUTBOX_CLUSTER_CHILD, db.url(), db.database()};
};

TEST_F(MysqlCluster, TheWatchFindsPlantedViolations) {
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at, locked_by, lease_until) VALUES "
             "('held', 't', '1', 0, utc_timestamp(6), utc_timestamp(6), 'a/1', utc_timestamp(6) + INTERVAL 1 HOUR), "
             "('free', 't', '1', 0, utc_timestamp(6), utc_timestamp(6), NULL, NULL), "
             "('done', 't', '1', 1, utc_timestamp(6), utc_timestamp(6), NULL, NULL)");
  db.execute("UPDATE " + db.table() + " SET locked_by = 'b/1' WHERE event_id = 'held'");
  db.execute("UPDATE " + db.table() + " SET status = 1 WHERE event_id = 'free'");
  db.execute("UPDATE " + db.table() + " SET status = 0 WHERE event_id = 'done'");
  EXPECT_EQ(db.ask("SELECT group_concat(left(what, 2) ORDER BY what SEPARATOR ' ') FROM " + db.table("violations")),
            "I4 I6 I6");
}

TEST_F(MysqlCluster, I7_FourNodesAndFourWritersDeliverEachEventExactlyOnce) {
  constexpr int each = 1000;                 // of which every tenth is rolled back
  cluster.lease = std::chrono::seconds{30};  // no pause of the machine may look like a failure
  std::vector<member> nodes, writers;
  for (int i = 0; i < 4; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), "node", each));
  for (int i = 0; i < 4; ++i) writers.push_back(cluster.begin("w" + std::to_string(i), "writer", each));
  for (auto& w : writers) EXPECT_EQ(w.process->wait(), 0);
  ASSERT_TRUE(eventually([&] {
    return db.ask("SELECT count(*) FROM " + db.table("orders")) == std::to_string(8 * each * 9 / 10) &&
           pending() == "0";
  }));
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

TEST_F(MysqlCluster, I1_I6_OneNodeIsKilledAndOneSleepsThroughItsLease) {
  constexpr int each = 1500;
  cluster.lease = std::chrono::seconds{12};
  std::vector<member> nodes, writers;
  for (int i = 0; i < 4; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), "node", 0));
  for (int i = 0; i < 2; ++i) writers.push_back(cluster.begin("w" + std::to_string(i), "writer", each));
  ASSERT_TRUE(eventually([&] { return cluster.lines() > 500; }));
  nodes[0].process->kill_hard();
  auto& zombie = nodes[1];
  // Events that it has delivered and not settled. A row of a claim whose answer has not arrived is no such event: the
  // node drops it when it sees that its lease is over.
  auto const unsettled = [&] {
    auto const held = db.ask("SELECT coalesce(group_concat(event_id), '') FROM " + db.table() +
                                 " WHERE status IN (0, 2) AND locked_by LIKE concat(?, '/%')",
                             zombie.incarnation);
    return cluster.has_delivered("n1", held);
  };
  ASSERT_TRUE(eventually([&] {
    zombie.process->signal(SIGSTOP);
    // What it had sent already, the server ends: it must hold something afterwards too.
    if (unsettled() && db.ask("SELECT sleep(0.3)") == "0" && unsettled()) return true;
    zombie.process->signal(SIGCONT);
    return false;
  }));
  for (auto& w : writers) EXPECT_EQ(w.process->wait(), 0);
  ASSERT_TRUE(eventually([&] { return pending() == "0"; })) << "the others take over what the two held";
  auto const ended = "SELECT group_concat(event_id, done_at ORDER BY event_id) FROM " + db.table();
  auto const done = db.ask(ended);
  zombie.process->signal(SIGCONT);
  auto const c = cluster_of_processes::end(zombie);
  // Unconfirmed: a settlement was under way when it was stopped, so its first answer was lost.
  EXPECT_GT(c.lost + c.unconfirmed, 0U) << "its settlements are refused, and counted";
  for (auto* n : {&nodes[2], &nodes[3]}) cluster_of_processes::end(*n);
  EXPECT_EQ(db.ask(ended), done) << "I4, I6: the zombie has changed nothing";
  auto const l = cluster.read();
  expect_whole(l);
  for (auto const& [id, who] : l.delivered) {
    if (who.size() == 1) continue;
    EXPECT_TRUE(std::ranges::any_of(who, [](auto const& w) { return w == "n0" || w == "n1"; }))
        << id << " was delivered twice, and neither by the killed node nor by the stopped one";
  }
}

// A server of its own, killed three times under load.
class MysqlKilled : public ::testing::Test {
 protected:
  mysql_server server{{.durable = true}};
};

class cluster_on final : public MysqlCluster {
 public:
  explicit cluster_on(mysql_server& server) : MysqlCluster{server} {}
  void TestBody() override {}

  void run(mysql_server& server) {
    constexpr int each = 100'000;  // they are ended before that
    std::vector<member> nodes;
    for (int i = 0; i < 2; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), "node", each));
    db.execute("CREATE TABLE " + db.table("ended") + " SELECT event_id AS id, done_at AS at FROM " + db.table() +
               " WHERE status IN (1, 3)");
    for (int round = 0; round < 3; ++round) {
      auto const before = cluster.lines();
      ASSERT_TRUE(eventually([&] { return cluster.lines() > before + 400; }))
          << "round " << round << " did not get under way";
      server.kill_hard();
      server.start();
      db.reconnect();
      expect_unchanged();
      db.execute("TRUNCATE TABLE " + db.table("ended"));
      db.execute("INSERT INTO " + db.table("ended") + " SELECT event_id, done_at FROM " + db.table() +
                 " WHERE status IN (1, 3)");
    }
    auto const before = cluster.lines();
    ASSERT_TRUE(eventually([&] { return cluster.lines() > before + 400; }))
        << "the nodes did not recover by themselves";
    for (auto& n : nodes) n.process->signal(SIGTERM);
    for (auto& n : nodes) {
      printed_counters const c{n.process->line()};
      c.expect_to_add_up();
      EXPECT_EQ(n.process->wait(), 0);
    }
    // What is left over is for the next node.
    auto last = cluster.begin("n9", "node", 0);
    ASSERT_TRUE(eventually([&] { return pending() == "0"; }));
    cluster_of_processes::end(last);
    expect_unchanged();
    expect_whole(cluster.read());
  }

 private:
  // I4: nothing that had ended has changed since.
  void expect_unchanged() {
    EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table("ended") + " LEFT JOIN " + db.table() +
                     " ON event_id = id AND done_at = at AND status IN (1, 3) WHERE event_id IS NULL"),
              "0")
        << "I4";
  }
};

TEST_F(MysqlKilled, I1_I2_I4_I6_ThreeTimesUnderLoad) { cluster_on{server}.run(server); }

}  // namespace
}  // namespace outbox
