// The schema on PostgreSQL: made, adopted, refused.
#include "schema_fixture.hpp"

namespace outbox {
namespace {

TEST_F(PostgresSchema, IsCreatedOnceAndThenLeftAlone) {
  EXPECT_EQ(migrate().change, migration::kind::created);
  EXPECT_EQ(storage_of_table(), "fillfactor=50");
  EXPECT_EQ(migrate().change, migration::kind::nothing);
  EXPECT_NO_THROW(static_cast<void>(db.open()));
}

TEST_F(PostgresSchema, AnIndexForAnOrderedNodeIsAddedOnDemand) {
  auto o = db.options();
  o.table = "OrderedTable";
  auto const indexes = [&] {
    return db.ask("SELECT count(*) FROM pg_indexes WHERE schemaname = $1 AND indexname = 'OrderedTable_in_order'",
                  db.schema());
  };
  EXPECT_EQ(postgres::migrate(db.connection(), o).change, migration::kind::created);
  EXPECT_EQ(indexes(), "0");
  o.ordered = true;
  EXPECT_EQ(postgres::migrate(db.connection(), o).change, migration::kind::indexed);
  EXPECT_EQ(indexes(), "1");
  EXPECT_EQ(postgres::migrate(db.connection(), o).change, migration::kind::nothing);
  o.table = "another";
  EXPECT_EQ(postgres::migrate(db.connection(), o).change, migration::kind::created);
}

TEST_F(PostgresSchema, AnInvalidIndexForAnOrderedNodeIsReported) {
  std::vector<std::string> said;
  auto o = db.options();
  o.ordered = true;
  migrate(o);
  db.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = $1::regclass",
             db.table("outbox_event_in_order"));
  o.log = [&](log_line const& line) { said.push_back(line.text()); };
  static_cast<void>(postgres::open(db.connection(), o));
  EXPECT_THAT(said, ::testing::Contains(HasSubstr("outbox_event_in_order is not valid")));
}

TEST_F(PostgresSchema, AnIdThatIsPaddedOrNotUniqueIsRefusedUntouched) {
  auto const columns = [](std::string const& id) {
    return " (event_id " + id +
           ", event_type text NOT NULL, payload json NOT NULL, status smallint NOT NULL, available_at timestamptz NOT "
           "NULL, created_at timestamptz NOT NULL)";
  };
  db.execute("CREATE TABLE " + db.table() + columns("char(36) PRIMARY KEY"));
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("of type character, not varchar"));
  db.execute("DROP TABLE " + db.table());
  db.execute("CREATE TABLE " + db.table() + columns("varchar(36) NOT NULL"));
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("not unique"));
  db.execute("CREATE UNIQUE INDEX ON " + db.table() + " (event_id, status)");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("not unique"));
  EXPECT_THROW(column_type("seq"), std::exception) << "untouched";
  db.execute("CREATE UNIQUE INDEX ON " + db.table() + " (event_id)");
  EXPECT_EQ(migrate().change, migration::kind::adopted);
}

TEST_F(PostgresSchema, CompanionTablesWithoutTheirTableAreAnError) {
  migrate();
  db.execute("DROP TABLE " + db.table());
  EXPECT_THAT(refusal([&] { static_cast<void>(db.open()); }, errc::store_failure), HasSubstr("is gone"));
}

TEST_F(PostgresSchema, ManyThatCreateAtOnceDoNotFail) {
  std::atomic<int> created = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] { created += migrate().change == migration::kind::created ? 1 : 0; });
    }
  }
  EXPECT_EQ(created, 1);
}

TEST_F(PostgresSchema, WithoutMigrateAMissingTableIsAnError) {
  auto o = db.options();
  o.migrate = false;
  auto const text = refusal([&] { static_cast<void>(postgres::open(db.connection(), o)); }, errc::store_failure);
  EXPECT_THAT(text, HasSubstr("outbox::postgres::migrate()"));
}

TEST_F(PostgresSchema, ANewerVersionIsRefused) {
  migrate();
  db.execute("UPDATE " + db.table("outbox_meta") +
             " SET value = '9' WHERE name IN ('schema_version', 'oldest_library')");
  EXPECT_THAT(refusal([&] { static_cast<void>(db.open()); }, errc::store_failure), HasSubstr("version 9"));
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("use a newer library"));
}

TEST_F(PostgresSchema, APlainTableIsAdoptedWithItsRows) {
  make_plain_table("JSON", "TIMESTAMPTZ");
  auto const report = migrate();
  EXPECT_EQ(report.change, migration::kind::adopted);
  EXPECT_TRUE(report.warnings.empty());
  EXPECT_EQ(storage_of_table(), "fillfactor=50");
  auto const s = db.open();
  EXPECT_EQ(s->inspect().find("new")->locked_by, "") << "another program held it";
  EXPECT_EQ(s->inspect().find("new")->event.headers().at("k"), "v");
  EXPECT_LT(s->inspect().find("old")->seq, s->inspect().find("new")->seq) << "by age";
  EXPECT_TRUE(s->inspect().find("done")->done_at) << "purge counts from it";
  EXPECT_THAT(deliver_all(s), ElementsAre("old 1", "new {\"b\": 1, \"a\":2}"));
  EXPECT_EQ(s->inspect().counts().done, 3U);
}

