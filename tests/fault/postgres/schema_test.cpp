// The schema on PostgreSQL: made, adopted, refused; and other programs that use the same table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <outbox/open_store.hpp>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/spi/store.hpp>
#include <thread>

#include "support/postgres_database.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace spi;

using namespace std::chrono_literals;
using postgres::migration;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <class F>
std::string refusal(F&& f, errc code, std::string_view field = {}) {
  try {
    f();
  } catch (error const& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_EQ(e.field(), field) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "accepted";
  return {};
}

class PostgresSchema : public ::testing::Test {
 protected:
  migration migrate(postgres::options o) { return postgres::migrate(db.connection(), o); }
  migration migrate() { return migrate(db.options()); }

  // As the specification has it, in PostgreSQL's types.
  void make_plain_table(std::string const& json, std::string const& time) {
    db.execute("CREATE TABLE " + db.table() +
               " (event_id VARCHAR(36) PRIMARY KEY, event_type VARCHAR(128) NOT NULL, aggregate_type VARCHAR(64), "
               "aggregate_id VARCHAR(128), tenant_id VARCHAR(64), payload " +
               json + " NOT NULL, headers " + json +
               ", status SMALLINT NOT NULL, attempts INT NOT NULL DEFAULT 0, available_at " + time +
               " NOT NULL, created_at " + time + " NOT NULL, done_at " + time +
               ", last_error TEXT, locked_by VARCHAR(128), locked_at " + time + ")");
    db.execute("CREATE INDEX ON " + db.table() + " (status, available_at, created_at)");
    db.execute("SET timezone = 'UTC'");
    db.execute("INSERT INTO " + db.table() +
               " (event_id, event_type, payload, headers, status, available_at, created_at, locked_by, done_at) VALUES "
               "('new', 't', '{\"b\": 1, \"a\":2}', '{\"k\":\"v\"}', 0, '2024-01-02 00:00:00', '2024-01-02 00:00:00', "
               "'somebody', NULL), "
               "('old', 't', '1', NULL, 2, '2024-01-01 00:00:00', '2024-01-01 00:00:00', NULL, NULL), "
               "('done', 't', '1', NULL, 1, '2024-01-03 00:00:00', '2024-01-03 00:00:00', NULL, NULL)");
  }

  std::vector<std::string> deliver_all(std::shared_ptr<outbox::store> const& s, log_function log = nullptr) {
    std::vector<std::string> ids;
    multi_node_options o{.store = s, .log = std::move(log)};
    o.workers = 1;
    o.listeners.on("t", [&](delivery const& d) { ids.push_back(d.id + " " + d.event.payload()); });
    multi_node(std::move(o)).run_until_idle();
    return ids;
  }

  std::string column_type(std::string const& name) {
    return db.ask("SELECT data_type FROM information_schema.columns WHERE table_schema = '" + db.schema() +
                  "' AND table_name = 'outbox_event' AND column_name = '" + name + "'");
  }

  // Runs psql as an operator does; its output.
  std::string psql(std::string const& sql) {
    temporary_directory const dir;
    std::ofstream{dir / "in.sql"} << sql;
    auto const command =
        "psql -X -A -t -v ON_ERROR_STOP=1 -d '" + db.connection() + "' -f " + (dir / "in.sql") + " 2>&1";
    std::string out;
    auto* const pipe = ::popen(command.c_str(), "r");
    char line[512];
    while (std::fgets(line, sizeof line, pipe) != nullptr) out += line;
    EXPECT_EQ(::pclose(pipe), 0) << out;
    return out;
  }

  postgres_database db;
};

TEST_F(PostgresSchema, IsCreatedOnceAndThenLeftAlone) {
  EXPECT_EQ(migrate().what, migration::kind::created);
  EXPECT_EQ(migrate().what, migration::kind::nothing);
  EXPECT_NO_THROW(static_cast<void>(db.open()));
}

TEST_F(PostgresSchema, AnIndexForAnOrderedNodeIsAddedOnDemand) {
  auto o = db.options();
  o.table = "OrderedTable";
  auto const indexes = [&] {
    return db.ask("SELECT count(*) FROM pg_indexes WHERE schemaname = '" + db.schema() +
                  "' AND indexname = 'OrderedTable_in_order'");
  };
  EXPECT_EQ(postgres::migrate(db.connection(), o).what, migration::kind::created);
  EXPECT_EQ(indexes(), "0");
  o.ordered = true;
  EXPECT_EQ(postgres::migrate(db.connection(), o).what, migration::kind::indexed);
  EXPECT_EQ(indexes(), "1");
  EXPECT_EQ(postgres::migrate(db.connection(), o).what, migration::kind::nothing);
  o.table = "another";
  EXPECT_EQ(postgres::migrate(db.connection(), o).what, migration::kind::created);
}

TEST_F(PostgresSchema, AnIndexForAnOrderedNodeThatIsNotValidIsSaid) {
  std::vector<std::string> said;
  auto o = db.options();
  o.ordered = true;
  migrate(o);
  db.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = '" + db.table("outbox_event_in_order") +
             "'::regclass");
  o.log = [&](log_level, std::string_view text) { said.emplace_back(text); };
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
  EXPECT_EQ(migrate().what, migration::kind::adopted);
}

