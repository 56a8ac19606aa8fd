// Rows that the client programs of the servers insert, as a program in any other language would.
#include <gmock/gmock.h>

#include "fault/relay/relay_fixture.hpp"
#include "support/exposition.hpp"
#ifdef OUTBOX_HAS_POSTGRES
#include "support/postgres_database.hpp"
#endif
#ifdef OUTBOX_HAS_MYSQL
#include "mysql/url.hpp"
#include "support/mysql_database.hpp"
#endif
#ifdef OUTBOX_HAS_REDIS
#include <outbox/redis.hpp>

#include "support/redis_server.hpp"
#endif

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

class relay_on_a_server : public relay_fixture {
 protected:
  // The relay runs, `client` executes the file of SQL, and the rows arrive once each.
  void arrive(std::string const& url, std::string const& sql, std::string const& client,
              std::function<bool()> const& all_done) {
    write_config_for(url);
    auto const pid = start();
    ASSERT_TRUE(eventually([&] { return ready(); })) << log();
    std::ofstream{dir / "insert.sql"} << sql;
    auto const e = run(client + " < " + (dir / "insert.sql"));
    ASSERT_EQ(e.status, 0) << e.out;
    EXPECT_TRUE(eventually(all_done)) << log();
    EXPECT_EQ(end(pid, SIGTERM), 0) << log();
    EXPECT_THAT(published(), ElementsAre(Pair("by-hand-1", 1), Pair("by-hand-2", 1)));
    EXPECT_EQ(run("grep -c '\"payload\":{\"name\":\"O.Brien\"}' " + lines_file()).out, "1\n");
  }
};

#ifdef OUTBOX_HAS_POSTGRES
using RelayOnPostgres = relay_on_a_server;

TEST_F(RelayOnPostgres, RowsThatPsqlInsertsArrive) {
  postgres_database db;
  static_cast<void>(db.open());
  auto const server_port = std::to_string(postgres_server::shared().port());
  arrive("postgresql://outbox@127.0.0.1:" + server_port + "/postgres?outbox.schema=" + db.schema(),
         "BEGIN;\n\\set payload '{\"name\":\"O.Brien\"}'\n"
         "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at) VALUES "
         "('by-hand-1', 'order.placed', :'payload', clock_timestamp(), clock_timestamp());\n"
         "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, available_at, "
         "created_at) VALUES ('by-hand-2', 'order.placed', 'order', '42', '{}', clock_timestamp(), "
         "clock_timestamp());\nCOMMIT;\nBEGIN;\n"
         "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at) VALUES "
         "('rolled-back', 'order.placed', '{}', clock_timestamp(), clock_timestamp());\nROLLBACK;\n",
         "PGOPTIONS='-c search_path=" + db.schema() + "' " + postgres_programs() +
             "/psql -q -v ON_ERROR_STOP=1 -h 127.0.0.1 -U outbox -d postgres -p " + server_port,
         [&] { return db.ask("SELECT count(*) FROM " + db.table() + " WHERE status = 1") == "2"; });
}
#endif

#if defined(OUTBOX_HAS_POSTGRES) && defined(OUTBOX_HAS_PROMETHEUS)
TEST_F(RelayOnPostgres, MetricsTellOfAServerThatIsAwayAndOfItsReturn) {
  postgres_server server;
  write_config_for("postgresql://outbox@127.0.0.1:" + std::to_string(server.port()) + "/postgres");
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  server.kill_hard();
  auto const shows = [&](std::string const& name, double value) {
    for (auto const& [series, v] : samples_of(run("curl -s " + url("/metrics")).out)) {
      if (series.starts_with(name + "{")) return v == value;
    }
    return false;
  };
  EXPECT_TRUE(eventually([&] { return shows("outbox_healthy", 0); })) << log();
  EXPECT_TRUE(eventually([&] { return shows("outbox_table_up", 0); })) << log();
  EXPECT_THAT(run("curl -s " + url("/metrics")).out, Not(HasSubstr("outbox_table_pending")));
  server.start();
  EXPECT_TRUE(eventually([&] { return shows("outbox_healthy", 1); })) << log();
  EXPECT_TRUE(eventually([&] { return shows("outbox_table_up", 1) && shows("outbox_table_pending", 0); })) << log();
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
}
#endif

