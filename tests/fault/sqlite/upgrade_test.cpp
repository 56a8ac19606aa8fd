// The path from schema version 1 to 2 on SQLite, beside programs of version 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <outbox/error.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <sstream>
#include <thread>

#include "support/findings.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class SqliteUpgrade : public ::testing::Test {
 protected:
  SqliteUpgrade() {
    std::ifstream file{OUTBOX_SCHEMA_DIR "/sqlite/0001.sql"};
    std::stringstream text;
    text << file.rdbuf();
    run(text.str());
  }
  void run(std::string const& sql) {
    sqlite::connection db{path};
    char* problem = nullptr;
    sqlite3_exec(db.handle(), sql.c_str(), nullptr, nullptr, &problem);
    if (problem != nullptr) throw std::runtime_error{problem};
  }
  std::string ask(std::string const& sql) {
    sqlite::connection db{path};
    std::string answer;
    auto const take = [](void* to, int, char** values, char**) {
      *static_cast<std::string*>(to) += (values[0] == nullptr ? "NULL" : values[0]) + std::string{"\n"};
      return 0;
    };
    sqlite3_exec(db.handle(), sql.c_str(), take, &answer, nullptr);
    return answer;
  }
  // The INSERT of version 1.
  static std::string insert_of(std::string const& id, int status = 0) {
    return "INSERT INTO outbox_event (event_id, event_type, aggregate_type, payload, status, attempts, available_at, "
           "created_at, inserted_at, done_at) VALUES ('" +
           id + "', 't', 'order', '1', " + std::to_string(status) +
           ", 0, '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000', CASE WHEN " +
           std::to_string(status) + " IN (1, 3) THEN '2026-01-01 00:00:00.000000' END)";
  }
  void fill() {
    for (int status = 0; status < 4; ++status) run(insert_of("s" + std::to_string(status), status));
  }
  std::string version() { return ask("SELECT value FROM outbox_meta WHERE name = 'schema_version'"); }
  std::string indexes(std::string const& name) {
    return ask("SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = '" + name + "'");
  }

  temporary_directory dir;
  std::string path = dir / "shop.db";
};

TEST_F(SqliteUpgrade, RowsInEveryStatusAreKeptWhileAVersion1ProcessWrites) {
  fill();
  std::atomic<bool> stop = false;
  std::atomic<int> written = 0;
  {
    std::jthread const writer{[&] {
      sqlite::connection c{path, std::chrono::seconds{20}};
      while (!stop) c.execute(insert_of("w" + std::to_string(written++)));
    }};
    EXPECT_TRUE(eventually([&] { return written > 10; }));
    EXPECT_EQ(sqlite::migrate(path, {.busy_timeout = std::chrono::seconds{20}}).change, migration::kind::upgraded);
    auto const after = written.load();
    EXPECT_TRUE(eventually([&] { return written > after + 10; })) << "it goes on afterwards";
    stop = true;
  }
  EXPECT_EQ(version(), "2\n");
  EXPECT_EQ(indexes("outbox_event_ready"), "1\n");
  EXPECT_EQ(indexes("outbox_event_odd"), "1\n");
  EXPECT_EQ(indexes("outbox_event_due"), "0\n");
  EXPECT_EQ(indexes("outbox_event_foreign"), "0\n");
  auto const s = sqlite::open(path);
  auto const c = s->inspect().counts();
  EXPECT_EQ(c.created, static_cast<std::uint64_t>(written) + 1);
  EXPECT_EQ(c.retry, 1U);
  EXPECT_EQ(c.done, 1U);
  EXPECT_EQ(c.dead, 1U);
  EXPECT_EQ(s->inspect().find("w0")->blocked, false);
  EXPECT_THAT(s->backend().claim({.token = "n/1", .limit = 100'000, .lease = std::chrono::seconds{30}}).rows,
              SizeIs(static_cast<std::size_t>(written) + 2));
  EXPECT_EQ(sqlite::migrate(path).change, migration::kind::nothing);
}

TEST_F(SqliteUpgrade, HasTheColumnsOfANewTable) {
  sqlite::migrate(path);
  auto const columns = [&](std::string const& table) {
    return ask("SELECT name || ' ' || type || ' ' || coalesce(dflt_value, '') || \"notnull\" FROM pragma_table_info('" +
               table + "') ORDER BY name");
  };
  sqlite::migrate(path, {.table = "fresh"});
  EXPECT_EQ(columns("outbox_event"), columns("fresh"));
  EXPECT_EQ(columns("outbox_node"), columns("fresh_node"));
  EXPECT_EQ(columns("outbox_audit"), columns("fresh_audit"));
}

TEST_F(SqliteUpgrade, TheOldIndexesStayWhileANodeOfVersion1IsLive) {
  run("INSERT INTO outbox_node (incarnation, name, version, mode, lease_ms, held, lease_until) VALUES ('h:1:x', 'old', "
      "'0.1', 'ordered', 30000, 0, '9999-01-01 00:00:00.000000')");
  EXPECT_EQ(sqlite::migrate(path).change, migration::kind::upgraded);
  EXPECT_EQ(indexes("outbox_event_due"), "1\n");
  EXPECT_EQ(indexes("outbox_event_foreign"), "1\n");
  EXPECT_FALSE(sqlite::open(path)->inspect().nodes().at(0).started_at) << "that tells its version";
  run("DELETE FROM outbox_node");
  EXPECT_EQ(sqlite::migrate(path).change, migration::kind::nothing);
  EXPECT_EQ(indexes("outbox_event_due"), "0\n");
  EXPECT_EQ(indexes("outbox_event_foreign"), "0\n");
}

// One transaction: all or nothing.
TEST_F(SqliteUpgrade, AnInterruptedUpgradeIsUndoneAndMadeAgain) {
  fill();
  run("CREATE TABLE outbox_audit (x)");  // in the way
  EXPECT_THROW(sqlite::migrate(path), error);
  EXPECT_EQ(version(), "1\n");
  EXPECT_EQ(ask("SELECT count(*) FROM pragma_table_info('outbox_event') WHERE name = 'blocked'"), "0\n");
  run("DROP TABLE outbox_audit");
  EXPECT_EQ(sqlite::migrate(path).change, migration::kind::upgraded);
  EXPECT_EQ(version(), "2\n");
}

TEST_F(SqliteUpgrade, WithoutMigrateAnOlderTableIsRefused) {
  try {
    static_cast<void>(sqlite::open(path, {.migrate = false}));
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), HasSubstr("outbox::sqlite::migrate()"));
  }
  EXPECT_EQ(version(), "1\n");
}

// Version 3 will say which libraries may work on it.
TEST_F(SqliteUpgrade, ANewerTableSaysWhetherThisLibraryMayUseIt) {
  sqlite::migrate(path);
  run("UPDATE outbox_meta SET value = '3' WHERE name = 'schema_version'; UPDATE outbox_meta SET value = '2' WHERE name "
      "= "
      "'oldest_library'");
  EXPECT_NO_THROW(static_cast<void>(sqlite::open(path)));
  run("UPDATE outbox_meta SET value = '3' WHERE name = 'oldest_library'");
  EXPECT_THROW(static_cast<void>(sqlite::open(path)), error);
}

TEST_F(SqliteUpgrade, AnUpgradedTableHasTheShapeOfANewOne) {
  EXPECT_THAT(complaints_of(*sqlite::open(path)), SizeIs(0));
}

}  // namespace
}  // namespace outbox