TEST_F(PostgresSchema, CompanionsWithoutTheirTableAreSaid) {
  migrate();
  db.execute("DROP TABLE " + db.table());
  EXPECT_THAT(refusal([&] { static_cast<void>(db.open()); }, errc::store_failure), HasSubstr("is gone"));
}

TEST_F(PostgresSchema, ManyThatCreateAtOnceDoNotFail) {
  std::atomic<int> created = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] { created += migrate().what == migration::kind::created ? 1 : 0; });
    }
  }
  EXPECT_EQ(created, 1);
}

TEST_F(PostgresSchema, WithoutMigrateAMissingTableIsSaid) {
  auto o = db.options();
  o.migrate = false;
  auto const text = refusal([&] { static_cast<void>(postgres::open(db.connection(), o)); }, errc::store_failure);
  EXPECT_THAT(text, HasSubstr("outbox::postgres::migrate()"));
}

TEST_F(PostgresSchema, ANewerVersionIsRefused) {
  migrate();
  db.execute("UPDATE " + db.table("outbox_meta") + " SET value = '9' WHERE name = 'schema_version'");
  EXPECT_THAT(refusal([&] { static_cast<void>(db.open()); }, errc::store_failure), HasSubstr("version 9"));
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("use a newer library"));
}

TEST_F(PostgresSchema, APlainTableIsAdoptedWithItsRows) {
  make_plain_table("JSON", "TIMESTAMPTZ");
  auto const report = migrate();
  EXPECT_EQ(report.what, migration::kind::adopted);
  EXPECT_TRUE(report.warnings.empty());
  auto const s = db.open();
  EXPECT_EQ(s->inspect().find("new")->locked_by, "") << "whoever held it is another program";
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
    return db.ask("SELECT (SELECT attnum FROM pg_attribute WHERE attrelid = '" + db.table() +
                  "'::regclass AND attname = 'written_by') < (SELECT attnum FROM pg_attribute WHERE attrelid = '" +
                  db.table() + "'::regclass AND attname = 'seq')");
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
  o.log = [&](log_level, std::string_view text) { said.emplace_back(text); };
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

TEST_F(PostgresSchema, ATableOfSomebodyElseIsRefusedUntouched) {
  db.execute("CREATE TABLE " + db.table() + " (id int)");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("not an outbox table"));
  EXPECT_EQ(column_type("id"), "integer");
}

TEST_F(PostgresSchema, AColumnThatNobodyWouldFillIsRefusedUntouched) {
  make_plain_table("JSON", "TIMESTAMPTZ");
  db.execute("ALTER TABLE " + db.table() + " ADD COLUMN owner_team text NOT NULL DEFAULT 'x'");
  db.execute("ALTER TABLE " + db.table() + " ALTER COLUMN owner_team DROP DEFAULT");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("owner_team"));
  EXPECT_EQ(db.ask("SELECT count(*) FROM information_schema.columns WHERE table_schema = '" + db.schema() + "'"), "16");
}

