#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sqlite3.h>

#include <filesystem>
#include <outbox/error.hpp>
#include <outbox/open_store.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>

#ifdef OUTBOX_HAS_REDIS
#include "support/redis_server.hpp"
#endif
#include "support/findings.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

std::string refusal(std::string const& url) {
  try {
    static_cast<void>(open_store(url));
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option) << e.what();
    return e.what();
  }
  return "accepted";
}

std::string const schemes =
    "sqlite"
#ifdef OUTBOX_HAS_POSTGRES
    ", postgresql"
#endif
#ifdef OUTBOX_HAS_MYSQL
    ", mysql"
#endif
#ifdef OUTBOX_HAS_REDIS
    ", redis"
#endif
    " and memory";

TEST(OpenStore, EachMemoryStoreIsNew) {
  auto const a = open_store("memory:");
  EXPECT_EQ(a->capabilities().kind, "memory");
  EXPECT_NE(a, open_store("memory:"));
}

TEST(OpenStore, SqliteTakesAPathAndOptions) {
  temporary_directory const dir;
  auto const s = open_store("sqlite:" + (dir / "a.db") + "?table=my_events&busy_timeout=600000");
  EXPECT_EQ(s->capabilities().kind, "sqlite");
  EXPECT_EQ(s->inspect().counts().pending(), 0U);
  EXPECT_NO_THROW(static_cast<void>(open_store("sqlite://" + (dir / "a.db"))));
  EXPECT_EQ(finding_of(*s, "synchronous").level, spi::finding_level::passed);
  auto const weaker = open_store("sqlite:" + (dir / "a.db") + "?synchronous=normal");
  EXPECT_EQ(finding_of(*weaker, "synchronous").level, spi::finding_level::note);
}

TEST(OpenStore, AReadOnlyStoreChangesNothingAndCreatesNothing) {
  temporary_directory const dir;
  auto const url = "sqlite:" + (dir / "a.db");
  EXPECT_THROW(static_cast<void>(open_store(url, {.read_only = true})), error);
  EXPECT_FALSE(std::filesystem::exists(dir / "a.db"));
  auto const written = open_store(url);
  written->backend().pause({"t", ""});
  auto const read = open_store(url, {.read_only = true});
  EXPECT_EQ(read->backend().settings().pauses.size(), 1U);
  EXPECT_EQ(read->backend().overview(10).pending, 0U);
  EXPECT_THROW(read->backend().resume({"t", ""}), error);
  EXPECT_THROW(read->backend().begin_audit({.who = "a", .verb = "b"}), error);
  EXPECT_EQ(written->backend().settings().pauses.size(), 1U);
}

TEST(OpenStore, AReadThatTakesTooLongIsEnded) {
  temporary_directory const dir;
  auto const url = "sqlite:" + (dir / "a.db");
  {
    auto const s = open_store(url);
    sqlite::connection db{dir / "a.db"};
    db.execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, status, last_error) WITH "
        "RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) SELECT 'e' || i, 't', '{}', "
        "'2026-01-01 00:00:00.000000', '2026-01-01 00:00:00.000000', 3, 'error ' || i FROM n");
  }
  auto const read = open_store(url, {.read_only = true, .read_timeout = std::chrono::milliseconds{1}});
  try {
    static_cast<void>(read->backend().errors({}, 10));
    FAIL() << "grouping 200,000 rows took less than a millisecond";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::unavailable);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("the read took longer than 1 ms"));
  }
  EXPECT_EQ(open_store(url, {.read_only = true})->backend().errors({}, 10).size(), 10U);
}

TEST(OpenStore, TellsTheSchemaAndMigrates) {
  temporary_directory const dir;
  auto const url = "sqlite:" + (dir / "a.db") + "?table=my_events";
  auto const before = schema_of(url);
  EXPECT_EQ(before.found, schema_state::kind::none);
  EXPECT_EQ(before.wanted, spi::schema_version);
  EXPECT_THAT(before.sql, ::testing::HasSubstr("CREATE TABLE \"my_events\" ("));
  EXPECT_FALSE(std::filesystem::exists(dir / "a.db"));
  // The text that is printed makes the schema that the library accepts.
  {
    sqlite::connection db{dir / "b.db"};
    char* problem = nullptr;
    EXPECT_EQ(sqlite3_exec(db.handle(), before.sql.c_str(), nullptr, nullptr, &problem), SQLITE_OK) << problem;
  }
  EXPECT_EQ(schema_of("sqlite:" + (dir / "b.db") + "?table=my_events").found, schema_state::kind::current);
  EXPECT_NO_THROW(static_cast<void>(open_store("sqlite:" + (dir / "b.db") + "?table=my_events&migrate=0")));

  EXPECT_EQ(migrate_store(url).change, migration::kind::created);
  auto const after = schema_of(url);
  EXPECT_EQ(after.found, schema_state::kind::current);
  EXPECT_EQ(after.version, spi::schema_version);
  EXPECT_EQ(after.sql, "");
  EXPECT_EQ(migrate_store(url).change, migration::kind::nothing);
  EXPECT_THROW(static_cast<void>(schema_of("memory:")), error);
}

