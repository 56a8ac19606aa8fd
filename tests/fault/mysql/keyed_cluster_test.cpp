// Rule I5 among processes on MariaDB.
#include <map>
#include <utility>

#include "server_fixture.hpp"
#include "support/keyed_cluster_cases.hpp"

namespace outbox {
namespace {

// The base of the cases needs its connection. Each process has an account of its own.
struct has_mysql_database {
  mysql_database db;
  std::map<std::string, mysql_account> accounts;

  mysql_account& account_of(std::string const& name) { return accounts.try_emplace(name, db, name).first->second; }
};

class MysqlKeyedCluster : private has_mysql_database, public keyed_cluster_cases {
 protected:
  MysqlKeyedCluster()
      : keyed_cluster_cases{OUTBOX_KEYED_CHILD, [this](std::string const& name) { return account_of(name).url(); },
                            db.database()} {
    auto o = db.options();
    o.keyed = true;
    static_cast<void>(mysql::open(db.url(), o));
    db.execute("CREATE TABLE " + db.table("numbers") +
               " (name varchar(20) CHARACTER SET utf8mb4 PRIMARY KEY, n int NOT NULL)");
    db.execute("INSERT INTO " + db.table("numbers") + " SELECT concat('k', i - 1), 0 FROM " + numbers_to(cluster.keys));
  }
  std::string count(std::string const& condition) override {
    return db.ask("SELECT count(*) FROM " + db.table() + " WHERE " + condition);
  }
  std::string state() override {
    return db.ask(
        "SELECT coalesce(group_concat(s SEPARATOR '; '), '') FROM (SELECT concat_ws(' ', status, coalesce(blocked, "
        "'-'), coalesce(last_error, '-'), coalesce(left(locked_by, 12), '-'), if(lease_until > utc_timestamp(6), "
        "'live', ''), if(available_at > utc_timestamp(6), 'later', 'due'), count(*)) AS s FROM " +
        db.table() +
        " GROUP BY status, blocked, last_error, left(locked_by, 12), lease_until > utc_timestamp(6), available_at > "
        "utc_timestamp(6)) x");
  }
  bool is_busy(std::string const& name) override {
    return db.ask("SELECT count(*) FROM information_schema.processlist WHERE user = ? AND command <> 'Sleep'",
                  account_of(name).name()) != "0";
  }
  // The store's own transactions are READ COMMITTED; the server ends those that it has left open.
  void end_open_writes(std::string const& name) override {
    auto open = db.lines(
        "SELECT p.id FROM information_schema.innodb_trx JOIN information_schema.processlist p ON p.id = "
        "trx_mysql_thread_id WHERE p.user = ? AND trx_isolation_level = 'REPEATABLE READ' UNION ALL SELECT NULL",
        account_of(name).name());
    std::erase(open, "");
    for (auto const& id : open) db.execute("KILL " + id);
  }
};

TEST_F(MysqlKeyedCluster, I5_FourNodesKeepTheOrderOfTwoHundredKeys) { four_nodes_keep_the_order(1500); }

TEST_F(MysqlKeyedCluster, I5_OneNodeIsKilledAndOneSleepsThroughItsLease) {
  one_is_killed_and_one_sleeps(1500, 3000, 30'000);
}

}  // namespace
}  // namespace outbox