TEST_F(PostgresSchema, ATableWithoutItsCompanionsIsAdopted) {
  migrate();
  db.execute("DROP TABLE " + db.table("outbox_meta") + ", " + db.table("outbox_node"));
  db.execute("DROP INDEX " + db.schema() + ".outbox_event_due, " + db.schema() + ".outbox_event_ended, " + db.schema() +
             ".outbox_event_dead");
  EXPECT_EQ(migrate().what, migration::kind::adopted);
  EXPECT_NO_THROW(static_cast<void>(db.open()));
}

TEST_F(PostgresSchema, BlankHeadersOfATextColumnMeanNone) {
  make_plain_table("TEXT", "TIMESTAMPTZ");
  db.execute("UPDATE " + db.table() + " SET headers = ' ' WHERE event_id = 'old'");
  EXPECT_EQ(migrate().what, migration::kind::adopted);
  EXPECT_TRUE(db.open()->inspect().find("old")->event.headers().empty());
}

TEST_F(PostgresSchema, AnIdOfAnotherTypeIsRefusedUntouched) {
  db.execute(
      "CREATE TABLE " + db.table() +
      " (event_id uuid, event_type text, payload json, status int, available_at timestamptz, created_at timestamptz)");
  EXPECT_THAT(refusal([&] { migrate(); }, errc::store_failure), HasSubstr("uuid"));
  EXPECT_EQ(column_type("event_id"), "uuid");
}

TEST_F(PostgresSchema, HostileNamesAreRefusedBeforeAnyStatement) {
  for (auto const* const name : {"", "a b", "a;DROP TABLE x", "a\"b", "a'b", "1a", "a-b", "schema.table", "\xC3\xA9"}) {
    auto o = db.options();
    o.table = name;
    refusal([&] { migrate(o); }, errc::invalid_option, "table");
    o = db.options();
    if (*name == '\0') continue;
    o.schema = name;
    refusal([&] { migrate(o); }, errc::invalid_option, "schema");
  }
  auto o = db.options();
  o.table = "outbox";
  EXPECT_THAT(refusal([&] { migrate(o); }, errc::invalid_option, "table"), HasSubstr("companions"));
  o.table = std::string(49, 'a');
  EXPECT_THAT(refusal([&] { migrate(o); }, errc::invalid_option, "table"), HasSubstr("the limit is 48"));
}

TEST_F(PostgresSchema, ReservedWordsAndCapitalsAreNamesLikeAnyOther) {
  for (auto const& name : {std::string{"select"}, std::string{"Order"}, std::string{"user"}, std::string(48, 'Z')}) {
    auto o = db.options();
    o.table = name;
    auto const s = postgres::open(db.connection(), o);
    auto n = multi_node({.store = s, .log = nullptr});
    postgres::connection c{db.connection()};
    postgres::transaction tx{c};
    n.writer().write(tx, "t", "1", {.id = "a"});
    tx.commit();
    EXPECT_THAT(deliver_all(s), ElementsAre("a 1")) << name;
    EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.schema() + ".\"" + name + "\" WHERE status = 1"), "1");
  }
}

TEST_F(PostgresSchema, ASchemaThatIsNotThereIsSaid) {
  auto o = db.options();
  o.schema = "nowhere";
  EXPECT_THAT(refusal([&] { migrate(o); }, errc::invalid_option, "schema"), HasSubstr("'nowhere' does not exist"));
}

TEST_F(PostgresSchema, TheSearchPathOfACallerDoesNotMatter) {
  auto const s = db.open();
  auto n = multi_node({.store = s, .log = nullptr});
  postgres::connection c{db.connection()};
  c.execute("CREATE TEMP TABLE outbox_event (event_id text); SET search_path = pg_temp, pg_catalog");
  postgres::transaction tx{c};
  n.writer().write(tx, "t", "1", {.id = "a"});
  tx.commit();
  EXPECT_TRUE(s->inspect().find("a"));
}

TEST_F(PostgresSchema, OptionsOutOfRangeNameTheField) {
  auto o = db.options();
  o.connections = 0;
  EXPECT_THAT(
      refusal([&] { static_cast<void>(postgres::open(db.connection(), o)); }, errc::invalid_option, "connections"),
      HasSubstr("1 to 100"));
  o = db.options();
  o.timeout = 1ms;
  refusal([&] { static_cast<void>(postgres::open(db.connection(), o)); }, errc::invalid_option, "timeout");
}

