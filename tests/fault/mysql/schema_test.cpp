// The schema on MariaDB: made, adopted, refused.
#include "schema_fixture.hpp"

#include <fstream>
#include <sstream>

namespace outbox {
namespace {

constexpr auto our_tables = "outbox_audit, outbox_event, outbox_meta, outbox_node";
constexpr auto our_indexes = "PRIMARY, outbox_event_due, outbox_event_ended, outbox_event_id";

TEST_F(MysqlSchema, IsCreatedOnceAndThenLeftAlone) {
  EXPECT_EQ(migrate().change, migration::kind::created);
  EXPECT_EQ(tables(), our_tables);
  EXPECT_EQ(indexes(), our_indexes);
  EXPECT_EQ(db.ask("SELECT value FROM " + db.table("outbox_meta") + " WHERE name = 'schema_version'"), "2");
  auto const id = db.ask("SELECT value FROM " + db.table("outbox_meta") + " WHERE name = 'table_id'");
  EXPECT_EQ(id.size(), 36U);
  EXPECT_EQ(migrate().change, migration::kind::nothing);
  EXPECT_EQ(db.ask("SELECT value FROM " + db.table("outbox_meta") + " WHERE name = 'table_id'"), id);
  EXPECT_NO_THROW(static_cast<void>(db.open()));
}

// Whatever the default of the database is, which is latin1 here.
TEST_F(MysqlSchema, EveryTextComparesBytes) {
  migrate();
  EXPECT_EQ(db.ask("SELECT count(*) FROM information_schema.columns WHERE table_schema = ? AND character_set_name IS "
                   "NOT NULL AND (character_set_name <> 'utf8mb4' OR collation_name NOT LIKE '%\\_bin')",
                   db.database()),
            "0");
  EXPECT_EQ(db.ask("SELECT count(DISTINCT engine) FROM information_schema.tables WHERE table_schema = ? AND engine = "
                   "'InnoDB'",
                   db.database()),
            "1");
}

TEST_F(MysqlSchema, OpenCreatesWhatIsMissing) {
  write_one(db.open(), "a");
  EXPECT_EQ(tables(), our_tables);
  EXPECT_THAT(deliver_all(db.open()), ElementsAre("a 1"));
}

// The file that people read, sent by their client.
TEST_F(MysqlSchema, TheFileOfTheSchemaIsTheSchema) {
  std::ifstream file{OUTBOX_SCHEMA_DIR "/mysql/0002.sql"};
  std::stringstream text;
  text << file.rdbuf();
  mysql::connection c{db.url()};
  auto sql = text.str();
  sql.erase(sql.rfind(';'));
  c.execute(sql);
  auto o = db.options();
  o.migrate = false;
  EXPECT_NO_THROW(static_cast<void>(mysql::open(db.url(), o)));
  EXPECT_EQ(migrate().change, migration::kind::nothing);
  auto const by_hand = db.lines(
      "SELECT concat_ws('|', table_name, column_name, column_type, is_nullable, "
      "coalesce(column_default, '-'), coalesce(collation_name, '-'), extra, "
      "coalesce(generation_expression, '-')) FROM information_schema.columns WHERE "
      "table_schema = ? ORDER BY table_name, ordinal_position",
      db.database());
  mysql_database other;
  mysql::migrate(other.url(), other.options());
  EXPECT_EQ(other.lines("SELECT concat_ws('|', table_name, column_name, column_type, is_nullable, "
                        "coalesce(column_default, '-'), coalesce(collation_name, '-'), extra, "
                        "coalesce(generation_expression, '-')) FROM information_schema.columns WHERE table_schema = ? "
                        "ORDER BY table_name, ordinal_position",
                        other.database()),
            by_hand);
}

TEST_F(MysqlSchema, WithoutMigrateAMissingTableIsAnErrorThatSaysWhatToDo) {
  auto o = db.options();
  o.migrate = false;
  auto const text = refusal([&] { static_cast<void>(mysql::open(db.url(), o)); }, errc::store_failure);
  EXPECT_THAT(text, HasSubstr("'outbox_event' in database '" + db.database() + "'"));
  EXPECT_THAT(text, HasSubstr("outbox::mysql::migrate()"));
  EXPECT_THAT(text, HasSubstr(".migrate = true"));
  EXPECT_EQ(tables(), "");
  make_plain_table({});
  fill_plain_table();
  refusal([&] { static_cast<void>(mysql::open(db.url(), o)); }, errc::store_failure);
  EXPECT_EQ(column("seq"), "") << "untouched";
  migrate();
  EXPECT_NO_THROW(static_cast<void>(mysql::open(db.url(), o)));
}

TEST_F(MysqlSchema, ANewerVersionIsRefused) {
  migrate();
  auto const set = [&](std::string const& version, std::string const& oldest) {
    db.execute("UPDATE " + db.table("outbox_meta") +
                   " SET value = if(name = 'schema_version', ?, ?) WHERE name IN ('schema_version', 'oldest_library')",
               version, oldest);
  };
  set("9", "9");
  EXPECT_THAT(refusal([&] { static_cast<void>(db.open()); }, errc::store_failure), HasSubstr("version 9"));
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("use a newer library"));
  auto o = db.options();
  o.migrate = false;
  refusal([&] { static_cast<void>(mysql::open(db.url(), o)); }, errc::store_failure);
  set("9", "2");
  EXPECT_NO_THROW(static_cast<void>(db.open())) << "it allows this library";
}

TEST_F(MysqlSchema, CompanionTablesWithoutTheirTableAreAnError) {
  migrate();
  db.execute("DROP TABLE " + db.table());
  EXPECT_THAT(refusal([&] { static_cast<void>(db.open()); }, errc::store_failure), HasSubstr("is gone"));
}

TEST_F(MysqlSchema, ACompanionWithoutItsIdentityIsAnError) {
  migrate();
  db.execute("DELETE FROM " + db.table("outbox_meta") + " WHERE name = 'table_id'");
  EXPECT_THAT(refusal([&] { static_cast<void>(db.open()); }, errc::store_failure), HasSubstr("table_id"));
}

// The instants that claims and purges look for. Times are given as hours of one day.
TEST_F(MysqlSchema, GeneratedColumnsHaveTheInstantsThatCount) {
  migrate();
  struct row {
    std::string status, blocked, available, lease, done, inserted, due, ended;
  };
  for (auto const& r : std::vector<row>{{"0", "0", "1", "NULL", "NULL", "3", "1", "-"},
                                        {"2", "0", "1", "NULL", "NULL", "3", "1", "-"},
                                        {"0", "0", "1", "2", "NULL", "3", "2", "-"},
                                        {"2", "0", "2", "1", "NULL", "3", "2", "-"},
                                        {"0", "1", "1", "NULL", "NULL", "3", "-", "-"},
                                        {"0", "NULL", "1", "NULL", "NULL", "3", "1", "-"},
                                        {"1", "0", "1", "2", "4", "3", "-", "4"},
                                        {"3", "NULL", "1", "NULL", "4", "3", "-", "4"},
                                        {"1", "0", "1", "NULL", "NULL", "3", "-", "3"},
                                        {"3", "0", "1", "NULL", "NULL", "NULL", "-", "5"},
                                        {"7", "0", "1", "NULL", "4", "3", "-", "-"}}) {
    auto const at = [](std::string const& hour) {
      return hour == "NULL" ? hour : "'2024-01-01 0" + hour + ":00:00.000001'";
    };
    db.execute("INSERT INTO " + db.table() +
               " (event_id, event_type, payload, status, blocked, available_at, lease_until, done_at, inserted_at, "
               "created_at) VALUES ('x', 't', '1', " +
               r.status + ", " + r.blocked + ", " + at(r.available) + ", " + at(r.lease) + ", " + at(r.done) + ", " +
               at(r.inserted) + ", " + at("5") + ")");
    EXPECT_EQ(
        db.ask("SELECT concat(coalesce(hour(due_at), '-'), ' ', coalesce(hour(ended_at), '-')) FROM " + db.table()),
        r.due + " " + r.ended)
        << "status " << r.status << ", blocked " << r.blocked << ", lease " << r.lease;
    EXPECT_EQ(db.ask("SELECT coalesce(microsecond(coalesce(due_at, ended_at)), 1) FROM " + db.table()), "1");
    db.execute("DELETE FROM " + db.table());
  }
}

// What a program inserts that knows only the columns of the specification.
TEST_F(MysqlSchema, EverythingElseHasADefault) {
  migrate();
  db.execute("SET time_zone = '-08:00'");
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, available_at, created_at) VALUES ('a', 't', '1', '2024-01-01', "
             "'2024-01-01')");
  EXPECT_EQ(db.ask("SELECT concat_ws('|', seq, status, attempts, crashes, blocked, locked_by IS NULL, lease_until IS "
                   "NULL, done_at IS NULL, content_type IS NULL, payload_bytes IS NULL, progress IS NULL, ordering_key "
                   "IS NULL) FROM " +
                   db.table()),
            "1|0|0|0|0|1|1|1|1|1|1|1");
  EXPECT_EQ(db.ask("SELECT abs(timestampdiff(MINUTE, inserted_at, utc_timestamp(6))) < 5 FROM " + db.table()), "1")
      << "in UTC";
}