#ifdef OUTBOX_HAS_MYSQL
using RelayOnMysql = relay_on_a_server;

TEST_F(RelayOnMysql, RowsThatTheMariadbClientInsertsArrive) {
  mysql_database db;
  static_cast<void>(db.open());
  auto const at = mysql::parse_url(db.url());
  arrive(db.url(),
         "SET time_zone = '+05:00';\nSET autocommit = 0;\n"
         "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at) VALUES "
         "('by-hand-1', 'order.placed', '{\"name\":\"O.Brien\"}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6));\n"
         "INSERT INTO outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, available_at, "
         "created_at) VALUES ('by-hand-2', 'order.placed', 'order', '42', '{}', UTC_TIMESTAMP(6), "
         "UTC_TIMESTAMP(6));\nCOMMIT;\n"
         "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at) VALUES "
         "('rolled-back', 'order.placed', '{}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6));\nROLLBACK;\n",
         "MYSQL_PWD='" + at.password + "' mariadb --no-defaults --protocol=TCP -h " + at.host + " -P " +
             std::to_string(at.port) + " -u " + at.user + " " + db.database(),
         [&] { return db.ask("SELECT count(*) FROM " + db.table() + " WHERE status = 1") == "2"; });
}
#endif

#ifdef OUTBOX_HAS_REDIS
using RelayOnRedis = relay_on_a_server;

// The script is what a program in any language sends.
TEST_F(RelayOnRedis, EventsThatRedisCliWritesByAScriptArrive) {
  redis_server server;
  write_config_for(server.url() + "?outbox.name=shop&outbox.done_rows=keep");
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  std::ofstream{dir / "write.lua"} << redis::write_script()
                                   << "outbox.write(KEYS[1], {id = 'by-hand-1', type = 'order.placed', payload = "
                                      "'{\"name\":\"O.Brien\"}'})\n"
                                      "return outbox.write(KEYS[1], {id = 'by-hand-2', type = 'order.placed', payload "
                                      "= '{}', aggregate_type = 'order', aggregate_id = '42'})\n";
  auto const client = "redis-cli -s " + server.socket() + " --eval " + (dir / "write.lua") + " '{shop}:'";
  auto const e = run(client);
  ASSERT_EQ(e.status, 0) << e.out;
  EXPECT_EQ(e.out, "2\n") << "the number of the second event";
  EXPECT_TRUE(eventually([&] { return server.ask({"ZCARD", "{shop}:done"}) == "2"; })) << log();
  EXPECT_THAT(run(client).out, HasSubstr("OUTBOX_DUPLICATE by-hand-1"));
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
  EXPECT_THAT(published(), ElementsAre(Pair("by-hand-1", 1), Pair("by-hand-2", 1)));
  EXPECT_EQ(run("grep -c '\"payload\":{\"name\":\"O.Brien\"}' " + lines_file()).out, "1\n");
}

TEST_F(RelayOnRedis, AServerThatIsAwayIsReportedAndTheRelayGoesOnWhenItIsBack) {
  redis_server server;
  write_config_for(server.url() + "?outbox.timeout=500");
  auto const pid = start();
  ASSERT_TRUE(eventually([&] { return ready(); })) << log();
  server.kill_hard();
  EXPECT_TRUE(eventually([&] { return !ready(); })) << log();
  server.start();
  EXPECT_TRUE(eventually([&] { return ready(); })) << log();
  auto const store = redis::open(server.url(), {.log = nullptr});
  writer_only({.store = store, .log = nullptr}).writer().write(no_transaction, "t", "{}", {.id = "later"});
  EXPECT_TRUE(eventually([&] { return published().contains("later"); })) << log();
  EXPECT_EQ(end(pid, SIGTERM), 0) << log();
}
#endif

}  // namespace
}  // namespace outbox