TEST_F(PostgresSchema, NoPasswordInAnyError) {
  // What can be parsed reaches a server that refuses; what cannot is not shown at all.
  auto const port = std::to_string(postgres_server::shared().port());
  for (std::string const& wrong :
       std::vector<std::string>{"host=127.0.0.1 port=" + port + " user=nobody_here password=s3cret dbname=postgres",
                                "host=127.0.0.1 port=1 user=a password=s3cret", "postgresql://a:s3cret@127.0.0.1:1/x",
                                "host=127.0.0.1 password s3cret", "postgresql://a:p@s3cret@127.0.0.1/x",
                                "postgresql://a:s3cret@[::1/x", "s3cret"}) {
    try {
      static_cast<void>(postgres::open(wrong));
      ADD_FAILURE() << "opened " << wrong;
    } catch (error const& e) {
      EXPECT_THAT(e.what(), Not(HasSubstr("s3cret")));
    }
  }
}

// libpq takes what is left of such a password for a host, a port, the name of a database or a parameter.
TEST_F(PostgresSchema, NoPartOfAPasswordThatIsNotEscapedInAnyError) {
  std::string_view const marks = "/@?#:%[]&=, ";
  std::vector<std::string> urls;
  for (char const first : marks) {
    for (char const second : marks) {
      for (std::string const begin : {"s3cret", "10"}) {
        auto const password = begin + first + "s3cret" + second + "s3cret";
        urls.push_back("postgresql://bob:" + password + "@127.0.0.1:1/postgres");
        urls.push_back("postgres://bob:" + password + "@127.0.0.1:1,127.0.0.1:2/postgres?connect_timeout=2");
      }
    }
  }
  auto const server = "127.0.0.1:" + std::to_string(postgres_server::shared().port());
  for (std::string const rest :
       {"/s3cret@127.0.0.1:1/postgres", "/s3cret?user=s3cret@127.0.0.1:1/postgres",
        "/postgres?user=s3cret@127.0.0.1:1/postgres", "/s3cret?application_name=s3cret@127.0.0.1:1/postgres"}) {
    urls.push_back("postgresql://" + server + rest);
  }
  urls.push_back("host=127.0.0.1 port=s3cret dbname=postgres");
  urls.push_back("host=127.0.0.1,127.0.0.1 port=1,s3cret dbname=postgres");
  urls.push_back("host=127.0.0.1 port=" + std::to_string(postgres_server::shared().port()) +
                 " user=outbox dbname=postgresql://bob:s3cret@127.0.0.1/x");
  for (auto const& url : urls) {
    try {
      static_cast<void>(postgres::open(url));
      ADD_FAILURE() << "opened " << url;
    } catch (error const& e) {
      EXPECT_THAT(e.what(), Not(HasSubstr("s3cret"))) << url;
      EXPECT_THAT(e.what(), Not(HasSubstr("\t"))) << url;
    }
  }
}

TEST_F(PostgresSchema, WhatIsEscapedIsNotRefused) {
  auto const port = std::to_string(postgres_server::shared().port());
  for (std::string const password : {"a%2Fb", "a%40b", "a%2Fb%40c%3Fd", "a:b", "a?b", "a#b"}) {
    auto const url = "postgresql://outbox:" + password + "@127.0.0.1:" + port + "/postgres";
    EXPECT_NO_THROW(postgres::connection{url}) << url;
  }
  EXPECT_NO_THROW(
      postgres::connection{"postgresql://127.0.0.1:" + port + "/postgres?user=outbox&application_name=a@b"});
  EXPECT_NO_THROW(postgres::connection{"host=127.0.0.1,127.0.0.1 port=" + port + ", user=outbox dbname=postgres"});
  auto const abstract =
      refusal([] { postgres::connection{"host=@nowhere,@nobody user=a dbname=b"}; }, errc::unavailable);
  EXPECT_THAT(abstract, HasSubstr("@nobody"));
}

