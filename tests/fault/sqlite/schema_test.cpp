// The table: created, adopted, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <outbox/error.hpp>
#include <outbox/node.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>

#include "sqlite/statements.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

using namespace spi;

using ::testing::HasSubstr;
using ::testing::SizeIs;

// The DDL of the specification, as H2, MySQL and SQLite take it.
constexpr char const* plain_ddl =
    "CREATE TABLE outbox_event (event_id VARCHAR(36) PRIMARY KEY, event_type VARCHAR(128) NOT NULL, aggregate_type "
    "VARCHAR(64), "
    "aggregate_id VARCHAR(128), tenant_id VARCHAR(64), payload JSON NOT NULL, headers JSON, status TINYINT NOT NULL, "
    "attempts INT NOT NULL DEFAULT 0, available_at DATETIME(6) NOT NULL, created_at DATETIME(6) NOT NULL, done_at "
    "DATETIME(6), "
    "last_error TEXT, locked_by VARCHAR(128), locked_at DATETIME(6));"
    "CREATE INDEX idx_status_available ON outbox_event(status, available_at, created_at);";

class Schema : public ::testing::Test {
 protected:
  std::string refusal(sqlite::options o = {}) {
    try {
      static_cast<void>(sqlite::open(path, std::move(o)));
    } catch (error const& e) {
      return e.what();
    }
    return "accepted";
  }
  std::string text(std::string const& sql) {
    sqlite::connection db{path};
    sqlite3_stmt* s = nullptr;
    sqlite3_prepare_v2(db.handle(), sql.c_str(), -1, &s, nullptr);
    std::string result;
    while (sqlite3_step(s) == SQLITE_ROW) {
      auto const* const t = reinterpret_cast<char const*>(sqlite3_column_text(s, 0));
      result += t == nullptr ? "NULL" : t;
      result += '\n';
    }
    sqlite3_finalize(s);
    return result;
  }

  std::string plan(std::string const& sql) {
    sqlite::connection db{path};
    sqlite3_stmt* s = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db.handle(), ("EXPLAIN QUERY PLAN " + sql).c_str(), -1, &s, nullptr), SQLITE_OK)
        << sql;
    std::string result;
    while (sqlite3_step(s) == SQLITE_ROW)
      result += reinterpret_cast<char const*>(sqlite3_column_text(s, 3)) + std::string{"\n"};
    sqlite3_finalize(s);
    return result;
  }
  void searches(std::string const& sql, std::string const& how) {
    auto const p = plan(sql);
    EXPECT_THAT(p, HasSubstr(how)) << sql;
    EXPECT_THAT(p, ::testing::Not(HasSubstr("SCAN"))) << sql;
    EXPECT_THAT(p, ::testing::Not(HasSubstr("TEMP B-TREE"))) << sql;
  }

  temporary_directory dir;
  std::string path = dir / "shop.db";
};

TEST_F(Schema, IsCreatedOnceAndLeftAlone) {
  EXPECT_EQ(sqlite::migrate(path).change, migration::kind::created);
  EXPECT_EQ(sqlite::migrate(path).change, migration::kind::nothing);
  EXPECT_EQ(text("SELECT value FROM outbox_meta WHERE name = 'schema_version'"), "2\n");
}

TEST_F(Schema, ANewerVersionIsRefused) {
  sqlite::migrate(path);
  sqlite::connection{path}.execute(
      "UPDATE outbox_meta SET value = '7' WHERE name IN ('schema_version', 'oldest_library')");
  EXPECT_THAT(refusal(), HasSubstr("schema version 7, this library knows up to 2"));
  EXPECT_THROW(sqlite::migrate(path), error);
}