TEST_F(PostgresSchema, I7_AdoptionKeepsTheLocksOfAProgramThatMayStillRun) {
  make_plain_table("JSON", "TIMESTAMPTZ");
  db.execute("UPDATE " + db.table() + " SET locked_by = 'java-1', locked_at = now()");
  auto const s = db.open();
  auto const reply = s->backend().claim({.token = "n/1", .lease = 1h});
  EXPECT_THAT(reply.rows, ::testing::IsEmpty());
  EXPECT_EQ(reply.foreign_owner, "java-1");
  EXPECT_EQ(s->inspect().find("done")->locked_by, "");
}

TEST_F(PostgresSchema, AfterAdoptionNewRowsFollowTheOldOnes) {
  make_plain_table("JSON", "TIMESTAMPTZ");
  auto const s = db.open();
  auto n = multi_node({.store = s, .log = nullptr});
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  n.writer().write(tx, "t", "1", {.id = "later"});
  tx.commit();
  EXPECT_EQ(s->inspect().find("later")->seq, 4);
}

// Defaults are computed in the order of the columns: the transaction has its number before the row has its own.
TEST_F(PostgresSchema, I5_TheTransactionIsNumberedBeforeTheRow) {
  auto const in_order = [&] {
    return db.ask(
        "SELECT (SELECT attnum FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'written_by') < (SELECT "
        "attnum FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'seq')",
        db.table());
  };
  migrate();
  EXPECT_EQ(in_order(), "t");
  db.execute("DROP TABLE " + db.table() + ", " + db.table("outbox_meta") + ", " + db.table("outbox_node"));
  make_plain_table("JSON", "TIMESTAMPTZ");
  migrate();
  EXPECT_EQ(in_order(), "t") << "adopted";
}

TEST_F(PostgresSchema, JsonbIsConverted) {
  make_plain_table("JSONB", "TIMESTAMPTZ");
  EXPECT_TRUE(migrate().warnings.empty());
  EXPECT_EQ(column_type("payload"), "json");
  EXPECT_EQ(column_type("headers"), "json");
  EXPECT_THAT(deliver_all(db.open()), ElementsAre("old 1", "new {\"a\": 2, \"b\": 1}"));
}

TEST_F(PostgresSchema, JsonbThatIsKeptWorksAndIsWarnedOf) {
  make_plain_table("JSONB", "TIMESTAMPTZ");
  auto o = db.options();
  o.adopt_jsonb = postgres::jsonb::keep;
  std::vector<std::string> said;
  o.log = [&](log_line const& line) { said.push_back(line.text()); };
  auto const s = postgres::open(db.connection(), o);
  EXPECT_THAT(said, ::testing::Contains(HasSubstr("payload stays jsonb")));
  EXPECT_EQ(column_type("payload"), "jsonb");
  auto n = multi_node({.store = s, .log = nullptr});
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  n.writer().write(tx, "t", "{\"z\":1,\"y\":2}", {.id = "own", .headers = {{"a", "b"}}});
  tx.commit();
  EXPECT_THAT(deliver_all(s), ElementsAre("old 1", "new {\"a\": 2, \"b\": 1}", "own {\"y\": 2, \"z\": 1}"));
}

TEST_F(PostgresSchema, TimesWithoutAZoneAreTakenForUtc) {
  make_plain_table("JSON", "TIMESTAMP(6)");
  auto const report = migrate();
  EXPECT_THAT(report.warnings, ::testing::Each(HasSubstr("taken for UTC")));
  EXPECT_EQ(report.warnings.size(), 4U);
  auto const at = std::chrono::sys_days{std::chrono::year{2024} / 1 / 2};
  EXPECT_EQ(db.open()->inspect().find("new")->event.occurred_at(), at);
}

TEST_F(PostgresSchema, AnUnrelatedTableIsRefusedUntouched) {
  db.execute("CREATE TABLE " + db.table() + " (id int)");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("not an outbox table"));
  EXPECT_EQ(column_type("id"), "integer");
}

TEST_F(PostgresSchema, ATableWithAnotherRequiredColumnIsRefusedUntouched) {
  make_plain_table("JSON", "TIMESTAMPTZ");
  db.execute("ALTER TABLE " + db.table() + " ADD COLUMN owner_team text NOT NULL DEFAULT 'x'");
  db.execute("ALTER TABLE " + db.table() + " ALTER COLUMN owner_team DROP DEFAULT");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("owner_team"));
  EXPECT_EQ(db.ask("SELECT count(*) FROM information_schema.columns WHERE table_schema = $1", db.schema()), "16");
}

TEST_F(PostgresSchema, ATableWithoutItsCompanionsIsAdopted) {
  migrate();
  db.execute("DROP TABLE " + db.table("outbox_meta") + ", " + db.table("outbox_node"));
  db.execute("DROP INDEX " + db.schema() + ".outbox_event_ended, " + db.schema() + ".outbox_event_dead");
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  EXPECT_NO_THROW(static_cast<void>(db.open()));
}

TEST_F(PostgresSchema, BlankHeadersOfATextColumnMeanNone) {
  make_plain_table("TEXT", "TIMESTAMPTZ");
  db.execute("UPDATE " + db.table() + " SET headers = ' ' WHERE event_id = 'old'");
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  EXPECT_TRUE(db.open()->inspect().find("old")->event.headers().empty());
}

TEST_F(PostgresSchema, AnIdOfAnotherTypeIsRefusedUntouched) {
  db.execute(
      "CREATE TABLE " + db.table() +
      " (event_id uuid, event_type text, payload json, status int, available_at timestamptz, created_at timestamptz)");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("uuid"));
  EXPECT_EQ(column_type("event_id"), "uuid");
}

}  // namespace
}  // namespace outbox