TEST_F(PostgresSchema, WithoutTheRightToMigrateItIsSaidWhatToDo) {
  auto const role = "guest_" + db.schema();
  db.execute("CREATE ROLE " + role + " LOGIN");
  db.execute("GRANT USAGE ON SCHEMA " + db.schema() + " TO " + role);
  auto const as_guest = [&](postgres::options const& o) {
    return refusal([&] { static_cast<void>(postgres::open(db.connection() + " user=" + role, o)); },
                   errc::store_failure);
  };
  auto const create = as_guest(db.options());
  EXPECT_THAT(create, HasSubstr("cannot create table 'outbox_event' in schema '" + db.schema() + "'"));
  EXPECT_THAT(create, HasSubstr("permission denied for schema"));
  EXPECT_THAT(create, HasSubstr("CREATE on the schema"));
  EXPECT_THAT(create, HasSubstr(".migrate = false"));
  make_plain_table("JSON", "TIMESTAMPTZ");
  db.execute("GRANT SELECT ON " + db.table() + " TO " + role);
  EXPECT_THAT(as_guest(db.options()), HasSubstr("cannot adopt table 'outbox_event'"));
  migrate();
  db.execute("GRANT SELECT ON ALL TABLES IN SCHEMA " + db.schema() + " TO " + role);
  auto o = db.options();
  o.ordered = true;
  EXPECT_THAT(as_guest(o), HasSubstr("cannot add index outbox_event_in_order"));
  o.ordered = false;
  EXPECT_NO_THROW(static_cast<void>(postgres::open(db.connection() + " user=" + role, o))) << "there is nothing to do";
  db.execute("DROP OWNED BY " + role + "; DROP ROLE " + role);
}

TEST_F(PostgresSchema, AWeakServerIsWarnedOf) {
  std::vector<std::string> said;
  auto o = db.options();
  o.log = [&](log_level, std::string_view text) { said.emplace_back(text); };
  static_cast<void>(postgres::open(db.connection(), o));
  EXPECT_THAT(said, ElementsAre(HasSubstr("fsync = off")));  // as the tests' server has it
  EXPECT_THAT(said, ElementsAre(::testing::StartsWith("the store of " + db.table() + ": ")));
}

TEST_F(PostgresSchema, AUrlOpensIt) {
  auto const& server = postgres_server::shared();
  auto const url = "postgresql://outbox@127.0.0.1:" + std::to_string(server.port()) +
                   "/postgres?application_name=shop&outbox.schema=" + db.schema() + "&outbox.table=mine";
  auto const s = open_store(url);
  EXPECT_EQ(s->capabilities().kind, "postgres");
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table("mine")), "0");
  static_cast<void>(s->inspect().counts());
  EXPECT_NE(db.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shop'"), "0");
  EXPECT_THAT(refusal([&] { static_cast<void>(open_store(url + "&outbox.colour=red")); }, errc::invalid_option, "url"),
              HasSubstr("outbox.colour"));
}

// A writer in any language, and a reader in any language.
TEST_F(PostgresSchema, WhatPsqlInsertsIsDelivered) {
  auto const s = db.open();
  psql("INSERT INTO " + db.table() +
       " (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, "
       "available_at, created_at) VALUES ('plain', 't', 'order', '7', NULL, '{\"n\": 1}', NULL, 0, 0, now(), now()), "
       "('blank', 't', NULL, NULL, NULL, '2', 'null', 0, 0, now(), now());");
  EXPECT_THAT(deliver_all(s), ElementsAre("plain {\"n\": 1}", "blank 2"));
  EXPECT_EQ(s->inspect().find("blank")->event.aggregate_type(), global_aggregate);
  EXPECT_TRUE(s->inspect().find("blank")->event.headers().empty());
}