// Several at once.

TEST_F(MysqlSchema, ManyThatCreateAtOnceDoNotFail) {
  std::atomic<int> created = 0, nothing = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        auto const change = migrate().change;
        created += change == migration::kind::created ? 1 : 0;
        nothing += change == migration::kind::nothing ? 1 : 0;
      });
    }
  }
  EXPECT_EQ(created, 1);
  EXPECT_EQ(nothing, 7);
}

TEST_F(MysqlSchema, ManyThatAdoptAtOnceDoNotFail) {
  make_plain_table({});
  fill_plain_table();
  std::atomic<int> adopted = 0, opened = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] { adopted += migrate().change == migration::kind::adopted ? 1 : 0; });
      threads.emplace_back([&] { opened += db.open() != nullptr ? 1 : 0; });
    }
  }
  EXPECT_LE(adopted, 1);
  EXPECT_EQ(opened, 4);
  EXPECT_THAT(ids_by_seq(), ElementsAre("old", "early", "new", "done", "ended", "dead"));
}

TEST_F(MysqlSchema, WhoeverChangesTheSchemaTooLongIsNotWaitedForWithoutEnd) {
  mysql::connection other{db.url()};
  auto const name =
      other.query_one<std::string>("SELECT concat('outbox.migrate.', sha1(?))", db.database() + ".outbox_event");
  ASSERT_EQ(other.query_one<int>("SELECT get_lock(?, 0)", name), 1);
  auto o = db.options();
  o.timeout = 100ms;
  EXPECT_THAT(refusal([&] { migrate(o); }, errc::unavailable), HasSubstr("another process"));
  o.table = "billing";
  EXPECT_EQ(migrate(o).change, migration::kind::created) << "another table";
}

// Adoption.

TEST_F(MysqlSchema, APlainTableIsAdoptedWithItsRows) {
  make_plain_table({});
  fill_plain_table();
  auto const before = plain_rows();
  auto const report = migrate();
  EXPECT_EQ(report.change, migration::kind::adopted);
  EXPECT_THAT(report.warnings, IsEmpty());
  EXPECT_EQ(plain_rows(), before) << "byte for byte";
  EXPECT_EQ(tables(), our_tables);
  EXPECT_EQ(indexes(), std::string{"PRIMARY, idx_status_available, "} + (our_indexes + 9));
  EXPECT_THAT(ids_by_seq(), ElementsAre("old", "early", "new", "done", "ended", "dead"))
      << "by created_at, and then by event_id";
  auto const s = db.open();
  EXPECT_EQ(s->inspect().find("new")->locked_by, "") << "nothing tells when it was locked";
  EXPECT_EQ(s->inspect().find("new")->event.headers().at("k"), "v");
  EXPECT_EQ(s->inspect().find("new")->event.tenant(), "ten");
  EXPECT_EQ(s->inspect().find("old")->attempts, 3);
  EXPECT_EQ(s->inspect().find("old")->last_error, "why");
  EXPECT_EQ(s->inspect().find("done")->done_at, s->inspect().find("done")->event.occurred_at())
      << "purge counts from it";
  EXPECT_EQ(s->inspect().find("dead")->done_at, s->inspect().find("dead")->event.occurred_at());
  EXPECT_EQ(db.ask("SELECT done_at FROM " + db.table() + " WHERE event_id = 'ended'"), "2024-02-04 10:00:00.500000");
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE inserted_at <> created_at"), "0")
      << "nothing else is known";
  EXPECT_THAT(deliver_all(s), ElementsAre("old 1", "early 1", "new {\"b\": 1,   \"a\":2, \"b\": 1.0e0}"));
  EXPECT_EQ(s->inspect().counts().done, 5U);
  EXPECT_EQ(s->backend().purge({.retention = 24h * 365, .dead = true}), 3U) << "what has just ended is young";
  EXPECT_EQ(migrate().change, migration::kind::nothing);
}

// Apart from its order of columns and its old index, it is the table that would have been made.
TEST_F(MysqlSchema, AnAdoptedTableHasTheColumnsOfANewOne) {
  auto const columns = [&](mysql_database& of) {
    return of.lines(
        "SELECT concat_ws('|', column_name, column_type, is_nullable, coalesce(column_default, '-'), "
        "coalesce(collation_name, '-'), extra, coalesce(generation_expression, '-')) FROM "
        "information_schema.columns WHERE table_schema = ? AND table_name = 'outbox_event' ORDER BY "
        "column_name",
        of.database());
  };
  mysql_database other;
  mysql::migrate(other.url(), other.options());
  for (auto const* const json : {"JSON", "LONGTEXT", "TEXT"}) {
    make_plain_table({.json = json});
    fill_plain_table();
    migrate();
    EXPECT_EQ(columns(db), columns(other)) << json;
    db.execute("DROP TABLE " + db.table() + ", " + db.table("outbox_meta") + ", " + db.table("outbox_node") + ", " +
               db.table("outbox_audit"));
  }
}