// A newer library may have modes that this one does not know.
TEST_F(Schema, ANodeOfAnUnknownModeExcludesEveryDispatcher) {
  auto const store = sqlite::open(path);
  store->backend().heartbeat({.incarnation = "newer/1", .name = "newer", .lease = std::chrono::minutes{1}});
  sqlite::connection{path}.execute("UPDATE outbox_node SET mode = 'of_tomorrow'");
  ASSERT_THAT(store->inspect().nodes(), SizeIs(1));
  EXPECT_EQ(store->inspect().nodes()[0].mode, node_mode::unknown);
  auto const refusal = [](node n) -> std::optional<errc> {
    try {
      n.start();
    } catch (error const& e) {
      return e.code();
    }
    return std::nullopt;
  };
  EXPECT_EQ(refusal(multi_node({.store = store, .log = nullptr})), errc::mode_conflict);
  EXPECT_EQ(refusal(single_node({.store = store, .log = nullptr})), errc::mode_conflict);
  EXPECT_EQ(refusal(writer_only({.store = store, .log = nullptr})), std::nullopt) << "it dispatches nothing";
}

TEST(Layout, NamesTablesColumnsAndStatusValues) {
  sql::layout l{.table = "box", .schema = "shop", .quote = '`'};
  EXPECT_EQ(l.text("UPDATE {outbox_event} SET {status} = {DEAD} WHERE {event_id} = ?1"),
            "UPDATE `shop`.`box` SET status = 3 WHERE event_id = ?1");
  EXPECT_EQ(l.text("{outbox_meta}, {outbox_node}, {outbox_event_due}"),
            "`shop`.`box_meta`, `shop`.`box_node`, `box_due`");
  l.names[static_cast<std::size_t>(sql::column::event_id)] = "id";
  l.status.dead = 9;
  EXPECT_EQ(l.text("{event_id}, {DEAD}"), "id, 9");
  EXPECT_THAT(l.text("{row}"), HasSubstr("seq, id, event_type, "));
}

TEST(Layout, AStatementNeedsColumnsThatTheTableHas) {
  sql::layout l;
  l.names[static_cast<std::size_t>(sql::column::progress)].clear();
  EXPECT_FALSE(l.has(sql::column::progress));
  EXPECT_THROW(static_cast<void>(l.text("SET {progress} = NULL")), error);
  EXPECT_THAT(l.text("{row}"), HasSubstr("ordering_key, NULL, content_type")) << "a row without it can be read";
  EXPECT_NO_THROW(static_cast<void>(l.text("SET {status} = {NEW}")));
}

TEST_F(Schema, WithoutMigrateNothingIsCreated) {
  EXPECT_THAT(refusal({.migrate = false}), HasSubstr("migrate"));
  EXPECT_EQ(text("SELECT count(*) FROM sqlite_master"), "0\n");
}

// Tables of this version were made without it once.
TEST_F(Schema, AnIndexThatIsMissingIsMade) {
  for (std::string const table : {"outbox_event", "billing_events"}) {
    sqlite::migrate(path, {.table = table});
    sqlite::connection{path}.execute("DROP INDEX " + table + "_odd");
    EXPECT_THAT(refusal({.table = table, .migrate = false}), HasSubstr("has no index '" + table + "_odd'"));
    EXPECT_EQ(refusal({.table = table}), "accepted");
    EXPECT_EQ(refusal({.table = table, .migrate = false}), "accepted");
  }
}

TEST_F(Schema, I7_AdoptionKeepsTheLocksOfAProgramThatMayStillRun) {
  sqlite::connection{path}.execute(
      std::string{plain_ddl} +
      "INSERT INTO outbox_event (event_id, event_type, payload, status, attempts, available_at, created_at, "
      "locked_by, locked_at) VALUES ('busy', 't', '1', 0, 0, '2020-01-01', '2020-01-01', 'java-1', "
      "strftime('%Y-%m-%d %H:%M:%f000', 'now')), ('done', 't', '1', 1, 0, '2020-01-01', '2020-01-01', 'java-1', "
      "'2020-01-01')");
  ASSERT_EQ(sqlite::migrate(path).change, migration::kind::adopted);
  auto const s = sqlite::open(path);
  auto const reply = s->backend().claim({.token = "n/1", .lease = std::chrono::hours{1}});
  EXPECT_THAT(reply.rows, SizeIs(0));
  EXPECT_EQ(reply.foreign_owner, "java-1");
  EXPECT_EQ(s->inspect().find("done")->locked_by, "");
}

