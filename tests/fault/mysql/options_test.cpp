// Names, options, passwords and URLs that MariaDB stores take or refuse.
#include <functional>
#include <set>

#include "mysql/url.hpp"
#include "schema_fixture.hpp"

namespace outbox {
namespace {

class MysqlOptions : public MysqlSchema {};

TEST_F(MysqlOptions, HostileNamesAreRefusedBeforeAnyStatement) {
  for (auto const* const name :
       {"", "a b", "a;DROP TABLE x", "a`b", "a\"b", "a'b", "1a", "a-b", "database.table", "\xC3\xA9"}) {
    auto o = db.options();
    o.table = name;
    refusal([&] { migrate(o); }, errc::invalid_option, "table");
    refusal([&] { static_cast<void>(mysql::open(db.url(), o)); }, errc::invalid_option, "table");
  }
  auto o = db.options();
  o.table = "outbox";
  EXPECT_THAT(refusal([&] { migrate(o); }, errc::invalid_option, "table"), HasSubstr("companions"));
  o.table = std::string(49, 'a');
  EXPECT_THAT(refusal([&] { migrate(o); }, errc::invalid_option, "table"), HasSubstr("the limit is 48"));
  o = db.options();
  o.database = "a`; DROP DATABASE x";
  refusal([&] { migrate(o); }, errc::invalid_option, "database");
}

TEST_F(MysqlOptions, OptionsOutOfRangeNameTheField) {
  auto const refused = [&](std::string_view field, auto&& set) {
    auto o = db.options();
    set(o);
    auto const by_open = refusal([&] { static_cast<void>(mysql::open(db.url(), o)); }, errc::invalid_option, field);
    EXPECT_EQ(refusal([&] { migrate(o); }, errc::invalid_option, field), by_open);
    return by_open;
  };
  EXPECT_THAT(refused("connections", [](auto& o) { o.connections = 0; }), HasSubstr("1 to 100"));
  EXPECT_THAT(refused("connections", [](auto& o) { o.connections = 101; }), HasSubstr("is 101"));
  EXPECT_THAT(refused("timeout", [](auto& o) { o.timeout = 99ms; }), HasSubstr("100 to 600000 ms"));
  refused("timeout", [](auto& o) { o.timeout = 10min + 1ms; });
  refused("timeout", [](auto& o) { o.timeout = -1ms; });
  EXPECT_EQ(tables(), "") << "nothing was done";
  auto o = db.options();
  o.connections = 100;
  o.timeout = 100ms;
  EXPECT_NO_THROW(static_cast<void>(mysql::open(db.url(), o)));
}

// What is wrong with an option is said before a server is asked.
TEST_F(MysqlOptions, OptionsAreCheckedBeforeTheConnection) {
  auto o = db.options();
  o.connections = 0;
  refusal([&] { static_cast<void>(mysql::open("mysql://nobody@127.0.0.1:1/x", o)); }, errc::invalid_option,
          "connections");
}

// URLs.

TEST(MysqlUrl, ItsPartsAreRead) {
  using mysql::parse_url;
  auto const a =
      parse_url("mysql://bob:pa%20ss%2F%40%3A%3F%23%25@db.example.com:3307/shop%20one?ssl=verify&ssl_ca=/a%26b");
  EXPECT_EQ(a.user, "bob");
  EXPECT_EQ(a.password, "pa ss/@:?#%");
  EXPECT_EQ(a.host, "db.example.com");
  EXPECT_EQ(a.port, 3307U);
  EXPECT_EQ(a.database, "shop one");
  EXPECT_EQ(a.tls, mysql::tls::verify);
  EXPECT_EQ(a.ca, "/a&b");
  auto const b = parse_url("mariadb://localhost");
  EXPECT_EQ(b.host, "localhost");
  EXPECT_EQ(b.user, "");
  EXPECT_EQ(b.password, "");
  EXPECT_EQ(b.database, "");
  EXPECT_EQ(b.port, 0U);
  EXPECT_EQ(b.tls, mysql::tls::attempt);
  auto const c = parse_url("mysql://bob@/shop?socket=/run/my%20sock&ssl=off&ssl_cert=c&ssl_key=k");
  EXPECT_EQ(c.host, "localhost");
  EXPECT_EQ(c.socket, "/run/my sock");
  EXPECT_EQ(c.tls, mysql::tls::off);
  EXPECT_EQ(c.certificate, "c");
  EXPECT_EQ(c.key, "k");
  auto const d = parse_url("mysql://bob:@[::1]:33/shop");
  EXPECT_EQ(d.host, "::1");
  EXPECT_EQ(d.port, 33U);
  EXPECT_EQ(d.user, "bob");
  EXPECT_EQ(parse_url("mysql://[fe80::1%25eth0]").host, "fe80::1%eth0");
  EXPECT_EQ(parse_url("mysql://h/").database, "");
  EXPECT_EQ(parse_url("mysql://h?ssl=try").tls, mysql::tls::attempt);
  EXPECT_EQ(parse_url("mysql://h/d?ssl=on").tls, mysql::tls::on);
  EXPECT_EQ(parse_url("mysql://bob:a:b@h").password, "a:b");
  EXPECT_EQ(parse_url("mysql://b%6fb@h").user, "bob");
  EXPECT_EQ(parse_url("mysql://h/d%C3%A9").database, "d\xC3\xA9");
  EXPECT_EQ(parse_url("mysql:///shop?socket=/s").database, "shop");
}

TEST(MysqlUrl, WhatIsWrongIsSaid) {
  auto const said = [](std::string const& url) {
    return refusal([&] { static_cast<void>(mysql::parse_url(url)); }, errc::invalid_option, "url");
  };
  for (std::string const url : {"", "mysql", "mysql:", "mysql:/h", "postgresql://h", "http://h", "MYSQL://h",
                                " mysql://h", "user=a host=b", "mysqlx://h"}) {
    EXPECT_THAT(said(url), HasSubstr("mysql:// or mariadb://")) << url;
  }
  for (std::string const port : {"", "0", "65536", "x", "3306x", "-1", "+1", "99999999999", " 1", "0x10"}) {
    EXPECT_THAT(said("mysql://h:" + port + "/d"), HasSubstr("port")) << port;
    EXPECT_THAT(said("mysql://[::1]:" + port + "/d"), HasSubstr("port")) << port;
  }
  EXPECT_THAT(said("mysql://[::1/d"), HasSubstr("without a ']'"));
  EXPECT_THAT(said("mysql://[::1]x/d"), HasSubstr("behind the ']'"));
  EXPECT_THAT(said("mysql://h/d/e"), HasSubstr("'/' in the name of its database"));
  EXPECT_THAT(said("mysql://h/d?colour=red"), HasSubstr("unknown parameter"));
  EXPECT_THAT(said("mysql://h/d?SSL=on"), HasSubstr("unknown parameter"));
  EXPECT_THAT(said("mysql://h/d?ssl"), HasSubstr("not name=value"));
  EXPECT_THAT(said("mysql://h/d?ssl=yes"), HasSubstr("off, try, on or verify"));
  EXPECT_THAT(said("mysql://a@b@h/d"), HasSubstr("'@'"));
  EXPECT_THAT(said("mysql://a:p/q@h/d"), HasSubstr("%2F"));
  for (std::string const escape : {"%", "%4", "%zz", "%4z", "a%"}) {
    for (auto const& url : {"mysql://" + escape + "@h/d", "mysql://a:" + escape + "@h/d", "mysql://h/" + escape,
                            "mysql://h/d?socket=" + escape}) {
      EXPECT_THAT(said(url), HasSubstr("two hexadecimal digits")) << url;
    }
  }
  EXPECT_THAT(said("mysql://a:b%00c@h/d"), HasSubstr("NUL"));
  EXPECT_THAT(said(std::string{"mysql://h/d\0e", 13}), HasSubstr("NUL"));
}

// Whatever becomes of a URL on its way into a program.
TEST_F(MysqlOptions, NoPartOfAPasswordInAnyError) {
  std::string const server = "@127.0.0.1:1/shop?ssl=off";
  std::set<std::string> urls;
  // A name of a host that nobody has would have to be asked for.
  auto const add = [&](std::string const& url) {
    try {
      auto const host = mysql::parse_url(url).host;
      if (host != "127.0.0.1" && host != "localhost") return;
    } catch (error const&) {  // NOLINT(bugprone-empty-catch): so it is refused
    }
    urls.insert(url);
  };
  auto const mutate = [&](std::string const& url) {
    std::string_view const marks = "/@:?#%[]&= '\"\\";
    add(url);
    for (std::size_t at = 0; at <= url.size(); ++at) {
      for (char const mark : marks) {
        add(url.substr(0, at) + mark + url.substr(at));
        if (at < url.size()) add(url.substr(0, at) + mark + url.substr(at + 1));
      }
      if (at < url.size()) add(url.substr(0, at) + url.substr(at + 1));
      add(url.substr(0, at));
      add(url.substr(at));
    }
  };
  mutate("mysql://root:s3cr3t/@:?#" + server);
  mutate("mariadb://:s3cr3t/@:?#" + server);
  mutate("mysql://root:10/s3cr3t@:?#s3cr3t" + server);
  mutate("mysql://root:s3cr3t%2F%40%3A%3F%23" + server);
  ASSERT_GT(urls.size(), 1000U);
  std::size_t connected = 0;
  for (auto const& url : urls) {
    for (bool const by_url : {false, true}) {
      try {
        static_cast<void>(by_url ? open_store(url) : mysql::open(url, db.options()));
        ADD_FAILURE() << "opened " << url;
      } catch (error const& e) {
        EXPECT_THAT(e.what(), Not(HasSubstr("s3cr3t"))) << url;
        connected += e.code() != errc::invalid_option ? 1U : 0U;
      }
    }
  }
  EXPECT_GT(connected, 0U) << "some of them are URLs, and nothing listens there";
}

// A server that answers shows what it was given.
TEST_F(MysqlOptions, NoPasswordInWhatTheServerSays) {
  auto const& server = mysql_server::shared();
  auto const host = "@127.0.0.1:" + std::to_string(server.port());
  for (std::string const& url : std::vector<std::string>{
           "mysql://nobody_here:s3cr3t" + host + "/mysql", "mysql://root:s3cr3t" + host + "/nowhere",
           "mysql://root:s3cr3t%2Fx" + host + "/mysql", "mysql://root:s3cr3t" + host + "/mysql?socket=/nowhere/s",
           "mysql://root:s3cr3t" + host + "/mysql?ssl_ca=/nowhere/ca.pem&ssl=verify"}) {
    try {
      mysql::connection{url};
      ADD_FAILURE() << "opened " << url;
    } catch (error const& e) {
      EXPECT_THAT(e.what(), Not(HasSubstr("s3cr3t"))) << url;
    }
  }
}

TEST_F(MysqlOptions, APasswordWithEveryMarkOpensTheDatabase) {
  auto const name = db.database() + "p";
  std::string const password = "s3cr3t/@:?#%&=[] '\"\\";
  db.execute("CREATE USER '" + name + "'@'%' IDENTIFIED BY ?", password);
  db.execute("GRANT ALL ON `" + db.database() + "`.* TO '" + name + "'@'%'");
  std::string escaped;
  for (char const c : password) {
    char text[4];
    std::snprintf(text, sizeof text, "%%%02X", static_cast<unsigned>(c));
    escaped += text;
  }
  auto const url = with_account(db.url(), name + ":" + escaped);
  EXPECT_EQ(mysql::connection{url}.query_one<int>("SELECT 1"), 1);
  EXPECT_NO_THROW(static_cast<void>(mysql::open(url, db.options())));
  db.execute("DROP USER '" + name + "'@'%'");
}

TEST_F(MysqlOptions, AUnixSocketIsReached) {
  auto const socket = mysql_server::shared().socket();
  if (socket.empty()) GTEST_SKIP() << "the server runs elsewhere";
  mysql::connection c{"mariadb://root@localhost/" + db.database() + "?socket=" + socket};
  EXPECT_THAT(c.query_one<std::string>("SELECT user()"), ::testing::StartsWith("root@localhost"));
  EXPECT_NO_THROW(static_cast<void>(mysql::open("mysql://root@/" + db.database() + "?socket=" + socket, db.options())));
}

TEST_F(MysqlOptions, AUrlOpensTheStore) {
  for (std::string const scheme : {"mysql", "mariadb"}) {
    auto const url = scheme + db.url().substr(db.url().find(':'));
    auto const s = open_store(with_parameter(url, "outbox.table=" + scheme +
                                                      "_box&outbox.connections=1&outbox.timeout="
                                                      "5000&outbox.done_rows=erase"));
    EXPECT_EQ(s->capabilities().kind, "mysql");
    EXPECT_FALSE(s->capabilities().keeps_done_rows);
    EXPECT_EQ(s->capabilities().table, db.database() + "." + scheme + "_box");
    EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table(scheme + "_box")), "0");
    write_one(s, "a");
    EXPECT_THAT(deliver_all(s), ElementsAre("a 1"));
    EXPECT_EQ(s->inspect().counts().done, 0U);
    EXPECT_THAT(refusal([&] { static_cast<void>(open_store(with_parameter(url, "outbox.colour=red"))); },
                        errc::invalid_option, "url"),
                HasSubstr("outbox.colour"));
    EXPECT_THAT(refusal([&] { static_cast<void>(open_store(with_parameter(url, "outbox.table=x&outbox.migrate=0"))); },
                        errc::store_failure),
                HasSubstr("migrate()"));
  }
  auto const& server = mysql_server::shared();
  auto const other = open_store(
      with_parameter(server.connection(), "outbox.database=" + db.database() + "&outbox.table=other&ssl=try"));
  EXPECT_EQ(other->capabilities().table, db.database() + ".other");
}

TEST_F(MysqlOptions, WarningsNameTheStore) {
  std::vector<std::string> said;
  auto o = db.options();
  o.log = [&](log_line const& line) { said.push_back(line.text()); };
  static_cast<void>(mysql::open(db.url(), o));
  EXPECT_THAT(said, ::testing::Each(::testing::StartsWith("the store of " + db.database() + ".outbox_event: ")));
  if (!mysql_server::shared().directory().empty()) {  // as the tests' server has it
    EXPECT_THAT(said, ::testing::Contains(HasSubstr("innodb_flush_log_at_trx_commit = 2")));
  }
}

}  // namespace
}  // namespace outbox