TEST_F(MysqlSchema, I7_AdoptionKeepsTheLocksOfAProgramThatMayStillRun) {
  make_plain_table({});
  fill_plain_table();
  db.execute("UPDATE " + db.table() + " SET locked_by = 'java-1', locked_at = utc_timestamp(6)");
  auto const s = db.open();
  auto const reply = s->backend().claim({.token = "n/1", .lease = 1h});
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_EQ(reply.foreign_owner, "java-1");
  EXPECT_EQ(s->inspect().find("done")->locked_by, "");
  EXPECT_EQ(s->inspect().find("old")->locked_by, "java-1");
  db.execute("UPDATE " + db.table() + " SET locked_at = utc_timestamp(6) - INTERVAL 2 HOUR WHERE status IN (0, 2)");
  EXPECT_EQ(s->backend().claim({.token = "n/2", .lease = 1h}).rows.size(), 3U) << "for as long as a lease";
}

TEST_F(MysqlSchema, AfterAdoptionNewRowsFollowTheOldOnes) {
  make_plain_table({});
  fill_plain_table();
  auto const s = db.open();
  write_one(s, "later");
  EXPECT_EQ(s->inspect().find("later")->seq, 7);
}

TEST_F(MysqlSchema, AnEmptyTableIsAdopted) {
  make_plain_table({});
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  auto const s = db.open();
  write_one(s, "first");
  EXPECT_EQ(s->inspect().find("first")->seq, 1);
  EXPECT_THAT(deliver_all(s), ElementsAre("first 1"));
}

TEST_F(MysqlSchema, ColumnsAndIndexesOfOthersStay) {
  make_plain_table({.more = ", trace_id VARCHAR(50) CHARACTER SET latin1 DEFAULT 'none', team INT, "
                            "doubled INT AS (attempts * 2) VIRTUAL, made TIMESTAMP DEFAULT CURRENT_TIMESTAMP"});
  db.execute("CREATE INDEX by_team ON " + db.table() + " (team, event_type)");
  fill_plain_table();
  db.execute("UPDATE " + db.table() +
             " SET trace_id = 'tr\xC3\xA4"
             "ce', team = 5");
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  EXPECT_THAT(indexes(), HasSubstr("by_team"));
  EXPECT_EQ(column("trace_id", "concat(column_type, ' ', character_set_name)"), "varchar(50) latin1");
  EXPECT_EQ(db.ask("SELECT concat(trace_id, team, doubled) FROM " + db.table() + " WHERE event_id = 'old'"),
            "tr\xC3\xA4"
            "ce56");
  auto const s = db.open();
  write_one(s, "later");
  EXPECT_EQ(db.ask("SELECT trace_id FROM " + db.table() + " WHERE event_id = 'later'"), "none");
  EXPECT_EQ(deliver_all(s).size(), 4U);
}

// The same columns for the server, whatever letters the DDL had.
TEST_F(MysqlSchema, CapitalLettersOfTheDdlDoNotMatter) {
  db.execute("CREATE TABLE " + db.table() +
             " (EVENT_ID VARCHAR(36) PRIMARY KEY, EVENT_TYPE VARCHAR(128) NOT NULL, AGGREGATE_TYPE VARCHAR(64), "
             "AGGREGATE_ID VARCHAR(128), TENANT_ID VARCHAR(64), PAYLOAD JSON NOT NULL, HEADERS JSON, STATUS TINYINT "
             "NOT NULL, ATTEMPTS INT NOT NULL DEFAULT 0, AVAILABLE_AT DATETIME(6) NOT NULL, CREATED_AT DATETIME(6) NOT "
             "NULL, DONE_AT DATETIME(6), LAST_ERROR TEXT, LOCKED_BY VARCHAR(128), LOCKED_AT DATETIME(6))");
  fill_plain_table();
  auto const before = plain_rows();
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  EXPECT_EQ(plain_rows(), before);
  EXPECT_EQ(deliver_all(db.open()).size(), 3U);
}

TEST_F(MysqlSchema, I11_AnotherCharacterSetIsConverted) {
  for (auto const* const set : {"latin1", "utf8mb3", "cp1250", "utf8mb4"}) {
    auto const options = std::string{"CHARACTER SET "} + set;
    make_plain_table({.id = "VARCHAR(36) " + options + " PRIMARY KEY",
                      .text_options = options,
                      .json = "LONGTEXT " + options,
                      .table_options = "DEFAULT " + options});
    fill_plain_table();
    std::string const umlauts = "\xC3\xA4\xC3\xB6\xC3\xBC \xC3\x9F";
    db.execute("UPDATE " + db.table() +
                   " SET event_id = ?, event_type = ?, aggregate_id = ?, payload = ?, headers = ?, last_error = ?, "
                   "locked_by = ?, locked_at = utc_timestamp(6) WHERE event_id = 'old'",
               umlauts, umlauts, umlauts, "\"" + umlauts + "\"", R"({"k":")" + umlauts + "\"}", umlauts, umlauts);
    auto const before = plain_rows();
    EXPECT_EQ(migrate().change, migration::kind::adopted) << set;
    EXPECT_EQ(plain_rows(), before) << set;
    auto const found = db.open()->inspect().find(umlauts);
    ASSERT_TRUE(found) << set;
    EXPECT_EQ(found->event.type(), umlauts) << set;
    EXPECT_EQ(found->event.payload(), "\"" + umlauts + "\"") << set;
    EXPECT_EQ(found->event.headers().at("k"), umlauts) << set;
    EXPECT_EQ(found->last_error, umlauts) << set;
    EXPECT_EQ(found->locked_by, umlauts) << set;
    write_one(db.open(), "\xF0\x9F\x9A\x80");
    EXPECT_TRUE(db.open()->inspect().find("\xF0\x9F\x9A\x80")) << set;
    db.execute("DROP TABLE " + db.table() + ", " + db.table("outbox_meta") + ", " + db.table("outbox_node") + ", " +
               db.table("outbox_audit"));
  }
}

// A text of 64 KiB in one character set may take more in another.
TEST_F(MysqlSchema, I11_ALongErrorOfAnotherCharacterSetIsConverted) {
  make_plain_table({.text_options = "CHARACTER SET latin1"});
  fill_plain_table();
  db.execute("UPDATE " + db.table() + " SET last_error = repeat('\xC3\xBC', 60000) WHERE event_id = 'dead'");
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  EXPECT_EQ(db.ask("SELECT char_length(last_error) FROM " + db.table() + " WHERE event_id = 'dead'"), "60000");
}