TEST_F(Schema, ATableOfTheSpecificationIsAdoptedWithItsRows) {
  sqlite::connection{path}.execute(
      std::string{plain_ddl} +
      "INSERT INTO outbox_event (event_id, event_type, aggregate_type, payload, headers, status, attempts, "
      "available_at, created_at, "
      "last_error, locked_by, locked_at) VALUES "
      "('new', 't', NULL, '{\"a\": 1}', '{\"h\":\"x\"}', 0, 0, '2020-01-01T00:00:00', '2020-01-01T00:00:00', NULL, "
      "'someone', '2020-01-01'),"
      "('retry', 't', 'order', '1', NULL, 2, 3, '2020-01-02 00:00:00.5', '2020-01-02 00:00:00', 'why', NULL, NULL),"
      "('done', 't', NULL, '1', 'null', 1, 0, '2020-01-03', '2020-01-03 10:00:00', NULL, NULL, NULL),"
      "('dead', 't', NULL, '1', '', 3, 10, '2020-01-04', '2020-01-04', 'bad', NULL, NULL)");
  EXPECT_EQ(sqlite::migrate(path).change, migration::kind::adopted);
  auto const s = sqlite::open(path);
  auto const c = s->inspect().counts();
  EXPECT_EQ(c.created, 1U);
  EXPECT_EQ(c.retry, 1U);
  EXPECT_EQ(c.done, 1U);
  EXPECT_EQ(c.dead, 1U);
  EXPECT_EQ(s->inspect().find("done")->done_at, s->inspect().find("done")->event.occurred_at())
      << "purge has something to count from";
  auto const reply = s->backend().claim({.token = "n/1", .lease = std::chrono::seconds{30}});
  ASSERT_THAT(reply.rows, SizeIs(2));
  EXPECT_EQ(reply.rows[0].handle.id, "new");
  EXPECT_EQ(reply.rows[0].event.payload(), "{\"a\": 1}") << "byte for byte";
  EXPECT_EQ(reply.rows[0].event.aggregate_type(), global_aggregate);
  EXPECT_EQ(reply.rows[0].event.headers().at("h"), "x");
  EXPECT_EQ(reply.rows[0].crashes, 0) << "a foreign lock is no crash";
  EXPECT_EQ(reply.rows[1].attempts, 3);
}

TEST_F(Schema, ATableWithColumnsOfOthersIsNotAdopted) {
  sqlite::connection{path}.execute(std::string{plain_ddl} + "ALTER TABLE outbox_event ADD COLUMN trace_id TEXT");
  EXPECT_THAT(refusal(), HasSubstr("does not know (trace_id)"));
  EXPECT_EQ(text("SELECT count(*) FROM pragma_table_info('outbox_event') WHERE name = 'trace_id'"), "1\n");
}

TEST_F(Schema, ATableWhoseMetaIsGoneIsNotAdopted) {
  sqlite::migrate(path);
  sqlite::connection{path}.execute("DROP TABLE outbox_meta");
  EXPECT_THAT(refusal(), HasSubstr("seq"));
}

TEST_F(Schema, ATableNamedLikeOursBringsItsOwnCompanions) {
  sqlite::migrate(path, {.table = "outbox_event2"});
  EXPECT_EQ(text("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'outbox%' ORDER BY name"),
            "outbox_event2\noutbox_event2_audit\noutbox_event2_meta\noutbox_event2_node\n");
}

