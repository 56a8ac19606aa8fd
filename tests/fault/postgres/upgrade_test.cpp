// The path from schema version 1 to 2 on PostgreSQL, beside programs of version 1.
#include <atomic>
#include <sstream>

#include "schema_fixture.hpp"

namespace outbox {
namespace {

class PostgresUpgrade : public PostgresSchema {
 protected:
  void SetUp() override {
    std::ifstream file{OUTBOX_SCHEMA_DIR "/postgres/0001.sql"};
    std::stringstream text;
    text << file.rdbuf();
    psql("SET search_path = " + db.schema() + ";\n" + text.str());
  }
  // The INSERT of version 1.
  static std::string insert_of(std::string const& table, std::string const& id, int status = 0) {
    return "INSERT INTO " + table +
           " (event_id, event_type, aggregate_type, aggregate_id, payload, created_at, available_at, status, done_at) "
           "VALUES ('" +
           id + "', 't', 'order', '1', '1'::json, now(), clock_timestamp(), " + std::to_string(status) +
           ", CASE WHEN " + std::to_string(status) + " IN (1, 3) THEN now() END)";
  }
  void fill() {
    for (int status = 0; status < 4; ++status) db.execute(insert_of(db.table(), "s" + std::to_string(status), status));
  }
  std::string version() {
    return db.ask("SELECT value FROM " + db.table("outbox_meta") + " WHERE name = 'schema_version'");
  }
  std::string indexes(std::string const& name) {
    return db.ask(
        "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid "
        "= c.relnamespace WHERE n.nspname = '" +
        db.schema() + "' AND c.relname = '" + name + "' AND i.indisvalid");
  }
};

TEST_F(PostgresUpgrade, AnEmptyTableIsUpgraded) {
  EXPECT_EQ(migrate().change, migration::kind::upgraded);
  EXPECT_EQ(version(), "2");
  EXPECT_EQ(indexes("outbox_event_ready"), "1");
  EXPECT_EQ(indexes("outbox_event_due"), "0");
  EXPECT_EQ(storage_of_table(), "fillfactor=50");
  EXPECT_EQ(migrate().change, migration::kind::nothing);
  db.execute("ALTER TABLE " + db.table() + " SET (fillfactor = 90)");
  EXPECT_EQ(migrate().change, migration::kind::nothing);
  EXPECT_EQ(storage_of_table(), "fillfactor=90") << "an operator may choose another one";
}

TEST_F(PostgresUpgrade, HasTheColumnsOfANewTable) {
  auto const columns = [&](std::string const& schema) {
    return db.lines(
        "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || coalesce(column_default, '') || "
        "is_nullable FROM information_schema.columns WHERE table_schema = '" +
        schema + "' AND column_default NOT LIKE 'nextval%' OR (table_schema = '" + schema +
        "' AND column_default IS NULL) ORDER BY 1");
  };
  migrate();
  postgres_database fresh;
  static_cast<void>(fresh.open());
  EXPECT_EQ(columns(db.schema()), columns(fresh.schema()));
}

TEST_F(PostgresUpgrade, RowsInEveryStatusAreKeptWhileAVersion1ProcessWrites) {
  fill();
  std::atomic<bool> stop = false;
  std::atomic<int> written = 0;
  {
    std::jthread const writer{[&] {
      postgres::connection c{db.connection()};
      while (!stop) c.execute(insert_of(db.table(), "w" + std::to_string(written++)));
    }};
    EXPECT_TRUE(eventually([&] { return written > 10; }));
    EXPECT_EQ(migrate().change, migration::kind::upgraded);
    auto const after = written.load();
    EXPECT_TRUE(eventually([&] { return written > after + 10; })) << "it goes on afterwards";
    stop = true;
  }
  EXPECT_EQ(version(), "2");
  EXPECT_EQ(indexes("outbox_event_ready"), "1");
  auto const s = db.open();
  auto const c = s->inspect().counts();
  EXPECT_EQ(c.created, static_cast<std::uint64_t>(written) + 1);
  EXPECT_EQ(c.retry, 1U);
  EXPECT_EQ(c.done, 1U);
  EXPECT_EQ(c.dead, 1U);
  EXPECT_EQ(s->inspect().find("w0")->blocked, false);
  EXPECT_THAT(deliver_all(s), ::testing::SizeIs(static_cast<std::size_t>(written) + 2));
}

TEST_F(PostgresUpgrade, TheOldIndexStaysWhileANodeOfVersion1IsLive) {
  fill();
  auto const node = db.table("outbox_node");
  db.execute("INSERT INTO " + node +
             " (incarnation, name, version, mode, lease_ms, held, lease_until) VALUES ('h:1:x', "
             "'old', '0.1', 'multi_node', 30000, 0, now() + interval '1 hour')");
  EXPECT_EQ(migrate().change, migration::kind::upgraded);
  EXPECT_EQ(indexes("outbox_event_due"), "1");
  EXPECT_FALSE(db.open()->inspect().nodes().at(0).started_at) << "that tells its version";
  db.execute("UPDATE " + node + " SET lease_until = now()");
  EXPECT_EQ(migrate().change, migration::kind::nothing);
  EXPECT_EQ(indexes("outbox_event_due"), "0");
}

// A writer that is in no hurry to commit must not stop the others, which wait behind ALTER TABLE.
TEST_F(PostgresUpgrade, WaitsForATransactionThatHasWrittenAndLetsOthersWrite) {
  fill();
  postgres::connection open_transaction{db.connection()};
  open_transaction.execute("BEGIN");
  open_transaction.execute(insert_of(db.table(), "open"));
  std::jthread upgrading{[&] { EXPECT_EQ(migrate().change, migration::kind::upgraded); }};
  EXPECT_TRUE(eventually([&] {
    return db.ask(
               "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'",
               db.schema()) != "0";
  }));
  db.execute(insert_of(db.table(), "other"));  // it would wait until the open transaction ends
  EXPECT_EQ(version(), "1");
  open_transaction.execute("COMMIT");
  upgrading.join();
  EXPECT_EQ(version(), "2");
  EXPECT_THAT(deliver_all(db.open()), ::testing::SizeIs(4));
}

// CREATE INDEX CONCURRENTLY waits for old snapshots, and leaves an index that is not valid if it is cancelled.
TEST_F(PostgresUpgrade, AnInterruptedUpgradeIsCompleted) {
  fill();
  postgres::connection open_transaction{db.connection()};
  open_transaction.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
  static_cast<void>(open_transaction.query<int>("SELECT 1"));
  std::string said;
  std::jthread interrupted{[&] {
    try {
      migrate();
    } catch (error const& e) {
      said = e.what();
    }
  }};
  EXPECT_TRUE(eventually([&] {
    return db.ask(
               "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'CREATE INDEX "
               "CONCURRENTLY%" +
               db.schema() + "%' AND state = 'active' AND wait_event_type = 'Lock'") != "0";
  }));
  interrupted.join();
  EXPECT_THAT(said, HasSubstr("cannot upgrade"));
  EXPECT_EQ(version(), "1");
  EXPECT_EQ(indexes("outbox_event_ready"), "0");
  open_transaction.execute("COMMIT");
  EXPECT_EQ(migrate().change, migration::kind::upgraded);
  EXPECT_EQ(version(), "2");
  EXPECT_EQ(indexes("outbox_event_ready"), "1");
  EXPECT_THAT(deliver_all(db.open()), ::testing::SizeIs(2));
}

TEST_F(PostgresUpgrade, ManyThatUpgradeAtOnceDoNotFail) {
  fill();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i) threads.emplace_back([&] { EXPECT_NO_THROW(migrate()); });
  }
  EXPECT_EQ(version(), "2");
  EXPECT_EQ(indexes("outbox_event_ready"), "1");
}

TEST_F(PostgresUpgrade, WithoutMigrateAnOlderTableIsRefused) {
  auto o = db.options();
  o.migrate = false;
  EXPECT_THAT(refusal([&] { static_cast<void>(postgres::open(db.connection(), o)); }, errc::store_failure),
              HasSubstr("outbox::postgres::migrate()"));
  EXPECT_EQ(version(), "1");
}

// Version 3 will say which libraries may work on it.
TEST_F(PostgresUpgrade, ANewerTableSaysWhetherThisLibraryMayUseIt) {
  migrate();
  auto const set = [&](std::string const& name, std::string const& value) {
    db.execute("UPDATE " + db.table("outbox_meta") + " SET value = '" + value + "' WHERE name = '" + name + "'");
  };
  set("schema_version", "3");
  set("oldest_library", "2");
  EXPECT_NO_THROW(static_cast<void>(db.open()));
  set("oldest_library", "3");
  EXPECT_THAT(refusal([&] { static_cast<void>(db.open()); }, errc::store_failure), HasSubstr("use a newer library"));
}

}  // namespace
}  // namespace outbox