TEST_F(MysqlSchema, LongerColumnsStayAsLong) {
  make_plain_table({.id = "VARCHAR(100) PRIMARY KEY"});
  db.execute("ALTER TABLE " + db.table() +
             " MODIFY COLUMN event_type VARCHAR(300) NOT NULL, MODIFY COLUMN last_error LONGTEXT");
  fill_plain_table();
  auto const id = std::string(100, 'x');
  db.execute("UPDATE " + db.table() +
                 " SET event_id = ?, event_type = repeat('t', 300), last_error = repeat('e', 100000) WHERE event_id = "
                 "'old'",
             id);
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  auto const found = db.open()->inspect().find(id);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->event.type().size(), 300U);
  EXPECT_EQ(found->last_error.size(), 100'000U);
}

// A claim finds its rows by their numbers, and a settlement by their ids, however long those are.
TEST_F(MysqlSchema, RowsWithLongerIdsAreDelivered) {
  make_plain_table({.id = "VARCHAR(100) PRIMARY KEY"});
  fill_plain_table();
  db.execute("UPDATE " + db.table() + " SET event_id = concat(repeat('x', 90), event_id)");
  auto const s = db.open();
  EXPECT_EQ(deliver_all(s).size(), 3U);
  EXPECT_EQ(s->inspect().counts().done, 5U);
  EXPECT_EQ(s->inspect().counts().pending(), 0U);
}

// Their instants do not depend on the zone of a session; those of a datetime are taken for UTC.
TEST_F(MysqlSchema, TimestampsBecomeInstantsInUtc) {
  make_plain_table({.time = "TIMESTAMP(6)"});
  fill_plain_table();
  auto const report = migrate();
  EXPECT_EQ(report.change, migration::kind::adopted);
  EXPECT_EQ(report.warnings.size(), 4U);
  EXPECT_THAT(report.warnings, ::testing::Each(HasSubstr("datetime in UTC")));
  for (auto const* const name : {"available_at", "created_at", "done_at", "locked_at"}) {
    EXPECT_EQ(column(name, "column_type"), "datetime(6)") << name;
  }
  auto const at = std::chrono::sys_days{std::chrono::year{2024} / 1 / 2};
  db.execute("SET time_zone = '+09:00'");
  EXPECT_EQ(db.open()->inspect().find("new")->event.occurred_at(), at + std::chrono::microseconds{1});
  EXPECT_EQ(db.open()->inspect().find("new")->available_at, at);
  EXPECT_EQ(db.ask("SELECT done_at FROM " + db.table() + " WHERE event_id = 'ended'"), "2024-02-04 10:00:00.500000");
  EXPECT_THAT(deliver_all(db.open()), ElementsAre("old 1", "early 1", HasSubstr("new ")));
}

// A writer in another language that has left these to the server goes on.
TEST_F(MysqlSchema, DefaultsOfTheTableStay) {
  make_plain_table({});
  db.execute("ALTER TABLE " + db.table() +
             " ALTER COLUMN status SET DEFAULT 0, MODIFY COLUMN created_at DATETIME(6) NOT NULL DEFAULT "
             "CURRENT_TIMESTAMP(6), MODIFY COLUMN available_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)");
  std::string const insert = "INSERT INTO " + db.table() + " (event_id, event_type, payload) VALUES (uuid(), 't', '1')";
  db.execute(insert);
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  EXPECT_NO_THROW(db.execute(insert));
}

TEST_F(MysqlSchema, DatetimesWithoutFractionsGetThem) {
  make_plain_table({.time = "DATETIME"});
  fill_plain_table();
  migrate();
  EXPECT_EQ(column("available_at", "column_type"), "datetime(6)");
  EXPECT_EQ(deliver_all(db.open()).size(), 3U);
}

// In MariaDB that is a text with a condition.
TEST_F(MysqlSchema, JsonIsConverted) {
  make_plain_table({});
  fill_plain_table();
  EXPECT_THAT(migrate().warnings, IsEmpty());
  EXPECT_EQ(column("payload"), "longtext");
  EXPECT_EQ(column("headers"), "longtext");
  EXPECT_NO_THROW(db.execute("UPDATE " + db.table() + " SET headers = 'not json' WHERE event_id = 'done'"));
}

TEST_F(MysqlSchema, JsonThatIsKeptWorks) {
  make_plain_table({});
  fill_plain_table();
  auto o = db.options();
  o.adopt_json = mysql::json_columns::keep;
  std::vector<std::string> said;
  o.log = [&](log_line const& line) { said.push_back(line.text()); };
  auto const s = mysql::open(db.url(), o);
  EXPECT_THROW(db.execute("UPDATE " + db.table() + " SET payload = 'not json'"), error) << "it is JSON";
  write_one(s, "own", {.headers = {{"a", "b"}}});
  auto n = writer_only({.store = s, .log = nullptr});
  mysql::connection c{db.url()};
  mysql::transaction tx{c};
  n.writer().write(tx, event::bytes("t", std::string{"\0\xff", 2}, "x", {.id = "bytes"}));
  tx.commit();
  EXPECT_EQ(deliver_all(s).size(), 5U);
  if (column("payload") == "json") {  // MySQL
    EXPECT_THAT(said, ::testing::Contains(HasSubstr("payload stays JSON")));
  }
}

TEST_F(MysqlSchema, BlankHeadersOfATextColumnMeanNone) {
  make_plain_table({.json = "TEXT"});
  fill_plain_table();
  db.execute("UPDATE " + db.table() + " SET headers = ' ' WHERE event_id = 'old'");
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  EXPECT_TRUE(db.open()->inspect().find("old")->event.headers().empty());
}

TEST_F(MysqlSchema, AnotherEngineBecomesInnodb) {
  for (auto const* const engine : {"MyISAM", "Aria"}) {
    make_plain_table({.table_options = std::string{"ENGINE = "} + engine});
    fill_plain_table();
    auto const before = plain_rows();
    EXPECT_EQ(migrate().change, migration::kind::adopted) << engine;
    EXPECT_EQ(db.ask("SELECT engine FROM information_schema.tables WHERE table_schema = ? AND table_name = "
                     "'outbox_event'",
                     db.database()),
              "InnoDB");
    EXPECT_EQ(plain_rows(), before) << engine;
    EXPECT_THAT(deliver_all(db.open()), ElementsAre("old 1", "early 1", HasSubstr("new ")));
    db.execute("DROP TABLE " + db.table() + ", " + db.table("outbox_meta") + ", " + db.table("outbox_node") + ", " +
               db.table("outbox_audit"));
  }
}

TEST_F(MysqlSchema, AnotherPrimaryKeyAndAUniqueIdAreAdopted) {
  make_plain_table({.id = "CHAR(36) NOT NULL UNIQUE", .more = ", n INT NOT NULL DEFAULT 0, PRIMARY KEY (n, event_id)"});
  fill_plain_table();
  auto const before = plain_rows();
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  EXPECT_EQ(plain_rows(), before);
  EXPECT_EQ(column("event_id", "column_type"), "varchar(36)");
  EXPECT_EQ(deliver_all(db.open()).size(), 3U);
}