TEST_F(Schema, I11_ADatabaseMayBeUtf16Inside) {
  sqlite3* db = nullptr;
  sqlite3_open(path.c_str(), &db);
  sqlite3_exec(db, "PRAGMA encoding = 'UTF-16le'; CREATE TABLE t (x)", nullptr, nullptr, nullptr);
  sqlite3_close(db);
  auto const s = sqlite::open(path);
  sqlite::connection c{path};
  auto const e = event::json("häuser", "\"é\"", {.id = "x"});
  insertion const row{&e};
  sqlite::transaction tx{c};
  s->backend().insert(join(tx), std::span{&row, 1});
  tx.commit();
  auto const reply = s->backend().claim({.token = "n/1", .lease = std::chrono::seconds{30}});
  ASSERT_THAT(reply.rows, SizeIs(1));
  EXPECT_EQ(reply.rows[0].event.type(), "häuser");
  EXPECT_EQ(reply.rows[0].event.payload(), "\"é\"");
  settlement const done{.row = reply.rows[0].handle};
  EXPECT_TRUE(s->backend().settle(std::span{&done, 1}).applied.at(0));
}

TEST_F(Schema, AnotherTableOfThatNameIsRefusedAndUntouched) {
  sqlite::connection{path}.execute("CREATE TABLE outbox_event (id INTEGER); INSERT INTO outbox_event VALUES (42)");
  EXPECT_THAT(refusal(), HasSubstr("not an outbox table"));
  EXPECT_EQ(text("SELECT id FROM outbox_event"), "42\n");
}

TEST_F(Schema, TablesOfOtherNamesLiveSideBySide) {
  auto const a = sqlite::open(path);
  auto const b = sqlite::open(path, {.table = "billing_events"});
  sqlite::connection db{path};
  auto const e = event::json("t", "1", {.id = "x"});
  insertion const row{&e};
  sqlite::transaction tx{db};
  b->backend().insert(join(tx), std::span{&row, 1});
  tx.commit();
  EXPECT_EQ(a->inspect().counts().pending(), 0U);
  EXPECT_EQ(b->inspect().counts().pending(), 1U);
}

TEST_F(Schema, HostileTableNamesAreRefused) {
  for (auto const* name : {"", "1abc", "a b", "a;DROP TABLE x", "a\"b", "a'b", "é", "a.b"}) {
    EXPECT_THAT(refusal({.table = name}), HasSubstr("table ")) << name;
  }
  EXPECT_THAT(refusal({.table = std::string(49, 'x')}), HasSubstr("the limit is 48"));
}

TEST_F(Schema, AFileThatIsNotADatabaseIsAnError) {
  std::FILE* const f = std::fopen(path.c_str(), "w");
  std::fputs(std::string(4096, 'x').c_str(), f);
  std::fclose(f);
  EXPECT_THAT(refusal(), HasSubstr("not a database"));
}

// EXPLAIN QUERY PLAN of the statements that matter: one index range, no sorting, no scan.
TEST_F(Schema, R8_StatementsGoThroughTheirIndex) {
  sqlite::migrate(path);
  auto const d = sqlite::shared_statements({});
  auto const r = sqlite::row_statements({});
  searches(r.due, "USING INDEX outbox_event_ready (<expr>>? AND <expr><?)");
  searches(r.next_due, "USING INDEX outbox_event_ready (<expr>>?)");
  searches(r.release, "USING INDEX outbox_event_ready (<expr>>? AND <expr><?)");
  searches(d.expire_others, "USING INDEX outbox_event_ready (<expr>>?)");
  searches(r.take, "USING INTEGER PRIMARY KEY");
  searches(r.settle_done, "USING INTEGER PRIMARY KEY");
  searches(r.renew, "USING INTEGER PRIMARY KEY");
  auto const foreign = plan(sqlite::foreign_statements({}).find);
  EXPECT_THAT(foreign, HasSubstr("USING INDEX outbox_event_odd"));
  EXPECT_THAT(foreign, ::testing::Not(HasSubstr("TEMP B-TREE")));
  auto const purge = plan(d.purge);
  EXPECT_THAT(purge, HasSubstr("USING INDEX outbox_event_ended (done_at<?)"));
  EXPECT_THAT(purge, HasSubstr("USING INDEX outbox_event_dead"));
  EXPECT_THAT(purge, ::testing::Not(HasSubstr("TEMP B-TREE")));
}

