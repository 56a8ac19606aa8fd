// Rule I5 among processes on PostgreSQL.
#include <outbox/postgres.hpp>
#include <sstream>

#include "support/keyed_cluster_cases.hpp"
#include "support/postgres_database.hpp"

namespace outbox {
namespace {

TEST(KeyedLedger, FindsPlantedInversions) {
  std::istringstream lines{
      "C a:1 \nC a:2 \nC a:3 \nC b:1 \nB a:1 n\nF a:1 n\nB a:1 n\nD a:1 n\nB a:1 n\nB a:2 n\nS a:1 n\nS a:2 n\n"
      "S a:2 m\nB b:1 n\nS b:1 n\nC b:2 \nS b:3 n\n"};
  auto const v = keyed_cluster::judge(lines);
  EXPECT_THAT(v.inversions, ::testing::ElementsAre("a:2 began after 0 n", "b:3 succeeded after 1 n"));
  EXPECT_THAT(v.missing, ::testing::ElementsAre("a:3"));
  EXPECT_EQ(v.delivered, 3U);
  EXPECT_EQ(v.repeated, 1U + 1U);
  EXPECT_EQ(v.failed, 1U);
  EXPECT_EQ(v.deferred, 1U);
}

// The base of the cases needs its connection.
struct has_postgres_database {
  postgres_database db;

  [[nodiscard]] std::string session_name(std::string const& name) const { return db.schema() + "_" + name; }
};

class PostgresKeyedCluster : private has_postgres_database, public keyed_cluster_cases {
 protected:
  PostgresKeyedCluster()
      : keyed_cluster_cases{
            OUTBOX_KEYED_CHILD,
            [this](std::string const& name) { return db.connection() + " application_name=" + session_name(name); },
            db.schema()} {
    db.execute("CREATE TABLE " + db.table("numbers") + " (key text PRIMARY KEY, n int NOT NULL)");
    db.execute("INSERT INTO " + db.table("numbers") + " SELECT 'k' || i, 0 FROM generate_series(0, $1::int - 1) i",
               cluster.keys);
    auto o = db.options();
    o.keyed = true;
    static_cast<void>(postgres::open(db.connection(), o));
  }
  std::string count(std::string const& condition) override {
    return db.ask("SELECT count(*) FROM " + db.table() + " WHERE " + condition);
  }
  std::string state() override {
    return db.ask(
        "SELECT coalesce(string_agg(s, '; '), '') FROM (SELECT status || ' ' || coalesce(blocked::text, '-') || "
        "' ' || coalesce(last_error, '-') || ' ' || coalesce(left(locked_by, 12), '-') || (CASE WHEN "
        "lease_until > now() THEN ' live ' ELSE ' ' END) || (CASE WHEN available_at > now() THEN 'later ' ELSE "
        "'due ' END) || count(*) AS s FROM " +
        db.table() +
        " GROUP BY status, blocked, last_error, left(locked_by, 12), lease_until > now(), "
        "available_at > now()) x");
  }
  bool is_busy(std::string const& name) override {
    return db.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND state = 'active'",
                  session_name(name)) != "0";
  }
  void end_open_writes(std::string const& name) override {
    db.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND state LIKE 'idle in "
        "transaction%' AND query LIKE '%" +
            db.schema() + ".numbers%'",
        session_name(name));
  }
};

TEST_F(PostgresKeyedCluster, I5_FourNodesKeepTheOrderOfTwoHundredKeys) { four_nodes_keep_the_order(1500); }

TEST_F(PostgresKeyedCluster, I5_OneNodeIsKilledAndOneSleepsThroughItsLease) {
  one_is_killed_and_one_sleeps(2000, 3000, 30'000);
}

}  // namespace
}  // namespace outbox
