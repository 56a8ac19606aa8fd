// What the store finds wrong with a MariaDB server and its table: each thing is broken, found, mended and passed.
#include <thread>

#include "server_fixture.hpp"
#include "support/findings.hpp"

namespace outbox {
namespace {

using spi::finding_level;

class MysqlDoctor : public MysqlServer {
 protected:
  spi::finding found(std::string const& code, spi::finding_limits const& limits = {}) {
    return finding_of(*store, code, limits);
  }
  // Runs what the finding says, line by line, as an operator does.
  void mend(spi::finding const& f) {
    std::string_view rest = f.fix;
    while (!rest.empty()) {
      auto const end = std::min(rest.find('\n'), rest.size());
      auto const line = rest.substr(0, end);
      db.execute(std::string{line.substr(0, line.rfind(';'))});
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  void insert(std::string const& id, std::string const& columns = "", std::string const& values = "") {
    db.execute("INSERT INTO " + db.table() + " (event_id, event_type, payload, available_at, created_at" + columns +
               ") VALUES ('" + id + "', 't', '1', utc_timestamp(6) - INTERVAL 1 HOUR, utc_timestamp(6)" + values + ")");
  }
  // Asks until it is so. InnoDB gives the same list of transactions again to a program that asks within 100 ms of the
  // last time, so this asks less often.
  template <class F>
  static bool listed(F&& is_so) {
    return eventually([&] {
      std::this_thread::sleep_for(150ms);
      return is_so();
    });
  }
  static spi::finding_limits at_once() {
    spi::finding_limits limits;
    limits.transaction_age = {-1ms, 1h};
    return limits;
  }

  std::shared_ptr<outbox::store> store = db.open();
};

TEST_F(MysqlDoctor, ANewTableIsWell) {
  for (auto const& f : store->backend().findings()) {
    if (f.code == "superuser" || f.code == "old_transaction" || f.code == "isolation") continue;
    if (f.code.starts_with("innodb_") || f.code == "sync_binlog") continue;  // those of the test's server
    EXPECT_EQ(f.level, finding_level::passed) << f.code << ": " << f.text;
  }
  EXPECT_EQ(found("superuser").level, finding_level::warning) << "the user of the tests may do everything";
}

TEST_F(MysqlDoctor, AnIndexThatIsMissingOrDifferentIsFoundAndTheFixMakesIt) {
  db.execute("ALTER TABLE " + db.table() + " DROP INDEX outbox_event_due");
  db.execute("ALTER TABLE " + db.table() + " DROP INDEX outbox_event_ended, ADD INDEX outbox_event_ended (status)");
  auto const missing = found("missing_index");
  EXPECT_EQ(missing.level, finding_level::problem);
  EXPECT_THAT(missing.text, HasSubstr("outbox_event_due"));
  EXPECT_EQ(found("claim_plan").level, finding_level::skipped) << "its statement names the index";
  EXPECT_EQ(found("expired_leases").level, finding_level::skipped);
  auto const differs = found("index_definition");
  EXPECT_EQ(differs.level, finding_level::warning);
  EXPECT_THAT(differs.text, HasSubstr("outbox_event_ended (status)"));
  mend(missing);
  mend(differs);
  for (auto const* const code : {"missing_index", "index_definition", "claim_plan", "expired_leases"}) {
    EXPECT_EQ(found(code).level, finding_level::passed) << code << ": " << found(code).text;
  }
}

TEST_F(MysqlDoctor, ColumnsThatDifferAreFoundAndTheFixMendsThem) {
  db.execute("ALTER TABLE " + db.table() +
             " DROP COLUMN progress, MODIFY COLUMN crashes int NOT NULL, MODIFY COLUMN tenant_id varchar(10), MODIFY "
             "COLUMN event_type varchar(200) NOT NULL, ADD COLUMN needed int NOT NULL");
  auto const f = found("schema_columns");
  EXPECT_EQ(f.level, finding_level::problem);
  EXPECT_THAT(f.text, HasSubstr("progress is missing"));
  EXPECT_THAT(f.text, HasSubstr("crashes has no default instead of 0"));
  EXPECT_THAT(f.text, HasSubstr("tenant_id is varchar(10) instead of varchar(64)"));
  EXPECT_THAT(f.text, HasSubstr("needed is of another program"));
  EXPECT_THAT(f.text, Not(HasSubstr("event_type"))) << "it holds as much";
  mend(f);
  EXPECT_EQ(found("schema_columns").level, finding_level::passed) << found("schema_columns").text;
}

TEST_F(MysqlDoctor, AnotherCollationIsFound) {
  db.execute("ALTER TABLE " + db.table() + " MODIFY COLUMN tenant_id varchar(64) COLLATE utf8mb4_general_ci");
  EXPECT_EQ(found("schema_columns").level, finding_level::warning);
  EXPECT_THAT(found("schema_columns").text, HasSubstr("utf8mb4_general_ci"));
}

TEST_F(MysqlDoctor, AnEngineWithoutTransactionsIsAProblem) {
  EXPECT_EQ(found("table_engine").level, finding_level::passed);
  db.execute("ALTER TABLE " + db.table("outbox_audit") + " ENGINE = MyISAM");
  auto const f = found("table_engine");
  EXPECT_EQ(f.level, finding_level::problem);
  EXPECT_THAT(f.text, HasSubstr("outbox_audit has MyISAM"));
  mend(f);
  EXPECT_EQ(found("table_engine").level, finding_level::passed);
}

TEST_F(MysqlDoctor, MissingRightsAreAProblemAndTheFixGrantsThem) {
  auto const user = "u" + db.database();
  db.execute("CREATE USER " + user + "@'%'");
  db.execute("GRANT SELECT ON " + db.database() + ".* TO " + user + "@'%'");
  auto o = db.options();
  o.migrate = false;
  auto url = db.url();
  auto const begin = url.find("://") + 3;
  url.replace(begin, url.find('@') - begin, user);
  auto const s = mysql::open(url, o);
  auto const f = finding_of(*s, "privileges");
  EXPECT_EQ(f.level, finding_level::problem) << f.text;
  EXPECT_THAT(f.text, HasSubstr("INSERT, UPDATE, DELETE on "));
  EXPECT_EQ(finding_of(*s, "superuser").level, finding_level::passed);
  auto const hidden = finding_of(*s, "old_transaction");
  EXPECT_EQ(hidden.level, finding_level::skipped);
  EXPECT_THAT(hidden.fix, HasSubstr("PROCESS"));
  mend(f);
  EXPECT_EQ(finding_of(*mysql::open(url, o), "privileges").level, finding_level::passed);
  db.execute("DROP USER " + user + "@'%'");
}

TEST_F(MysqlDoctor, AnOldTransactionIsFoundWithItsSession) {
  mysql::connection other{db.url()};
  insert("a");
  other.execute("START TRANSACTION");
  other.execute("UPDATE " + db.table() + " SET attempts = 1");
  auto const id = other.query<std::string>("SELECT connection_id()").at(0);
  EXPECT_TRUE(listed([&] { return found("old_transaction", at_once()).fix == "KILL " + id + ";"; }))
      << found("old_transaction", at_once()).text << ", not " << id;
  auto const f = found("old_transaction", at_once());
  EXPECT_EQ(f.level, finding_level::warning);
  EXPECT_EQ(found("old_transaction").level, finding_level::passed) << "it is young";
  db.execute("KILL " + id);
  EXPECT_THROW(other.execute("DO 0"), error);
}

TEST_F(MysqlDoctor, SettingsAndPreparedTransactionsOfTheServerAreFound) {
  mysql_server server{{.settings = {"log-bin=bin", "server-id=1", "binlog-format=ROW", "innodb-doublewrite=0"}}};
  mysql_database here{server};
  auto const s = here.open();
  auto const level = [&](std::string const& code, spi::finding_limits const& limits = {}) {
    return finding_of(*s, code, limits).level;
  };
  EXPECT_EQ(level("innodb_doublewrite"), finding_level::warning);
  for (std::string const name : {"innodb_flush_log_at_trx_commit", "sync_binlog"}) {
    here.execute("SET GLOBAL " + name + " = 0");
    EXPECT_EQ(level(name), finding_level::warning);
    here.execute(finding_of(*s, name).fix);
    EXPECT_EQ(level(name), finding_level::passed);
  }
  here.execute("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE");
  EXPECT_EQ(level("isolation"), finding_level::note);
  here.execute(finding_of(*s, "isolation").fix);
  EXPECT_EQ(level("isolation"), finding_level::passed);
  spi::finding_limits limits;
  EXPECT_EQ(level("history_length"), finding_level::passed);
  limits.history = {0, 1'000'000};
  {
    mysql::connection snapshot{here.url()};
    snapshot.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    for (int i = 0; i < 10; ++i)
      here.execute("UPDATE " + here.table("outbox_meta") + " SET value = value + 0 WHERE name = 'keyed'");
    here.execute("UPDATE " + here.table("outbox_meta") + " SET value = '7' WHERE name = 'keyed'");
    here.execute("UPDATE " + here.table("outbox_meta") + " SET value = '0' WHERE name = 'keyed'");
    EXPECT_TRUE(eventually([&] { return level("history_length", limits) == finding_level::warning; }));
  }
  EXPECT_EQ(level("prepared_transaction", at_once()), finding_level::passed);
  {
    mysql::connection other{here.url()};
    other.execute("XA START 'left'");
    other.execute("UPDATE " + here.table("outbox_meta") + " SET value = '1' WHERE name = 'keyed'");
    other.execute("XA END 'left'");
    other.execute("XA PREPARE 'left'");
  }
  EXPECT_TRUE(listed([&] { return level("prepared_transaction", at_once()) == finding_level::warning; }))
      << finding_of(*s, "prepared_transaction", at_once()).text;
  EXPECT_THAT(finding_of(*s, "prepared_transaction", at_once()).fix, HasSubstr("XA ROLLBACK 'left'"));
  here.execute("XA ROLLBACK 'left'");
  EXPECT_EQ(level("prepared_transaction", at_once()), finding_level::passed);
  EXPECT_EQ(level("read_only_server"), finding_level::passed);
  here.execute("SET GLOBAL read_only = ON");
  EXPECT_EQ(level("read_only_server"), finding_level::problem);
  here.execute("SET GLOBAL read_only = OFF");
}

TEST_F(MysqlDoctor, LeasesPastTheirEndAndForeignOwnersAreFound) {
  EXPECT_EQ(found("expired_leases").level, finding_level::passed);
  insert("a", ", locked_by, locked_at, lease_until",
         ", 'gone:1:x/7', utc_timestamp(6), utc_timestamp(6) - INTERVAL 10 MINUTE");
  insert("b", ", locked_by, locked_at", ", 'java-7', utc_timestamp(6)");
  EXPECT_EQ(found("expired_leases").level, finding_level::problem);
  EXPECT_THAT(found("expired_leases").text, HasSubstr("1 of 2 pending rows"));
  EXPECT_EQ(found("foreign_owner").level, finding_level::problem);
  EXPECT_THAT(found("foreign_owner").text, HasSubstr("'java-7'"));
  db.execute("UPDATE " + db.table() + " SET locked_by = NULL, lease_until = NULL");
  EXPECT_EQ(found("expired_leases").level, finding_level::passed);
  EXPECT_EQ(found("foreign_owner").level, finding_level::passed);
}

}  // namespace
}  // namespace outbox