// What SQLite has counted in a table must not mislead it either: here all rows that are not done have one key.
TEST_F(Schema, R8_StatementsOfAnOrderPerKeyGoThroughTheIndexOfLines) {
  sqlite::migrate(path, {.keyed = true});
  auto const d = sqlite::shared_statements({});
  auto const r = sqlite::row_statements({});
  auto const all = [&] {
    searches(r.due_keyed, "USING INDEX outbox_event_ready (<expr>>? AND <expr><?)");
    searches(r.due_keyed, "p USING INDEX outbox_event_keyed (<expr>=? AND seq<?)");
    searches(r.due_keyed, "n USING INDEX outbox_event_keyed (<expr>=? AND seq>?)");
    searches(r.run, "USING INDEX outbox_event_keyed (<expr>=? AND seq>?)");
    searches(r.take_in_line, "r USING INTEGER PRIMARY KEY");
    searches(r.take_in_line, "p USING INDEX outbox_event_keyed (<expr>=? AND seq<?)");
    searches(r.note, "r USING INTEGER PRIMARY KEY");
    searches(r.note, "p USING INDEX outbox_event_keyed (<expr>=? AND seq<?)");
    searches(r.put_out_before, "p USING INDEX outbox_event_keyed (<expr>=? AND seq<?)");
    searches(r.unblock_head, "p USING INDEX outbox_event_keyed (<expr>=? AND seq<?)");
    searches(r.clear_note, "USING INTEGER PRIMARY KEY");
    searches(d.unblock_next, "USING INDEX outbox_event_keyed (<expr>=? AND seq>?)");
    searches(d.leave_line, "USING INDEX sqlite_autoindex_outbox_event_1 (event_id=?)");
    auto const next = sqlite::foreign_statements({}).unblock_next;
    searches(next, "USING INTEGER PRIMARY KEY");
    searches(next, "n USING INDEX outbox_event_keyed (<expr>=? AND seq>?)");
    searches(d.placed, "p USING INDEX outbox_event_keyed (<expr>=? AND seq<?)");
    // These walk the index itself.
    auto const heads = plan(r.heads);
    EXPECT_THAT(heads, HasSubstr("q USING INDEX outbox_event_keyed (<expr>>?)"));
    EXPECT_THAT(heads, ::testing::Not(HasSubstr("TEMP B-TREE")));
    EXPECT_THAT(heads, ::testing::Not(HasSubstr("SCAN r")));
    EXPECT_THAT(plan(r.blocked), HasSubstr("SCAN outbox_event USING INDEX outbox_event_keyed"));
    auto const parked = plan(d.parked_keys);
    EXPECT_THAT(parked, HasSubstr("SCAN outbox_event USING INDEX outbox_event_dead"));
    EXPECT_THAT(parked, HasSubstr("SEARCH r USING INTEGER PRIMARY KEY"));
    EXPECT_THAT(parked, HasSubstr("p USING INDEX outbox_event_keyed (<expr>=? AND seq<?)"));
    EXPECT_THAT(parked, HasSubstr("w USING INDEX outbox_event_keyed (<expr>=?)"));
  };
  all();
  sqlite::connection{path}.execute(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO outbox_event "
      "(event_id, event_type, payload, status, available_at, created_at, ordering_key) SELECT i, 't', '1', i % 3 = 0, "
      "'2020-01-01 00:00:00.000000', '2020-01-01 00:00:00.000000', 'k' FROM n; ANALYZE");
  all();
}

}  // namespace
}  // namespace outbox