TEST_F(MysqlSchema, ATableThatAnotherRefersToIsAdopted) {
  make_plain_table({.id = "VARCHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin PRIMARY KEY"});
  fill_plain_table();
  db.execute("CREATE TABLE " + db.table("notes") +
             " (id VARCHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin, FOREIGN KEY (id) REFERENCES " +
             db.table() + " (event_id))");
  db.execute("INSERT INTO " + db.table("notes") + " VALUES ('old')");
  try {
    EXPECT_EQ(migrate().change, migration::kind::adopted);
    EXPECT_EQ(deliver_all(db.open()).size(), 3U);
  } catch (error const& e) {  // also good
    EXPECT_THAT(e.what(), HasSubstr("cannot adopt table 'outbox_event'"));
    EXPECT_EQ(column("seq"), "") << "untouched";
  }
}

// What is refused stays as it was.

TEST_F(MysqlSchema, AnUnrelatedTableIsRefusedUntouched) {
  db.execute("CREATE TABLE " + db.table() + " (id int)");
  auto const text = refusal([&] { migrate(); }, errc::store_failure);
  EXPECT_THAT(text, HasSubstr("not an outbox table"));
  EXPECT_THAT(text, HasSubstr("event_id, event_type, payload, status"));
  EXPECT_EQ(column("id"), "int");
  EXPECT_EQ(tables(), "outbox_event");
}

TEST_F(MysqlSchema, AnIdThatIsNotUniqueIsRefusedUntouched) {
  make_plain_table({.id = "VARCHAR(36) NOT NULL"});
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("event_id is not unique"));
  db.execute("CREATE UNIQUE INDEX two ON " + db.table() + " (event_id, status)");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("event_id is not unique"));
  db.execute("CREATE UNIQUE INDEX part ON " + db.table() + " (event_id(10))");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("event_id is not unique"));
  db.execute("CREATE UNIQUE INDEX another ON " + db.table() + " (aggregate_id)");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("event_id is not unique"));
  EXPECT_EQ(column("seq"), "") << "untouched";
  db.execute("DROP INDEX another ON " + db.table());
  db.execute("CREATE UNIQUE INDEX whole ON " + db.table() + " (event_id)");
  EXPECT_EQ(migrate().change, migration::kind::adopted);
}

// NULL is not unique.
TEST_F(MysqlSchema, RowsWithoutAnIdAreRefusedUntouched) {
  make_plain_table({.id = "VARCHAR(36) NULL UNIQUE"});
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at) VALUES (NULL, 't', '1', 0, "
             "'2024-01-01', '2024-01-01'), (NULL, 't', '1', 0, '2024-01-01', '2024-01-01')");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("cannot adopt table 'outbox_event'"));
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE event_id IS NULL"), "2");
  EXPECT_EQ(column("seq"), "");
  db.execute("DELETE FROM " + db.table());
  EXPECT_EQ(migrate().change, migration::kind::adopted);
}

TEST_F(MysqlSchema, AnIdOfAnotherTypeIsRefusedUntouched) {
  for (std::string const type : {"BINARY(16)", "BIGINT", "INT", "UUID", "VARBINARY(36)", "ENUM('a', 'b')"}) {
    try {
      make_plain_table({.id = type + " PRIMARY KEY"});
    } catch (error const&) {  // UUID is MariaDB's
      continue;
    }
    auto const before = column("event_id", "column_type");
    auto const text = refusal([&] { migrate(); }, errc::store_failure);
    EXPECT_THAT(text, HasSubstr(before)) << type;
    EXPECT_THAT(text, HasSubstr("not varchar")) << type;
    EXPECT_EQ(column("event_id", "column_type"), before);
    EXPECT_EQ(column("seq"), "");
    db.execute("DROP TABLE " + db.table());
  }
}

// Such an index is one of hashes, on MariaDB.
TEST_F(MysqlSchema, AnIdOfTypeTextIsAdoptedOrRefusedUntouched) {
  make_plain_table({.id = "TEXT NOT NULL, UNIQUE (event_id)"});
  fill_plain_table();
  auto const before = plain_rows();
  try {
    EXPECT_EQ(migrate().change, migration::kind::adopted);
    EXPECT_EQ(deliver_all(db.open()).size(), 3U);
  } catch (error const& e) {
    EXPECT_THAT(e.what(), HasSubstr("event_id")) << "it says what is wrong";
    EXPECT_EQ(column("seq"), "");
    EXPECT_EQ(plain_rows(), before);
  }
}

TEST_F(MysqlSchema, ATableWithOtherRequiredColumnsIsRefusedUntouched) {
  make_plain_table({.more = ", owner_team VARCHAR(20) NOT NULL, region INT NOT NULL, fine INT NOT NULL DEFAULT 1"});
  auto const text = refusal([&] { migrate(); }, errc::store_failure);
  EXPECT_THAT(text, HasSubstr("owner_team, region"));
  EXPECT_THAT(text, Not(HasSubstr("fine")));
  EXPECT_EQ(column("seq"), "");
}

TEST_F(MysqlSchema, AnotherAutomaticNumberIsRefusedUntouched) {
  make_plain_table({.more = ", id BIGINT NOT NULL AUTO_INCREMENT UNIQUE"});
  auto const text = refusal([&] { migrate(); }, errc::store_failure);
  EXPECT_THAT(text, HasSubstr("column id is AUTO_INCREMENT"));
  EXPECT_EQ(column("seq"), "");
}

// A column of another meaning that has a name of ours.
TEST_F(MysqlSchema, ColumnsOfOurNamesAndAnotherMeaningAreRefusedUntouchedOrWork) {
  for (std::string const more :
       {"due_at DATETIME(6)", "ended_at DATETIME(6)", "seq VARCHAR(20)", "seq INT", "blocked VARCHAR(10)",
        "blocked INT DEFAULT 1", "lease_until DATE", "crashes VARCHAR(9)", "payload_bytes INT", "ordering_key INT",
        "progress INT", "inserted_at DATE", "content_type INT"}) {
    make_plain_table({.more = ", " + more});
    fill_plain_table();
    auto const name = more.substr(0, more.find(' '));
    auto const before = column(name, "column_type");
    try {
      EXPECT_EQ(migrate().change, migration::kind::adopted) << more;
      auto const s = db.open();
      write_one(s, "own", {.aggregate = {"a", "b"}, .ordering_key = "some text"});
      EXPECT_EQ(deliver_all(s).size(), 4U) << more << ": adopted, and it does not work";
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::store_failure) << more << ": " << e.what();
      EXPECT_THAT(e.what(), HasSubstr(name)) << more;
      EXPECT_EQ(column(name, "column_type"), before) << more;
      EXPECT_TRUE(name == "seq" || column("seq").empty()) << more << ": it was touched";
    }
    db.execute("DROP TABLE IF EXISTS " + db.table() + ", " + db.table("outbox_meta") + ", " + db.table("outbox_node") +
               ", " + db.table("outbox_audit"));
  }
}