TEST_F(PostgresSchema, LockColumnsFollowTheOwner) {
  auto const s = db.open();
  psql("INSERT INTO " + db.table() +
       " (event_id, event_type, payload, status, available_at, created_at) VALUES ('done', 't', '1', 0, now() - "
       "interval '4 s', now()), ('retry', 't', '1', 0, now() - interval '3 s', now()), ('defer', 't', '1', 0, now() - "
       "interval '2 s', now()), ('dead', 't', '1', 0, now() - interval '1 s', now());");
  auto const locks = [&] {
    return psql("SELECT coalesce(locked_by, '-'), locked_at IS NULL, lease_until IS NULL FROM " + db.table() +
                " ORDER BY available_at;");
  };
  EXPECT_EQ(locks(), "-|t|t\n-|t|t\n-|t|t\n-|t|t\n");
  auto const rows = s->backend().claim({.token = "n/1", .lease = 30s}).rows;
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(locks(), "n/1|f|f\nn/1|f|f\nn/1|f|f\nn/1|f|f\n");
  EXPECT_EQ(psql("SELECT count(*) FROM " + db.table() + " WHERE locked_at BETWEEN now() - interval '1 min' AND now();"),
            "4\n");
  std::vector<settlement> const ends{
      {.row = rows[0].handle, .outcome = outcome::delivered},
      {.row = rows[1].handle, .outcome = outcome::retry, .counted = 1, .delay = 1h, .error = "down"},
      {.row = rows[2].handle, .outcome = outcome::defer, .delay = 2h},
      {.row = rows[3].handle, .outcome = outcome::dead, .error = "no"}};
  EXPECT_EQ(s->backend().settle(ends), std::vector<bool>(4, true));
  EXPECT_EQ(locks(), "-|t|t\n-|t|t\n-|t|t\n-|t|t\n");
}

TEST_F(PostgresSchema, ThePollQueryOfTheSpecificationReadsOurRows) {
  auto const s = db.open();
  auto n = multi_node({.store = s, .log = nullptr});
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  n.writer().write(tx, "t", "{\"n\":1}", {.id = "a", .aggregate = {"order", "7"}, .headers = {{"k", "v"}}});
  n.writer().write(tx, "u", "1", {.id = "none", .deliver_after = 1h});
  tx.commit();
  EXPECT_EQ(psql("SELECT event_id FROM " + db.table() + " WHERE headers IS NULL;"), "none\n") << "not an empty object";
  EXPECT_EQ(
      psql("SELECT event_id, event_type, aggregate_type, aggregate_id, payload, headers->>'k', status, attempts FROM " +
           db.table() +
           " WHERE status IN (0, 2) AND available_at <= now() AND (locked_by IS NULL OR locked_at < now() - interval "
           "'5 minutes') ORDER BY created_at LIMIT 50 FOR UPDATE SKIP LOCKED;"),
      "a|t|order|7|{\"n\":1}|v|0|0\n");
}

TEST_F(PostgresSchema, RowsThatNobodyCanReadDieAndTheRestIsDelivered) {
  auto const s = db.open();
  psql("INSERT INTO " + db.table() +
       " (event_id, event_type, payload, headers, status, available_at, created_at) VALUES "
       "('bad', 't', '1', '[1]', 0, now() - interval '1 s', now()), ('good', 't', '1', '{}', 0, now(), now()), "
       "('never', 't', '1', NULL, 0, 'infinity', now());");
  std::vector<std::string> log;
  EXPECT_THAT(deliver_all(s,
                          [&](log_level level, std::string_view text) {
                            if (level == log_level::error) log.emplace_back(text);
                          }),
              ElementsAre("good 1"));
  EXPECT_THAT(log, ElementsAre(HasSubstr("event bad (t) of route 't' is DEAD: the row cannot be read: ")));
  EXPECT_EQ(s->inspect().find("bad")->status, event_status::dead);
  EXPECT_EQ(s->inspect().find("never")->status, event_status::created);
}

TEST_F(PostgresSchema, ARowWhoseChangeIsSuppressedIsIsolated) {
  auto const s = db.open();
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at) SELECT id, 't', '1', 0, now(), now() "
             "FROM unnest(ARRAY['a', 'bad', 'b']) id");
  db.execute("CREATE FUNCTION " + db.schema() +
             ".ignore() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$");
  db.execute("CREATE TRIGGER ignore BEFORE UPDATE ON " + db.table() +
             " FOR EACH ROW WHEN (OLD.event_id = 'bad') EXECUTE FUNCTION " + db.schema() + ".ignore()");
  auto const reply = s->backend().claim({.token = "n/1", .lease = 30s});
  EXPECT_EQ(reply.rows.size(), 2U);
  ASSERT_EQ(reply.refused.size(), 1U);
  EXPECT_EQ(reply.refused.front().id, "bad");
}

}  // namespace
}  // namespace outbox
