// Names, options, passwords and URLs that PostgreSQL stores take or refuse.
#include "schema_fixture.hpp"

namespace outbox {
namespace {

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

TEST_F(PostgresSchema, AMissingSchemaIsNamedInTheError) {
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

TEST_F(PostgresSchema, WithoutTheRightToMigrateTheErrorSaysWhatToDo) {
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

TEST_F(PostgresSchema, AWeakDurabilitySettingIsWarnedOf) {
  std::vector<std::string> said;
  auto o = db.options();
  o.log = [&](log_line const& line) { said.push_back(line.text()); };
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

}  // namespace
}  // namespace outbox
