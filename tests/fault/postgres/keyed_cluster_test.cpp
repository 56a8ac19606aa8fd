// Rule I5 among processes: many nodes keep the order of keys, with processes that are killed or stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/postgres.hpp>
#include <sstream>

#include "support/keyed_ledger.hpp"
#include "support/postgres_database.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using ::testing::IsEmpty;

class PostgresKeyedCluster : public ::testing::Test {
 protected:
  using member = keyed_cluster::member;

  PostgresKeyedCluster() {
    db.execute("CREATE TABLE " + db.table("numbers") + " (key text PRIMARY KEY, n int NOT NULL)");
    db.execute("INSERT INTO " + db.table("numbers") + " SELECT 'k' || i, 0 FROM generate_series(0, $1::int - 1) i",
               cluster.keys);
    auto o = db.options();
    o.keyed = true;
    static_cast<void>(postgres::open(db.connection(), o));
  }
  std::string count(std::string const& condition) {
    return db.ask("SELECT count(*) FROM " + db.table() + " WHERE " + condition);
  }
  bool all_delivered(std::size_t events) {
    return eventually([&] { return count("true") == std::to_string(events) && count("status <> 1") == "0"; });
  }
  // What a failure shows: rows by status, note, error and owner.
  std::string state() {
    return db.ask(
        "SELECT coalesce(string_agg(s, '; '), '') FROM (SELECT status || ' ' || coalesce(blocked::text, '-') || "
        "' ' || coalesce(last_error, '-') || ' ' || coalesce(left(locked_by, 12), '-') || (CASE WHEN "
        "lease_until > now() THEN ' live ' ELSE ' ' END) || (CASE WHEN available_at > now() THEN 'later ' ELSE "
        "'due ' END) || count(*) AS s FROM " +
        db.table() +
        " GROUP BY status, blocked, last_error, left(locked_by, 12), lease_until > now(), "
        "available_at > now()) x");
  }
  // Nothing but what other programs do to the table needs healing.
  void expect_order(std::uint64_t healed) {
    auto const v = cluster.judge();
    EXPECT_THAT(v.inversions, IsEmpty());
    EXPECT_THAT(v.missing, IsEmpty()) << "I1";
    EXPECT_EQ(healed, 0U);
    EXPECT_EQ(v.delivered, std::stoul(count("true")));
    EXPECT_EQ(count("blocked"), "0");
  }

  postgres_database db;
  keyed_cluster cluster{OUTBOX_KEYED_CHILD, db.connection(), db.schema()};
};

TEST(KeyedLedger, FindsPlantedInversions) {
  std::istringstream lines{
      "C a:1 \nC a:2 \nC a:3 \nC b:1 \nB a:1 n\nB a:2 n\nS a:1 n\nS a:2 n\nS a:2 m\nB b:1 n\nS b:1 n\nC b:2 \nS b:3 "
      "n\n"};
  auto const v = keyed_cluster::judge(lines);
  EXPECT_THAT(v.inversions, ::testing::ElementsAre("a:2 began after 0 n", "b:3 succeeded after 1 n"));
  EXPECT_THAT(v.missing, ::testing::ElementsAre("a:3"));
  EXPECT_EQ(v.delivered, 3U);
  EXPECT_EQ(v.repeated, 1U + 1U);
}

TEST_F(PostgresKeyedCluster, I5_FourNodesKeepTheOrderOfTwoHundredKeys) {
  constexpr int each = 1500;  // of which every tenth is rolled back
  std::vector<member> nodes;
  for (int i = 0; i < 4; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), each));
  ASSERT_TRUE(all_delivered(4 * each * 9 / 10)) << state();
  std::uint64_t healed = 0, unblocked = 0, hot = 0, cold = 0;
  for (auto& n : nodes) {
    auto const c = keyed_cluster::end(n);
    EXPECT_EQ(c.lost, 0U);
    healed += c.healed;
    unblocked += c.unblocked;
    hot += c.hot;
    cold += c.cold;
  }
  expect_order(healed);
  EXPECT_EQ(cluster.judge().repeated, 0U) << "I7";
  EXPECT_GT(hot, 0U);
  EXPECT_GT(cold, 0U);
  EXPECT_GT(unblocked, 0U);
}

TEST_F(PostgresKeyedCluster, I5_OneNodeIsKilledAndOneSleepsThroughItsLease) {
  constexpr int each = 2000;
  cluster.lease = std::chrono::seconds{8};
  std::vector<member> nodes;
  for (int i = 0; i < 4; ++i) nodes.push_back(cluster.begin("n" + std::to_string(i), i < 2 ? 20'000 : each));
  ASSERT_TRUE(eventually([&] { return cluster.lines() > 3000; }));
  nodes[0].process->kill_hard();
  auto const holds = [&] {
    return count("status IN (0, 2) AND locked_by LIKE '" + nodes[1].incarnation + "/%'") != "0";
  };
  ASSERT_TRUE(eventually([&] {
    nodes[1].process->signal(SIGSTOP);
    // What it had sent already, the server ends: it must hold something afterwards too.
    if (holds() && db.ask("SELECT pg_sleep(0.3)").empty() && holds()) return true;
    nodes[1].process->signal(SIGCONT);
    return false;
  }));
  // A transaction that it left open holds the lock of a key, and so do the others that wait for it.
  db.execute(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND pid <> "
      "pg_backend_pid() AND query LIKE '%" +
      db.schema() + ".numbers%'");
  ASSERT_TRUE(eventually([&] { return !holds(); })) << "the others take over what it held";
  nodes[1].process->signal(SIGCONT);
  std::uint64_t healed = 0;
  ASSERT_TRUE(eventually([&] { return count("status <> 1") == "0" || cluster.lines() > 30'000; }));
  for (std::size_t i = 1; i < 4; ++i) healed += keyed_cluster::end(nodes[i]).healed;
  auto last = cluster.begin("n9", 0);
  ASSERT_TRUE(eventually([&] { return count("status <> 1") == "0"; })) << state();
  healed += keyed_cluster::end(last).healed;
  expect_order(healed);
}

}  // namespace
}  // namespace outbox