TEST_F(MysqlSchema, AViewIsRefused) {
  make_plain_table({}, "events");
  db.execute("CREATE VIEW " + db.table() + " AS SELECT * FROM " + db.table("events"));
  refusal([&] { migrate(); }, errc::store_failure);
  EXPECT_EQ(tables(), "events, outbox_event");
  db.execute("DROP VIEW " + db.table());
}

TEST_F(MysqlSchema, ATransactionThatUsesTheTableIsNotWaitedForWithoutEnd) {
  make_plain_table({});
  fill_plain_table();
  mysql::connection other{db.url()};
  mysql::transaction tx{other};
  tx.execute("SELECT * FROM " + db.table());
  auto o = db.options();
  o.timeout = 100ms;
  EXPECT_THAT(refusal([&] { migrate(o); }, errc::unavailable), HasSubstr("cannot adopt table 'outbox_event'"));
  EXPECT_EQ(column("seq"), "");
  tx.rollback();
  EXPECT_EQ(migrate(o).change, migration::kind::adopted);
}

// Interrupted changes. The server commits each step.

TEST_F(MysqlSchema, ACreationThatWasInterruptedIsCompleted) {
  std::vector<std::string> const undone{
      "DELETE FROM " + db.table("outbox_meta"), "DROP TABLE " + db.table("outbox_meta"),
      "DROP TABLE " + db.table("outbox_meta") + ", " + db.table("outbox_audit"),
      "DROP TABLE " + db.table("outbox_meta") + ", " + db.table("outbox_audit") + ", " + db.table("outbox_node")};
  for (auto const& sql : undone) {
    migrate();
    db.execute(sql);
    EXPECT_NE(migrate().change, migration::kind::nothing) << sql;
    EXPECT_EQ(tables(), our_tables) << sql;
    write_one(db.open(), "a");
    EXPECT_THAT(deliver_all(db.open()), ElementsAre("a 1")) << sql;
    db.execute("DROP TABLE " + db.table() + ", " + db.table("outbox_meta") + ", " + db.table("outbox_node") + ", " +
               db.table("outbox_audit"));
  }
}

TEST_F(MysqlSchema, ATableWithoutItsCompanionsIsAdopted) {
  auto const s = db.open();
  write_one(s, "a");
  write_one(s, "b");
  db.execute("DROP TABLE " + db.table("outbox_meta") + ", " + db.table("outbox_node"));
  db.execute("ALTER TABLE " + db.table() + " DROP INDEX outbox_event_due, DROP INDEX outbox_event_ended");
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  EXPECT_EQ(indexes(), our_indexes) << "statements name them";
  EXPECT_THAT(deliver_all(db.open()), ElementsAre("a 1", "b 1"));
}

// A trigger or too many indexes stop it at each of its steps.
TEST_F(MysqlSchema, AnAdoptionThatWasInterruptedIsCompleted) {
  std::string const updates_fail = " BEFORE UPDATE ON " + db.table() + " FOR EACH ROW IF ";
  std::string const signal = " THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'stopped'; END IF";
  auto const with_trigger = [&](std::string const& when) {
    return std::pair{"CREATE TRIGGER " + db.table("stop_it") + updates_fail + when + signal,
                     "DROP TRIGGER " + db.table("stop_it")};
  };
  std::string too_many = "ALTER TABLE " + db.table(), fewer = too_many;
  for (int i = 0; i < 62; ++i) {  // with two others, that is the limit
    too_many += (i == 0 ? " ADD INDEX k" : ", ADD INDEX k") + std::to_string(i) + " (attempts)";
    fewer += (i == 0 ? " DROP INDEX k" : ", DROP INDEX k") + std::to_string(i);
  }
  std::vector<std::pair<std::string, std::string>> const stops{
      with_trigger("true"),                             // before the rows are numbered
      with_trigger("NEW.done_at <=> OLD.done_at = 0"),  // before they are corrected
      {too_many, fewer}};                               // before the keys are made
  for (auto const& [stop, go_on] : stops) {
    for (bool const others_write : {false, true}) {
      make_plain_table({});
      fill_plain_table();
      auto const before = plain_rows();
      db.execute(stop);
      refusal([&] { migrate(); }, errc::store_failure);
      auto o = db.options();
      o.migrate = false;
      EXPECT_THAT(refusal([&] { static_cast<void>(mysql::open(db.url(), o)); }, errc::store_failure),
                  HasSubstr("migrate()"))
          << "half a table is none";
      EXPECT_EQ(plain_rows(), before) << stop.substr(0, 200);
      db.execute(go_on);
      if (others_write) {  // a program that knows nothing of it goes on in between
        db.execute("INSERT INTO " + db.table() +
                   " (event_id, event_type, payload, status, available_at, created_at) VALUES ('between', 't', '1', 0, "
                   "'2024-01-09', '2024-01-09')");
      }
      EXPECT_EQ(migrate().change, migration::kind::adopted);
      auto const s = db.open();
      auto expected = std::vector<std::string>{"old", "early", "new", "done", "ended", "dead"};
      if (others_write) expected.emplace_back("between");
      EXPECT_EQ(ids_by_seq(), expected) << stop.substr(0, 200);
      EXPECT_TRUE(s->inspect().find("done")->done_at);
      EXPECT_EQ(indexes(), std::string{"PRIMARY, idx_status_available, "} + (our_indexes + 9));
      EXPECT_EQ(deliver_all(s).size(), others_write ? 4U : 3U);
      write_one(s, "later");
      EXPECT_EQ(s->inspect().find("later")->seq, static_cast<std::int64_t>(expected.size()) + 1);
      db.execute("DROP TABLE " + db.table() + ", " + db.table("outbox_meta") + ", " + db.table("outbox_node") + ", " +
                 db.table("outbox_audit"));
    }
  }
}