TEST(OpenStore, ATableIsPreparedForKeyedNodesAndNotMarked) {
  temporary_directory const dir;
  auto const url = "sqlite:" + (dir / "a.db");
  EXPECT_EQ(migrate_store(url, true).change, migration::kind::created);
  EXPECT_FALSE(open_store(url)->backend().settings().keyed);
  EXPECT_FALSE(open_store(url, {.keyed = true})->backend().settings().keyed);
  EXPECT_NO_THROW(static_cast<void>(open_store(url + "?keyed=1")));
  EXPECT_THAT(refusal(url + "?keyed=yes"), ::testing::HasSubstr("keyed=yes, which is no number"));
  EXPECT_EQ(migrate_store("memory:", true).change, migration::kind::nothing);
}

TEST(OpenStore, SaysWhatIsWrongWithTheUrl) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("shop.db"), HasSubstr("no scheme"));
  EXPECT_THAT(refusal("oracle:x"), HasSubstr("'oracle'; this library was built with " + schemes));
  EXPECT_THAT(refusal("sqlite:"), HasSubstr("names no file"));
  EXPECT_THAT(refusal("sqlite:x?speed=11"), HasSubstr("unknown parameter 'speed'"));
  EXPECT_THAT(refusal("sqlite:x?table"), HasSubstr("not name=value"));
  EXPECT_THAT(refusal("sqlite:x?table=a&table=b"), HasSubstr("twice"));
  EXPECT_THAT(refusal("sqlite:x?busy_timeout=soon"), HasSubstr("no number"));
  EXPECT_THAT(refusal("sqlite:x?busy_timeout=-1"), HasSubstr("busy_timeout"));
  EXPECT_THAT(refusal("sqlite:x?busy_timeout=600001"), HasSubstr("busy_timeout"));
  EXPECT_THAT(refusal("sqlite:x?synchronous=off"), HasSubstr("full or normal"));
  EXPECT_THAT(refusal("memory:x"), HasSubstr("takes nothing"));
  EXPECT_THAT(refusal("sqlite:x?table=a;drop"), HasSubstr("letters, digits and underscores"));
}

// A part of a URL that was cut off may be a password.
TEST(OpenStore, WhatIsNoSchemeIsNotShown) {
  for (std::string const url :
       {"bob/s3cret@host:1/x", "s3cret@host:3306/x", "s3cret%2F:x", "?s3cret:x", "a b s3cret:x"}) {
    EXPECT_THAT(refusal(url),
                ::testing::AllOf(::testing::HasSubstr("no scheme"), ::testing::Not(::testing::HasSubstr("s3cret"))))
        << url;
  }
}

