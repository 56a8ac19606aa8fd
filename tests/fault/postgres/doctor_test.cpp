// What the store finds wrong with a PostgreSQL server and its table: each thing is broken, found, mended and passed.
#include <arpa/inet.h>
#include <ifaddrs.h>

#include "server_fixture.hpp"
#include "support/findings.hpp"

namespace outbox {
namespace {

using spi::finding_level;

class PostgresDoctor : public PostgresServer {
 protected:
  spi::finding found(std::string const& code, spi::finding_limits const& limits = {}) {
    return finding_of(*store, code, limits);
  }
  // Runs what the finding says, line by line, as an operator does.
  void mend(spi::finding const& f) {
    std::string_view rest = f.fix;
    while (!rest.empty()) {
      auto const end = std::min(rest.find('\n'), rest.size());
      db.execute(std::string{rest.substr(0, end)});
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  // A role with these rights, and a store that connects as it.
  std::shared_ptr<outbox::store> open_as(std::string const& role) {
    auto o = db.options();
    o.migrate = false;
    return postgres::open(db.connection() + " user=" + role, o);
  }
  void insert(std::string const& id, std::string const& columns = "", std::string const& values = "") {
    db.execute("INSERT INTO " + db.table() + " (event_id, event_type, payload, available_at, created_at" + columns +
               ") VALUES ('" + id + "', 't', '1', now() - interval '1 hour', now()" + values + ")");
  }
  static spi::finding_limits at_once() {
    spi::finding_limits limits;
    limits.transaction_age = {-1ms, 1h};
    return limits;
  }

  std::shared_ptr<outbox::store> store = db.open();
};

TEST_F(PostgresDoctor, ANewTableIsWell) {
  // The servers of the tests have fsync = off, and their user may do everything.
  EXPECT_THAT(complaints_of(*store), ::testing::IsSupersetOf({"problem fsync", "warning superuser"}));
  for (auto const* const code :
       {"schema_version", "schema_columns", "missing_index", "invalid_index", "claim_plan", "autovacuum",
        "dead_versions", "prepared_transaction", "privileges", "tls", "isolation", "synchronous_commit",
        "read_only_server", "expired_leases", "foreign_owner", "unused_index", "old_transaction", "replication_slot"}) {
    EXPECT_EQ(found(code).level, finding_level::passed) << found(code).text;
  }
}

TEST_F(PostgresDoctor, AnIndexThatIsMissingOrInvalidIsAProblemAndTheFixMakesIt) {
  db.execute("DROP INDEX " + db.table("outbox_event_ended"));
  db.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = '" + db.table("outbox_event_ready") +
             "'::regclass");
  auto const missing = found("missing_index");
  EXPECT_EQ(missing.level, finding_level::problem);
  EXPECT_THAT(missing.text, HasSubstr("outbox_event_ended"));
  auto const invalid = found("invalid_index");
  EXPECT_EQ(invalid.level, finding_level::problem);
  EXPECT_THAT(invalid.text, HasSubstr("outbox_event_ready"));
  EXPECT_EQ(found("claim_plan").level, finding_level::warning) << "no statement uses an invalid index";
  mend(missing);
  mend(invalid);
  for (auto const* const code : {"missing_index", "invalid_index", "claim_plan"}) {
    EXPECT_EQ(found(code).level, finding_level::passed) << code;
  }
}

TEST_F(PostgresDoctor, AKeyedTableNeedsTheIndexesOfKeys) {
  store->backend().set_keyed(true);
  EXPECT_EQ(found("missing_index").level, finding_level::passed);
  for (auto const* const index : {"outbox_event_keyed", "outbox_event_blocked"}) {
    db.execute("DROP INDEX " + db.table(index));
    auto const f = found("missing_index");
    EXPECT_EQ(f.level, finding_level::problem);
    EXPECT_THAT(f.text, HasSubstr(index));
    mend(f);
    EXPECT_EQ(found("missing_index").level, finding_level::passed);
  }
}

TEST_F(PostgresDoctor, AnIndexOfAnotherDefinitionIsNotUsedByAClaim) {
  db.execute("DROP INDEX " + db.table("outbox_event_ready"));
  db.execute("CREATE INDEX outbox_event_ready ON " + db.table() + " (available_at) WHERE status = 7");
  EXPECT_EQ(found("missing_index").level, finding_level::passed);
  auto const f = found("claim_plan");
  EXPECT_EQ(f.level, finding_level::warning);
  mend(f);
  EXPECT_EQ(found("claim_plan").level, finding_level::passed);
}

TEST_F(PostgresDoctor, AnIdThatIsNotUniqueIsAProblem) {
  db.execute("ALTER TABLE " + db.table() + " DROP CONSTRAINT outbox_event_pkey");
  auto const f = found("missing_index");
  EXPECT_EQ(f.level, finding_level::problem);
  mend(f);
  EXPECT_EQ(found("missing_index").level, finding_level::passed);
}

TEST_F(PostgresDoctor, AnIndexThatIsNeverUsedInMuchTrafficIsAWarning) {
  EXPECT_EQ(found("unused_index").level, finding_level::passed);
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at) SELECT 'e' || i, 't', '1', 1, now(), "
             "now() FROM generate_series(1, 11000) i");
  // The server counts with a delay. The checks themselves use the index, so they are not repeated until it has.
  EXPECT_TRUE(eventually([&] {
    return db.ask("SELECT (n_tup_ins >= 11000)::text FROM pg_stat_user_tables WHERE relid = '" + db.table() +
                  "'::regclass") == "true";
  }));
  EXPECT_EQ(found("unused_index").level, finding_level::warning) << found("unused_index").text;
  for (int i = 0; i < 20; ++i)
    static_cast<void>(store->backend().claim({.token = "n/" + std::to_string(i), .lease = 1s}));
  EXPECT_TRUE(eventually([&] { return found("unused_index").level == finding_level::passed; }))
      << found("unused_index").text;
}

TEST_F(PostgresDoctor, ColumnsThatDifferAreFoundAndTheFixMendsThem) {
  db.execute("ALTER TABLE " + db.table() +
             " DROP COLUMN progress, ALTER COLUMN crashes DROP DEFAULT, ALTER COLUMN "
             "payload TYPE jsonb USING payload::jsonb, ALTER COLUMN event_type TYPE text, ALTER COLUMN tenant_id TYPE "
             "varchar(10), ALTER COLUMN done_at TYPE timestamp");
  auto const f = found("schema_columns");
  EXPECT_EQ(f.level, finding_level::problem);
  EXPECT_THAT(f.text, HasSubstr("progress is missing"));
  EXPECT_THAT(f.text, HasSubstr("crashes has no default instead of 0"));
  EXPECT_THAT(f.text, HasSubstr("payload is jsonb instead of json"));
  EXPECT_THAT(f.text, HasSubstr("tenant_id is character varying(10) instead of character varying(64)"));
  EXPECT_THAT(f.text, HasSubstr("done_at is timestamp without time zone"));
  EXPECT_THAT(f.text, ::testing::Not(HasSubstr("event_type"))) << "it holds as much";
  mend(f);
  EXPECT_EQ(found("schema_columns").level, finding_level::passed) << found("schema_columns").text;
}

TEST_F(PostgresDoctor, AColumnOfAnotherProgramThatKeepsInsertsAwayIsAProblem) {
  db.execute("ALTER TABLE " + db.table() + " ADD COLUMN theirs int, ADD COLUMN needed int NOT NULL");
  auto const f = found("schema_columns");
  EXPECT_EQ(f.level, finding_level::problem);
  EXPECT_THAT(f.text, HasSubstr("needed"));
  EXPECT_THAT(f.text, ::testing::Not(HasSubstr("theirs")));
  mend(f);
  EXPECT_EQ(found("schema_columns").level, finding_level::passed);
}

TEST_F(PostgresDoctor, SettingsOfTheRoleAreFound) {
  auto const role = "r" + db.schema();
  db.execute("CREATE ROLE " + role + " LOGIN SUPERUSER");
  auto const with = [&](std::string const& setting) {
    db.execute("ALTER ROLE " + role + " RESET ALL");
    if (!setting.empty()) db.execute("ALTER ROLE " + role + " SET " + setting);
    return open_as(role);
  };
  EXPECT_EQ(finding_of(*with(""), "synchronous_commit").level, finding_level::passed);
  EXPECT_EQ(finding_of(*with("synchronous_commit = off"), "synchronous_commit").level, finding_level::warning);
  EXPECT_EQ(finding_of(*with("default_transaction_isolation = serializable"), "isolation").level, finding_level::note);
  EXPECT_EQ(finding_of(*with(""), "superuser").level, finding_level::warning);
  db.execute("ALTER ROLE " + role + " NOSUPERUSER");
  db.execute("GRANT USAGE ON SCHEMA " + db.schema() + " TO " + role);
  db.execute("GRANT SELECT ON ALL TABLES IN SCHEMA " + db.schema() + " TO " + role);
  auto const s = with("");
  EXPECT_EQ(finding_of(*s, "superuser").level, finding_level::passed);
  s->capabilities();
  db.execute("DROP OWNED BY " + role);
  db.execute("DROP ROLE " + role);
}

TEST_F(PostgresDoctor, MissingRightsAreAProblemAndTheFixGrantsThem) {
  auto const role = "r" + db.schema();
  db.execute("CREATE ROLE " + role + " LOGIN");
  db.execute("GRANT USAGE ON SCHEMA " + db.schema() + " TO " + role);
  db.execute("GRANT SELECT ON " + db.table() + ", " + db.table("outbox_node") + ", " + db.table("outbox_meta") +
             " TO " + role);
  auto const s = open_as(role);
  auto const f = finding_of(*s, "privileges");
  EXPECT_EQ(f.level, finding_level::problem);
  EXPECT_THAT(f.text, HasSubstr("INSERT, UPDATE, DELETE on "));
  mend(f);
  EXPECT_EQ(finding_of(*s, "privileges").level, finding_level::passed);
  auto const hidden = finding_of(*s, "old_transaction");
  EXPECT_EQ(hidden.level, finding_level::skipped) << "this test has a session of another role: " << hidden.text;
  EXPECT_THAT(hidden.fix, HasSubstr("pg_read_all_stats"));
  db.execute("GRANT pg_read_all_stats TO " + role);
  EXPECT_NE(finding_of(*s, "old_transaction").level, finding_level::skipped);
  db.execute("DROP OWNED BY " + role);
  db.execute("DROP ROLE " + role);
}

TEST_F(PostgresDoctor, AutovacuumThatIsOffForTheTableIsAProblem) {
  db.execute("ALTER TABLE " + db.table() + " SET (autovacuum_enabled = false)");
  auto const f = found("autovacuum");
  EXPECT_EQ(f.level, finding_level::problem);
  mend(f);
  EXPECT_EQ(found("autovacuum").level, finding_level::passed);
}

TEST_F(PostgresDoctor, DeadVersionsOfRowsAreCounted) {
  db.execute("ALTER TABLE " + db.table() + " SET (autovacuum_enabled = false)");
  insert("a");
  for (int i = 0; i < 9; ++i) db.execute("UPDATE " + db.table() + " SET attempts = attempts + 1");
  db.execute("ANALYZE " + db.table());
  spi::finding_limits limits;
  limits.dead_versions = {3, 5};
  EXPECT_TRUE(eventually([&] { return found("dead_versions", limits).level == finding_level::problem; }))
      << found("dead_versions", limits).text;
  EXPECT_EQ(found("dead_versions").level, finding_level::passed) << "a large share of few is nothing";
  db.execute("VACUUM " + db.table());
  EXPECT_TRUE(eventually([&] { return found("dead_versions", limits).level == finding_level::passed; }))
      << found("dead_versions", limits).text;
}

TEST_F(PostgresDoctor, AnOldTransactionIsFoundWithItsProcess) {
  postgres::connection other{db.connection()};
  other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
  auto const pid = other.query<std::string>("SELECT pg_backend_pid()::text").at(0);
  EXPECT_TRUE(eventually([&] { return found("old_transaction", at_once()).text.find(pid) != std::string::npos; }))
      << found("old_transaction", at_once()).text << ", not " << pid;
  EXPECT_EQ(found("old_transaction", at_once()).level, finding_level::warning);
  EXPECT_EQ(found("old_transaction").level, finding_level::passed) << "it is young";
  mend(found("old_transaction", at_once()));
  EXPECT_THROW(other.execute("SELECT 1"), error);
}

TEST_F(PostgresDoctor, SettingsAndSlotsOfTheServerAreFound) {
  postgres_server server{{.settings = {"full_page_writes=off", "autovacuum=off", "max_prepared_transactions=2"}}};
  postgres_database here{"postgres", server};
  auto const s = here.open();
  EXPECT_EQ(finding_of(*s, "fsync").level, finding_level::problem) << "as on every server of the tests";
  EXPECT_EQ(finding_of(*s, "full_page_writes").level, finding_level::problem);
  EXPECT_EQ(finding_of(*s, "autovacuum").level, finding_level::problem);
  here.execute("ALTER SYSTEM SET fsync = on");
  here.execute("ALTER SYSTEM SET full_page_writes = on");
  EXPECT_EQ(finding_of(*s, "prepared_transaction").level, finding_level::passed);
  here.execute("BEGIN");
  here.execute("CREATE TABLE " + here.table("x") + " (i int)");
  here.execute("PREPARE TRANSACTION 'it''s old'");
  auto const prepared = finding_of(*s, "prepared_transaction", at_once());
  EXPECT_EQ(prepared.level, finding_level::warning);
  EXPECT_THAT(prepared.fix, HasSubstr("ROLLBACK PREPARED 'it''s old'"));
  here.execute(prepared.fix);
  EXPECT_EQ(finding_of(*s, "prepared_transaction", at_once()).level, finding_level::passed);
  EXPECT_EQ(finding_of(*s, "replication_slot").level, finding_level::passed);
  here.execute("SELECT pg_create_physical_replication_slot('left_behind', true)");
  here.execute("CREATE TABLE " + here.table("y") + " AS SELECT generate_series(1, 10000)");
  spi::finding_limits limits;
  limits.slot_bytes = {1000, 1'000'000'000};
  auto const slot = finding_of(*s, "replication_slot", limits);
  EXPECT_EQ(slot.level, finding_level::warning) << slot.text;
  EXPECT_THAT(slot.text, HasSubstr("left_behind"));
  here.execute(slot.fix);
  EXPECT_EQ(finding_of(*s, "replication_slot", limits).level, finding_level::passed);
}

TEST_F(PostgresDoctor, AStandbyIsAProblem) {
  postgres_server primary{{.settings = {"wal_level=replica"}}};
  postgres_database here{"postgres", primary};
  EXPECT_EQ(finding_of(*here.open(), "read_only_server").level, finding_level::passed);
  postgres_server standby{{.standby_of = &primary}};
  auto o = here.options();
  o.read_only = true;
  EXPECT_TRUE(eventually([&] {
    try {
      return finding_of(*postgres::open(standby.connection(), o), "read_only_server").level == finding_level::problem;
    } catch (error const&) {  // it has not followed so far yet
      return false;
    }
  }));
}

TEST_F(PostgresDoctor, AConnectionThatLeavesTheMachineWithoutEncryptionIsAWarning) {
  EXPECT_EQ(found("tls").level, finding_level::passed) << "it goes to this machine";
  std::string address;
  ::ifaddrs* all = nullptr;
  ASSERT_EQ(::getifaddrs(&all), 0);
  for (auto const* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    char text[INET_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET, &reinterpret_cast<::sockaddr_in const*>(i->ifa_addr)->sin_addr, text, sizeof text);
    if (!std::string_view{text}.starts_with("127.")) address = text;
  }
  ::freeifaddrs(all);
  if (address.empty()) GTEST_SKIP() << "this machine has no address but its own";
  postgres_server server{{.settings = {"listen_addresses=*"}}};
  std::ofstream{server.directory() + "/data/pg_hba.conf", std::ios::app} << "host all all 0.0.0.0/0 trust\n";
  postgres_database here{"postgres", server};
  here.execute("SELECT pg_reload_conf()");
  auto o = here.options();
  auto const remote = here.connection() + " host=" + address;
  std::string said;
  EXPECT_TRUE(eventually([&] {
    try {
      auto const f = finding_of(*postgres::open(remote, o), "tls");
      said = f.text;
      return f.level == finding_level::warning;
    } catch (error const& e) {  // the rules are being read again
      said = e.what();
      return false;
    }
  })) << said;
}

TEST_F(PostgresDoctor, LeasesPastTheirEndAndForeignOwnersAreFound) {
  EXPECT_EQ(found("expired_leases").level, finding_level::passed);
  insert("a", ", locked_by, locked_at, lease_until", ", 'gone:1:x/7', now(), now() - interval '10 minutes'");
  insert("b", ", locked_by, locked_at", ", 'java-7', now()");
  insert("c", ", locked_by, locked_at, lease_until", ", 'n:1:x/7', now(), now() + interval '1 minute'");
  EXPECT_EQ(found("expired_leases").level, finding_level::problem);
  EXPECT_THAT(found("expired_leases").text, HasSubstr("1 of 3 pending rows"));
  EXPECT_EQ(found("foreign_owner").level, finding_level::problem);
  EXPECT_THAT(found("foreign_owner").text, HasSubstr("'java-7'"));
  db.execute(found("foreign_owner").fix.substr(0, found("foreign_owner").fix.find(';')));
  db.execute("UPDATE " + db.table() + " SET locked_by = NULL, lease_until = NULL");
  EXPECT_EQ(found("expired_leases").level, finding_level::passed);
  EXPECT_EQ(found("foreign_owner").level, finding_level::passed);
}

}  // namespace
}  // namespace outbox