// Its session is ended wherever it happens to be.
TEST_F(MysqlSchema, I1_AnAdoptionWhoseSessionIsEndedLosesNothing) {
  constexpr int rows = 3000;
  int ended = 0;
  for (std::string const& at :
       std::vector<std::string>{"LOCK TABLES%", "ALTER TABLE%ADD COLUMN seq%", "UPDATE%row_number%",
                                "UPDATE%SET locked_by%", "ALTER TABLE%AUTO_INCREMENT%", "%CREATE TABLE%outbox_node%"}) {
    make_plain_table({});
    db.execute("INSERT INTO " + db.table() +
               " (event_id, event_type, payload, status, available_at, created_at) SELECT uuid(), 't', '1', i % 4, "
               "'2024-01-01', '2024-01-01' FROM " +
               numbers_to(rows));
    mysql_account account{db};
    std::atomic<bool> over = false;
    std::jthread const second{[&] {
      mysql::connection admin{mysql_server::shared().connection()};
      while (!over) {
        for (auto const id : admin.query<std::int64_t>(
                 "SELECT id FROM information_schema.processlist WHERE user = ? AND info LIKE ?", account.name(), at)) {
          try {
            admin.execute("KILL ?", id);
            ++ended;
            return;
          } catch (error const&) {  // it has ended by itself
          }
        }
      }
    }};
    try {
      mysql::migrate(account.url(), db.options());
    } catch (error const& e) {
      EXPECT_TRUE(e.transient()) << at << ": " << e.what();
    }
    over = true;
    EXPECT_TRUE(eventually([&] { return account.sessions() == 0; }));
    static_cast<void>(migrate());
    EXPECT_EQ(
        db.ask("SELECT concat(count(*), ' ', count(DISTINCT seq), ' ', min(seq), ' ', max(seq)) FROM " + db.table()),
        "3000 3000 1 3000")
        << at;
    EXPECT_EQ(db.open()->inspect().counts().created, 750U);
    EXPECT_EQ(deliver_all(db.open()).size(), 1500U) << at;
    db.execute("DROP TABLE " + db.table() + ", " + db.table("outbox_meta") + ", " + db.table("outbox_node") + ", " +
               db.table("outbox_audit"));
  }
  RecordProperty("ended", ended);
}

TEST_F(MysqlSchema, I1_AWriterThatGoesOnDuringAdoptionLosesNothing) {
  make_plain_table({});
  fill_plain_table();
  std::atomic<bool> enough = false;
  std::atomic<int> written = 0;
  std::vector<std::jthread> writers;
  for (int w = 0; w < 3; ++w) {
    writers.emplace_back([&, w] {
      mysql::connection c{db.url()};
      for (int i = 0; !enough; ++i) {
        mysql::transaction tx{c};
        tx.execute("INSERT INTO " + db.table() +
                       " (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, "
                       "attempts, available_at, created_at) VALUES (?, 't', NULL, NULL, NULL, '1', NULL, 0, 0, "
                       "utc_timestamp(6), utc_timestamp(6))",
                   "w" + std::to_string(w) + "-" + std::to_string(i));
        if (i % 5 == 0) continue;  // rolled back
        tx.commit();
        ++written;
      }
    });
  }
  ASSERT_TRUE(eventually([&] { return written > 50; }));
  EXPECT_EQ(migrate().change, migration::kind::adopted);
  auto const then = written.load();
  EXPECT_TRUE(eventually([&] { return written > then + 50; })) << "they go on afterwards";
  enough = true;
  writers.clear();
  EXPECT_EQ(db.ask("SELECT concat(count(*), ' ', count(DISTINCT seq)) FROM " + db.table()),
            std::to_string(written + 6) + " " + std::to_string(written + 6));
  EXPECT_EQ(deliver_all(db.open()).size(), static_cast<std::size_t>(written) + 3);
}

// Names.

TEST_F(MysqlSchema, ATableOfAnotherNameBringsItsOwnCompanions) {
  auto o = db.options();
  o.table = "billing";
  auto const s = mysql::open(db.url(), o);
  EXPECT_EQ(tables(), "billing, billing_audit, billing_meta, billing_node");
  EXPECT_EQ(indexes("billing"), "PRIMARY, billing_due, billing_ended, billing_id");
  write_one(s, "a");
  write_one(db.open(), "b");
  EXPECT_THAT(deliver_all(s), ElementsAre("a 1"));
  EXPECT_THAT(deliver_all(db.open()), ElementsAre("b 1"));
  EXPECT_EQ(s->capabilities().table, db.database() + ".billing");
  o.table = "plain";
  make_plain_table({}, "plain");
  fill_plain_table("plain");
  EXPECT_EQ(migrate(o).change, migration::kind::adopted);
  EXPECT_EQ(indexes("plain"), "PRIMARY, idx_status_available, plain_due, plain_ended, plain_id");
  EXPECT_EQ(deliver_all(mysql::open(db.url(), o)).size(), 3U);
}

TEST_F(MysqlSchema, ReservedWordsAndCapitalsAreNamesLikeAnyOther) {
  for (auto const& name : {std::string{"order"}, std::string{"select"}, std::string{"Order"}, std::string{"key"},
                           std::string{"outbox_event_due"}, std::string{"outbox_meta2"}, std::string(48, 'Z')}) {
    auto o = db.options();
    o.table = name;
    EXPECT_EQ(migrate(o).change, migration::kind::created) << name << " is another table than those before";
    auto const s = mysql::open(db.url(), o);
    write_one(s, "a");
    EXPECT_THAT(deliver_all(s), ElementsAre("a 1")) << name;
    EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table(name) + " WHERE status = 1"), "1") << name;
    db.execute("DROP TABLE " + db.table(name) + ", " + db.table(name + "_meta") + ", " + db.table(name + "_node") +
               ", " + db.table(name + "_audit"));
    make_plain_table({}, name);
    fill_plain_table(name);
    EXPECT_EQ(migrate(o).change, migration::kind::adopted) << name;
    EXPECT_EQ(deliver_all(mysql::open(db.url(), o)).size(), 3U) << name;
  }
}

// Where the server tells capital letters from small ones, these are two tables with two sets of companions.
TEST_F(MysqlSchema, NamesThatDifferInCapitalsAreDifferentTables) {
  if (db.ask("SELECT @@lower_case_table_names") != "0") GTEST_SKIP() << "not on this server";
  for (std::string const name : {"Billing", "billing", "BILLING"}) {
    auto o = db.options();
    o.table = name;
    o.migrate = false;
    EXPECT_THROW(static_cast<void>(mysql::open(db.url(), o)), error) << name;
    o.migrate = true;
    EXPECT_EQ(migrate(o).change, migration::kind::created) << name;
    write_one(mysql::open(db.url(), o), name);
  }
  auto o = db.options();
  o.table = "billing";
  EXPECT_THAT(deliver_all(mysql::open(db.url(), o)), ElementsAre("billing 1"));
}

TEST_F(MysqlSchema, TheDatabaseOfTheOptionsCounts) {
  for (auto const& name : {db.database() + "-with-dash", db.database() + " space", db.database() + "`tick",
                           db.database() + "'quote", db.database() + "\xC3\xA9"}) {
    std::string quoted;
    for (char const c : name) quoted += c == '`' ? std::string{"``"} : std::string{c};
    quoted = "`" + quoted + "`";
    db.execute("CREATE DATABASE " + quoted);
    auto o = db.options();
    o.database = name;
    auto const s = mysql::open(db.url(), o);
    EXPECT_EQ(tables(), "") << "not here";
    write_one(s, "a");
    EXPECT_THAT(deliver_all(s), ElementsAre("a 1")) << name;
    EXPECT_EQ(s->inspect().counts().done, 1U);
    db.execute("DROP DATABASE " + quoted);
  }
}