#ifdef OUTBOX_HAS_MYSQL
// No server is asked.
TEST(OpenStore, SaysWhatIsWrongWithAUrlOfMysql) {
  using ::testing::HasSubstr;
  for (std::string const scheme : {"mysql", "mariadb"}) {
    EXPECT_THAT(refusal(scheme + ":shop"), HasSubstr("mysql:// or mariadb://"));
    EXPECT_THAT(refusal(scheme + "://h/d?speed=11"), HasSubstr("unknown parameter"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.speed=11"), HasSubstr("outbox.speed"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.table"), HasSubstr("not name=value"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.table=a&ssl=off&outbox.table=b"), HasSubstr("twice"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.timeout=soon"), HasSubstr("no number"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.timeout=1"), HasSubstr("timeout is 1 ms"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.connections=0"), HasSubstr("connections is 0"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.connections=101"), HasSubstr("connections is 101"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.done_rows=lose"), HasSubstr("keep or erase"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.table=a;drop"), HasSubstr("letters, digits and underscores"));
    EXPECT_THAT(refusal(scheme + "://h/d?outbox.schema=public"), HasSubstr("outbox.schema"));
    EXPECT_THAT(refusal(scheme + "://h:x/d"), HasSubstr("port"));
    EXPECT_THAT(refusal(scheme + "://bob:s3cret/@h/d?outbox.table=t"),
                ::testing::AllOf(HasSubstr("%2F"), ::testing::Not(HasSubstr("s3cret"))));
  }
}
#endif

#ifdef OUTBOX_HAS_REDIS
// No server is asked.
TEST(OpenStore, SaysWhatIsWrongWithAUrlOfRedis) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  using ::testing::Not;
  for (std::string const scheme : {"redis", "rediss"}) {
    EXPECT_THAT(refusal(scheme + ":shop"), HasSubstr("redis:// or rediss://"));
    EXPECT_THAT(refusal(scheme + "://h?speed=11"), HasSubstr("unknown parameter"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.table=t"), AllOf(HasSubstr("outbox.table"), HasSubstr("outbox.name")));
    EXPECT_THAT(refusal(scheme + "://h?outbox.name"), HasSubstr("not name=value"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.name=a&outbox.notify=0&outbox.name=b"), HasSubstr("twice"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.name="), HasSubstr("name must be text"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.name=%7Bshop"), HasSubstr("brace"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.name=100%"), HasSubstr("%25"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.timeout=soon"), HasSubstr("no number"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.timeout=1"), HasSubstr("timeout must be"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.connections=0"), HasSubstr("connections must be"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.replicas=17"), HasSubstr("replicas must be"));
    EXPECT_THAT(refusal(scheme + "://h?outbox.done_rows=lose"), HasSubstr("keep or erase"));
    EXPECT_THAT(refusal(scheme + "://h:x"), HasSubstr("port"));
    EXPECT_THAT(refusal(scheme + "://bob:s3cret/@h?outbox.name=t"), AllOf(HasSubstr("%2F"), Not(HasSubstr("s3cret"))));
  }
  for (std::string const scheme : {"redis+sentinel", "rediss+sentinel", "redis-sentinel", "sentinel"}) {
    EXPECT_THAT(refusal(scheme + "://h:26379/mymaster"), HasSubstr("Sentinel, which is not supported")) << scheme;
  }
  EXPECT_THAT(refusal("redis-cluster://h"), HasSubstr("redis:// or rediss://"));
  EXPECT_THAT(refusal("sentinel2://h"), HasSubstr("unknown scheme"));
}

/// A server of its own: the names of its outboxes are those of the test.
class OpenStoreOnRedis : public ::testing::Test {
 protected:
  [[nodiscard]] std::string url(std::string const& parameters) const { return server.url() + "?" + parameters; }
  redis_server server;
};

TEST_F(OpenStoreOnRedis, ParametersOfTheUrlReachTheStore) {
  auto const s = open_store(url("outbox.name=%7Bshop%7D%3Aoutbox&outbox.notify=0&outbox.connections=2"));
  EXPECT_EQ(s->capabilities().kind, "redis");
  EXPECT_FALSE(s->capabilities().keeps_done_rows) << "erase is the default on Redis";
  EXPECT_NE(server.ask({"HGET", "{shop}:outbox:meta", "version"}), "");
  EXPECT_EQ(server.ask({"PUBSUB", "CHANNELS"}), "") << "it does not listen";
  auto const heard = open_store(url("outbox.name={shop}:outbox&outbox.done_rows=keep"));
  EXPECT_TRUE(heard->capabilities().keeps_done_rows);
  EXPECT_EQ(server.ask({"PUBSUB", "CHANNELS"}), "{shop}:outbox:wake");
  auto const strict = open_store(url("outbox.replicas=1"));
  EXPECT_EQ(finding_of(*strict, "replicas").level, spi::finding_level::problem) << "there is none";
  EXPECT_THROW(static_cast<void>(open_store(url("outbox.name=none&outbox.migrate=0"))), error);
  EXPECT_EQ(server.ask({"EXISTS", "{none}:meta"}), "0");
}

TEST_F(OpenStoreOnRedis, AReadOnlyStoreChangesNothingAndCreatesNothing) {
  auto const at = url("outbox.name=a");
  EXPECT_THROW(static_cast<void>(open_store(at, {.read_only = true, .log = nullptr})), error);
  EXPECT_EQ(server.ask({"DBSIZE"}), "0");
  auto const written = open_store(at, {.log = nullptr});
  written->backend().pause({"t", ""});
  auto const read = open_store(at, {.read_only = true, .log = nullptr});
  EXPECT_EQ(read->backend().settings().pauses.size(), 1U);
  EXPECT_EQ(read->backend().overview(10).pending, 0U);
  EXPECT_THROW(read->backend().resume({"t", ""}), error);
  EXPECT_THROW(read->backend().begin_audit({.who = "a", .verb = "b"}), error);
  EXPECT_EQ(written->backend().settings().pauses.size(), 1U);
}

TEST_F(OpenStoreOnRedis, TellsTheVersionAndCreatesTheOutbox) {
  auto const at = url("outbox.name=a");
  EXPECT_EQ(schema_of(at).found, schema_state::kind::none);
  EXPECT_EQ(server.ask({"DBSIZE"}), "0");
  EXPECT_EQ(migrate_store(at).change, migration::kind::created);
  EXPECT_EQ(migrate_store(at).change, migration::kind::nothing);
  EXPECT_EQ(schema_of(at).found, schema_state::kind::current);
  EXPECT_NO_THROW(static_cast<void>(open_store(at, {.migrate = false, .log = nullptr})));
  server.ask({"HSET", "{a}:meta", "version", "99", "oldest_library", "99"});
  EXPECT_EQ(schema_of(at).found, schema_state::kind::newer);
  EXPECT_THROW(static_cast<void>(migrate_store(at)), error);
}

TEST_F(OpenStoreOnRedis, OnlyTablesOfSqlHaveALayout) {
  try {
    static_cast<void>(open_store(url("outbox.name=a"), table_layout{}));
    FAIL() << "opened";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("Redis, and only tables of SQL databases have a layout"));
  }
  EXPECT_EQ(server.ask({"DBSIZE"}), "0");
}
#endif

TEST(OpenStore, AFileThatCannotBeOpenedIsNamedInTheError) {
  try {
    static_cast<void>(open_store("sqlite:/nonexistent/directory/x.db"));
    FAIL() << "opened";
  } catch (error const& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("/nonexistent/directory/x.db"));
  }
}

}  // namespace
}  // namespace outbox