TEST_F(MysqlSchema, ADatabaseThatIsMissingIsNamedInTheError) {
  auto o = db.options();
  o.database = "nowhere";
  EXPECT_THAT(refusal([&] { migrate(o); }, errc::invalid_option, "database"), HasSubstr("'nowhere' does not exist"));
  EXPECT_THAT(refusal([&] { static_cast<void>(mysql::open(db.url(), o)); }, errc::invalid_option, "database"),
              HasSubstr("'nowhere' does not exist"));
  o.database.clear();
  auto url = db.url();
  url.erase(url.rfind('/'));
  EXPECT_THAT(refusal([&] { mysql::migrate(url, o); }, errc::invalid_option, "database"), HasSubstr("is not set"));
  o.database = db.database();
  EXPECT_EQ(mysql::migrate(url, o).change, migration::kind::created) << "the option alone is enough";
}

// Rights, as the page for operators lists them.

TEST_F(MysqlSchema, WithoutTheRightToMigrateTheErrorSaysWhatToDo) {
  limited_account guest{db, "g", {"SELECT ON `" + db.database() + "`.*"}};
  auto const refused = [&] {
    return refusal([&] { static_cast<void>(mysql::open(guest.url(), db.options())); }, errc::store_failure);
  };
  auto const create = refused();
  EXPECT_THAT(create, HasSubstr("cannot create table 'outbox_event' in database '" + db.database() + "'"));
  EXPECT_THAT(create, HasSubstr("CREATE command denied"));
  EXPECT_THAT(create, HasSubstr("the user needs CREATE, ALTER, INDEX, DROP"));
  EXPECT_THAT(create, HasSubstr(".migrate = false"));
  make_plain_table({});
  auto const adopt = refused();
  EXPECT_THAT(adopt, HasSubstr("cannot adopt table 'outbox_event'"));
  EXPECT_THAT(adopt, HasSubstr("LOCK TABLES"));
  guest.grant("LOCK TABLES ON `" + db.database() + "`.*");
  EXPECT_THAT(refused(), HasSubstr("the user needs CREATE, ALTER, INDEX, DROP")) << "it may lock, and not change";
  EXPECT_EQ(column("seq"), "");
  migrate();
  EXPECT_NO_THROW(static_cast<void>(mysql::open(guest.url(), db.options()))) << "there is nothing to do";
}

TEST_F(MysqlSchema, TheRightsToMigrateAreEnough) {
  limited_account operators{
      db, "o", {"CREATE, ALTER, INDEX, DROP, SELECT, INSERT, UPDATE ON `" + db.database() + "`.*"}};
  EXPECT_EQ(mysql::migrate(operators.url(), db.options()).change, migration::kind::created);
  operators.grant("LOCK TABLES ON `" + db.database() + "`.*");
  auto o = db.options();
  o.table = "billing";
  make_plain_table({}, "billing");
  fill_plain_table("billing");
  EXPECT_EQ(mysql::migrate(operators.url(), o).change, migration::kind::adopted);
}

TEST_F(MysqlSchema, TheRightsOfANodeAreEnough) {
  migrate();
  limited_account service{db, "s", {}};
  for (std::string const table : {"outbox_event", "outbox_node", "outbox_meta"}) {
    service.grant("SELECT, INSERT, UPDATE, DELETE ON " + db.table(table));
  }
  auto o = db.options();
  o.migrate = false;
  for (bool const names_it : {false, true}) {
    if (names_it) o.database = db.database();
    auto const s = mysql::open(service.url(), o);
    tally seen;
    single_node_options n{.store = s, .poll = {.every = 20ms}, .log = nullptr};
    n.retry.max_attempts = 1;
    n.listeners.on("t", [&](delivery const& d) -> result {
      seen.add(d.id);
      if (d.id == "bad") return failed{"no"};
      return done;
    });
    auto box = single_node(std::move(n));
    box.start();
    for (std::string const id : {"a", "bad"}) {
      mysql::connection c{service.url()};
      mysql::transaction tx{c};
      box.writer().write(tx, "t", "1", {.id = id});
      tx.commit();
    }
    ASSERT_TRUE(seen.reach(2));
    ASSERT_TRUE(eventually([&] { return s->inspect().counts().pending() == 0; }));
    EXPECT_EQ(s->inspect().nodes().size(), 1U);
    static_cast<void>(s->backend().findings());
    box.stop();
    EXPECT_EQ(s->backend().purge({.retention = 0ms}), 2U);
  }
}

// Its question which rows are there is refused, so that the poller decides. Then it may ask.
TEST_F(MysqlSchema, TheRightsOfAWriterAreEnough) {
  auto const s = db.open();
  tally seen, hot;
  multi_node_options o{.store = s, .poll = {.every = 20ms}, .log = nullptr};
  o.listeners.on("t", [&](delivery const& d) {
    if (d.path == path::hot) hot.add(d.id);
    seen.add(d.id);
  });
  auto box = multi_node(std::move(o));
  box.start();
  limited_account writer{db, "w", {"INSERT ON " + db.table(), "SELECT ON " + db.table("outbox_meta")}};
  std::size_t expected = 0;
  auto const write_in_every_way = [&](std::string const& prefix) {
    mysql::connection c{writer.url()};
    {
      mysql::transaction tx{c};
      box.writer().write(tx, "t", "1", {.id = prefix + "one"});
      tx.savepoint("s");
      box.writer().write(tx, "t", "1", {.id = "undone"});
      tx.rollback_to("s");
      tx.commit();
    }
    {
      mysql::transaction tx{c};
      box.writer().write_all(tx, std::vector{event::json("t", "1", {.id = prefix + "two"}),
                                             event::json("t", "1", {.id = prefix + "three"})});
      tx.commit();
    }
    c.execute("START TRANSACTION");
    box.writer().write(c.handle(), "t", "1", {.id = prefix + "by hand"});
    c.execute("COMMIT");
    expected += 4;
    ASSERT_TRUE(seen.reach(expected));
    ASSERT_TRUE(eventually([&] { return s->inspect().counts().pending() == 0; }));
  };
  write_in_every_way("blind ");
  EXPECT_EQ(hot.total(), 0U);
  writer.grant("SELECT (event_id, locked_by) ON " + db.table());
  write_in_every_way("seeing ");
  EXPECT_EQ(hot.total(), 3U);
  box.stop();
  EXPECT_EQ(seen.total(), expected);
  EXPECT_EQ(seen.of("undone"), 0);
}

// A program in another language.
TEST_F(MysqlSchema, TheRightToInsertIsEnoughForAnotherProgram) {
  auto const s = db.open();
  limited_account other{db, "p", {"INSERT ON " + db.table()}};
  mysql::connection c{other.url()};
  c.execute("INSERT INTO " + db.table() +
            " (event_id, event_type, payload, status, available_at, created_at) VALUES ('a', 't', '1', 0, "
            "utc_timestamp(6), utc_timestamp(6))");
  EXPECT_THAT(deliver_all(s), ElementsAre("a 1"));
}

}  // namespace
}  // namespace outbox
