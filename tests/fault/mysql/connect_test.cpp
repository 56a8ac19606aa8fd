// How connections are made: passwords, sockets, encryption, and connections that the application opens.
#include "server_fixture.hpp"
#include "support/certificates.hpp"
#include "support/free_port.hpp"

namespace outbox {
namespace {

std::string cipher_of(mysql::connection& c) {
  return c
      .query<std::string>(
          "SELECT variable_value FROM information_schema.session_status WHERE variable_name = "
          "'Ssl_cipher'")
      .at(0);
}

// An error that an operator must correct first is not worth another attempt.
TEST_F(MysqlServer, AConnectionThatTheServerRefusesForGoodIsNotTransient) {
  mysql_account user{db};
  db.execute("ALTER USER " + user.quoted() + " IDENTIFIED BY 'right'");
  mysql_account other{db, "x"};
  db.execute("REVOKE ALL PRIVILEGES, GRANT OPTION FROM " + other.quoted());
  struct refused {
    std::string url;
    char const* state;
    char const* text;
  };
  auto const nowhere = [](std::string url, std::string const& database) {
    return url.replace(url.rfind(database), database.size(), "nowhere");
  };
  for (auto const& r :
       {refused{user.url("wrong"), "28000", "Access denied"}, refused{user.url(), "28000", "Access denied"},
        refused{with_account(db.url(), "no_such_user"), "28000", "Access denied"},
        refused{nowhere(db.url(), db.database()), "42000", "Unknown database"},
        refused{other.url(), "42000", "Access denied"}}) {
    for (bool const whole_store : {false, true}) {
      auto const e = thrown_by([&] {
        if (whole_store) {
          static_cast<void>(mysql::open(r.url, db.options()));
        } else {
          mysql::connection{r.url};
        }
      });
      EXPECT_EQ(e.code(), errc::store_failure) << e.what();
      EXPECT_EQ(e.sqlstate(), r.state) << e.what();
      EXPECT_THAT(e.what(), HasSubstr(r.text));
      EXPECT_THAT(e.what(), Not(HasSubstr("wrong")));
    }
  }
  EXPECT_NO_THROW(mysql::connection{user.url("right")});
}

TEST_F(MysqlServer, NoServerIsTransient) {
  auto const port = std::to_string(free_port());
  for (std::string const& url : std::vector<std::string>{"mysql://root@127.0.0.1:" + port + "/x",
                                                         "mysql://root@localhost/x?socket=/nowhere/socket"}) {
    auto const e = thrown_by([&] { static_cast<void>(mysql::open(url, db.options())); });
    EXPECT_TRUE(e.transient()) << e.what();
  }
}

// A running node waits until an operator has undone what broke its connections.
TEST_F(MysqlServer, ARefusalAfterASuccessfulConnectionIsTransient) {
  mysql_account user{db};
  auto const s = mysql::open(user.url(), db.options());
  static_cast<void>(s->inspect().counts());
  db.execute("ALTER USER " + user.quoted() + " IDENTIFIED BY 'changed'");
  user.end_sessions();
  EXPECT_TRUE(eventually([&] {
    try {
      static_cast<void>(s->inspect().counts());
      return false;
    } catch (error const& e) {
      EXPECT_TRUE(e.transient()) << e.what();
      return e.sqlstate() == "28000";
    }
  }));
  db.execute("ALTER USER " + user.quoted() + " IDENTIFIED BY ''");
  EXPECT_TRUE(answers_again(*s));
}

TEST_F(MysqlServer, NoPasswordInAnyError) {
  // What can be read reaches a server that refuses; what cannot is not shown at all.
  for (std::string const& wrong : std::vector<std::string>{
           with_account(db.url(), "nobody_here:s3cret"), "mysql://a:s3cret@127.0.0.1:1/x",
           "mysql://a:s3cret@localhost/x?socket=/nowhere", "mysql:a:s3cret@127.0.0.1/x", "mysql//a:s3cret@127.0.0.1/x",
           "mysql://a:p@s3cret@127.0.0.1/x", "mysql://a:s3cret@[::1/x", "mysql://a:s3cret@127.0.0.1:/x",
           "mysql://a:s3cret@127.0.0.1:1/x?ssl", "mysql://a:s3cret@127.0.0.1:1/x?password=s3cret",
           "mysql://a:s3cret@127.0.0.1:1/x?s3cret=1", "mysql://a:s3cret@127.0.0.1:1/x?ssl=s3cret",
           "mysql://a:s3cret%@127.0.0.1:1/x", "mysql://a:s3cret%zz@127.0.0.1:1/x", "mysql://a:s3cret%00@127.0.0.1:1/x",
           "mysql://127.0.0.1:s3cret/x", "postgresql://a:s3cret@127.0.0.1/x", "s3cret", "mysql://s3cret:s3cret"}) {
    for (bool const whole_store : {false, true}) {
      try {
        if (whole_store) {
          static_cast<void>(mysql::open(wrong, db.options()));
        } else {
          mysql::connection{wrong};
        }
        ADD_FAILURE() << "opened " << wrong;
      } catch (error const& e) {
        EXPECT_THAT(e.what(), Not(HasSubstr("s3cret"))) << wrong;
      }
    }
  }
}

// What is left of such a password must not be taken for a host, a port, the name of a database or a parameter.
TEST_F(MysqlServer, NoPartOfAPasswordThatIsNotEscapedInAnyError) {
  std::string_view const marks = "/@?#:%[]&=, \\\"'+;";
  std::vector<std::string> urls;
  for (char const first : marks) {
    for (char const second : marks) {
      for (std::string const begin : {"s3cret", "10"}) {
        auto const password = begin + first + "s3cret" + second + "s3cret";
        urls.push_back("mysql://bob:" + password + "@127.0.0.1:1/shop");
        urls.push_back("mariadb://bob:" + password + "@127.0.0.1:1/shop?ssl=on");
      }
    }
  }
  auto const server = "127.0.0.1:" + std::to_string(mysql_server::shared().port());
  for (std::string const rest : {"/s3cret@127.0.0.1:1/shop", "/s3cret?ssl=s3cret@127.0.0.1:1/shop",
                                 "/shop?ssl_ca=s3cret@127.0.0.1:1/shop", "?socket=s3cret@127.0.0.1:1/shop"}) {
    urls.push_back("mysql://" + server + rest);
  }
  for (auto const& url : urls) {
    try {
      static_cast<void>(mysql::open(url, db.options()));
      ADD_FAILURE() << "opened " << url;
    } catch (error const& e) {
      EXPECT_THAT(e.what(), Not(HasSubstr("s3cret"))) << url;
    }
  }
}

TEST_F(MysqlServer, APasswordMayHaveAnyCharacterThatIsEscaped) {
  mysql_account user{db};
  db.execute("ALTER USER " + user.quoted() + R"( IDENTIFIED BY 'a/b@c?d#e:f%g[h]i&j=k,l m"n')");
  EXPECT_NO_THROW(mysql::connection{user.url("a%2Fb%40c%3Fd%23e%3Af%25g%5Bh%5Di%26j%3Dk%2Cl%20m%22n")});
  EXPECT_NO_THROW(mysql::connection{user.url("a%2fb%40c%3fd#e:f%25g[h]i&j=k,l m\"n")}) << "only some of them must be";
}

TEST_F(MysqlServer, AUnixSocketIsAsGoodAsAPort) {
  auto const& server = mysql_server::shared();
  if (server.socket().empty()) GTEST_SKIP() << "the server runs elsewhere, so its socket is not here";
  for (std::string const scheme : {"mysql", "mariadb"}) {
    for (std::string const host : {"localhost", ""}) {
      auto const url = scheme + "://root@" + host + "/" + db.database() + "?socket=" + server.socket();
      mysql::connection c{url};
      EXPECT_THAT(mysql_get_host_info(c.handle()), HasSubstr("UNIX socket"));
      auto n = multi_node(options(mysql::open(url, db.options())));
      mysql::transaction tx{c};
      n.writer().write(tx, "t", "1");
      tx.commit();
      EXPECT_EQ(n.run_until_idle(), 1U);
    }
  }
}

mysql_server::setup with_certificate(certificates const& files, std::string const& name) {
  return {
      .settings = {"ssl-ca=" + files("ca.crt"), "ssl-cert=" + files(name + ".crt"), "ssl-key=" + files(name + ".key")}};
}

TEST_F(MysqlServer, TlsIsAsTheUrlSays) {
  certificates const files;
  mysql_server server{with_certificate(files, "server")};
  mysql_database own{server};
  auto const with = [&](std::string const& parameters) { return with_parameter(own.url(), parameters); };
  auto const connect = [&](std::string const& parameters) {
    mysql::connection c{with(parameters)};
    return cipher_of(c);
  };
  EXPECT_EQ(connect("ssl=off"), "");
  EXPECT_NE(connect("ssl=try"), "");
  EXPECT_NE(connect("ssl=on"), "");
  EXPECT_NE(connect("ssl=on&ssl_ca=" + files("ca.crt")), "");
  EXPECT_NE(connect("ssl=verify&ssl_ca=" + files("ca.crt")), "");
  // An authority that is named is always asked for.
  for (auto const& wrong : {"ssl=verify&ssl_ca=" + files("other_ca.crt"), "ssl=on&ssl_ca=" + files("other_ca.crt"),
                            std::string{"ssl=verify&ssl_ca=/nowhere"}, std::string{"ssl=verify"}}) {
    auto const e = thrown_by([&] { connect(wrong); });
    EXPECT_THAT(e.what(), ::testing::AnyOf(HasSubstr("SSL"), HasSubstr("TLS"))) << wrong;
    EXPECT_THROW(static_cast<void>(mysql::open(with(wrong), own.options())), error);
  }

  // A client that must show who it is.
  mysql_account user{own};
  own.execute("ALTER USER " + user.quoted() + " REQUIRE X509");
  auto const plain = with_parameter(user.url(), "ssl=verify&ssl_ca=" + files("ca.crt"));
  EXPECT_EQ(thrown_by([&] { mysql::connection{plain}; }).sqlstate(), "28000");
  auto const known = plain + "&ssl_cert=" + files("client.crt") + "&ssl_key=" + files("client.key");
  EXPECT_NO_THROW(mysql::connection{known});

  // All of the store's connections, in both directions, with rows that are larger than a record of TLS.
  auto const s = mysql::open(known, own.options());
  auto o = options(s);
  std::atomic<std::size_t> bytes = 0;  // of four workers
  o.listeners = {};
  o.listeners.on("t", [&](delivery const& d) {
    bytes += d.event.payload().size();
    seen.add(d.id);
  });
  auto n = single_node(std::move(o));
  auto w = writer_only({.store = s, .log = nullptr});
  mysql::connection c{known};
  std::string const large = '"' + std::string(500'000, 'x') + '"';
  for (int i = 0; i < 20; ++i) {
    mysql::transaction tx{c};
    w.writer().write(tx, "t", large);
    tx.commit();
  }
  n.start();
  ASSERT_TRUE(seen.reach(20));
  EXPECT_EQ(bytes, 20 * large.size());
  EXPECT_TRUE(eventually([&] { return s->inspect().counts().done == 20; }));
  user.end_sessions();
  EXPECT_TRUE(answers_again(*s)) << "with TLS, too, the end of a session is noticed";
}

TEST_F(MysqlServer, ACertificateForAnotherHostIsRefused) {
  certificates const files;
  mysql_server server{with_certificate(files, "elsewhere")};
  auto const url = server.connection();
  EXPECT_NO_THROW(mysql::connection{with_parameter(url, "ssl=on")});
  EXPECT_THROW(mysql::connection{with_parameter(url, "ssl=verify&ssl_ca=" + files("ca.crt"))}, error);
}

TEST_F(MysqlServer, AServerWithoutTlsIsRefusedIfTheUrlAsksForIt) {
  mysql_server server{{.settings = {"skip-ssl"}}};
  mysql_database own{server};
  {
    mysql::connection c{with_parameter(own.url(), "ssl=try")};
    EXPECT_EQ(cipher_of(c), "");
  }
  for (std::string const how : {"on", "verify"}) {
    auto const url = with_parameter(own.url(), "ssl=" + how);
    EXPECT_THROW(mysql::connection{url}, error) << how;
    auto const e = thrown_by([&] { static_cast<void>(mysql::open(url, own.options())); });
    EXPECT_THAT(e.what(), ::testing::AnyOf(HasSubstr("ssl"), HasSubstr("SSL"), HasSubstr("TLS"))) << how;
  }
}

// Connections that the application opens for the store: options::connect.
class MysqlConnect : public MysqlServer {
 protected:
  static constexpr unsigned long needed = CLIENT_MULTI_STATEMENTS | CLIENT_FOUND_ROWS;

  // As an application does it.
  st_mysql* connect(std::string const& name, std::string const& database, unsigned long flags = needed,
                    std::string const& password = {}) {
    ++made;
    auto* const c = mysql_init(nullptr);
    auto const port = static_cast<unsigned>(mysql_server::shared().port());
    mysql_optionsv(c, MYSQL_SET_CHARSET_NAME, "latin1");
    if (mysql_real_connect(c, "127.0.0.1", name.c_str(), password.c_str(), database.c_str(), port, nullptr, flags) ==
        nullptr) {
      std::string const why = mysql_error(c);
      mysql_close(c);
      throw std::runtime_error{why};
    }
    return c;
  }
  void SetUp() override {
    if (!mysql_elsewhere().empty()) GTEST_SKIP() << "the server runs elsewhere, perhaps not on this machine";
    user.emplace(db);
  }
  st_mysql* connect() { return connect(user->name(), db.database()); }
  st_mysql* connect_and(std::string const& sql) {
    auto* const c = connect();
    EXPECT_EQ(mysql_query(c, sql.c_str()), 0) << mysql_error(c);
    return c;
  }
  mysql::options with(std::function<st_mysql*()> how) {
    auto o = db.options();
    o.connect = std::move(how);
    return o;
  }
  error thrown_by_open(std::function<st_mysql*()> how) {
    return thrown_by([&] { static_cast<void>(mysql::open("", with(std::move(how)))); });
  }
  bool all_closed() {
    return eventually([&] { return user->sessions() == 0; });
  }

  std::optional<mysql_account> user;
  std::atomic<int> made = 0;
};

// The store has one connection, and while that is being made another request has to wait: in vain, so that the test
// needs no second thread.
TEST_F(MysqlConnect, WaitsForAConnectionAreToldOf) {
  std::shared_ptr<outbox::store> s;
  std::vector<std::chrono::nanoseconds> waits;
  bool asked = false;
  auto o = with([&] {
    if (s && !std::exchange(asked, true)) {
      EXPECT_EQ(thrown_by([&] { static_cast<void>(s->now()); }).code(), errc::unavailable);
    }
    return connect();
  });
  o.connections = 1;
  o.timeout = 200ms;
  s = mysql::open("", std::move(o));
  auto const told = s->backend().on_wait([&](auto time) { waits.push_back(time); });
  static_cast<void>(s->now());
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_GE(waits[0], 200ms);
  static_cast<void>(s->now());
  EXPECT_EQ(waits.size(), 1U) << "a free connection is no wait";
  s.reset();
}

TEST_F(MysqlConnect, EveryConnectionComesFromItAndIsClosed) {
  {
    auto const s = mysql::open(
        "", with([&] {
          return connect_and(
              "SET SESSION autocommit = 0, sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH', "
              "time_zone "
              "= '-08:00', sql_safe_updates = 1, sql_select_limit = 1, completion_type = 'CHAIN', tx_isolation = "
              "'SERIALIZABLE'");
        }));
    single_node_options on{.store = s, .log = nullptr};
    std::string payload;
    on.listeners.on("t", [&](delivery const& d) {
      payload = d.event.payload();
      seen.add(d.id);
    });
    auto n = single_node(std::move(on));
    n.start();
    ASSERT_TRUE(eventually([&] { return n.health().active; }));
    std::string const text = R"("Größe \\ ' \" 中")";
    mysql::transaction tx{caller};
    n.writer().write(tx, "t", text, {.id = "a"});
    tx.commit();
    ASSERT_TRUE(seen.reach(1));
    ASSERT_TRUE(settled());
    EXPECT_EQ(payload, text);
    EXPECT_EQ(s->inspect().find("a")->event.payload(), text);
    EXPECT_GE(made, 3) << "open(), the pool, the dispatch lock";
    EXPECT_GE(user->sessions(), 2U);
  }
  EXPECT_TRUE(all_closed());
}

TEST_F(MysqlConnect, APasswordMayChangeWhileTheStoreRuns) {
  db.execute("ALTER USER " + user->quoted() + " IDENTIFIED BY 'first'");
  std::mutex mutex;
  std::string password = "first";
  auto const s = mysql::open("", with([&] {
                               std::lock_guard const lock{mutex};
                               return connect(user->name(), db.database(), needed, password);
                             }));
  EXPECT_EQ(s->inspect().counts().pending(), 0U);
  {
    std::lock_guard const lock{mutex};
    password = "second";
  }
  db.execute("ALTER USER " + user->quoted() + " IDENTIFIED BY 'second'");
  int const before = made;
  user->end_sessions();
  EXPECT_TRUE(eventually([&] {
    try {
      return s->inspect().counts().pending() == 0 && made > before;
    } catch (error const& e) {
      EXPECT_TRUE(e.transient()) << e.what();
      return false;
    }
  }));
  auto const e = thrown_by_open([&] { return connect(user->name(), db.database(), needed, "wrong7secret"); });
  EXPECT_TRUE(e.transient()) << "the next call may get a password that is valid";
  EXPECT_THAT(e.what(), HasSubstr("Access denied"));
  EXPECT_THAT(e.what(), Not(HasSubstr("wrong7secret")));
}

TEST_F(MysqlConnect, WhatItFailsWithIsThrownByOpen) {
  auto const none = thrown_by_open([]() -> st_mysql* { return nullptr; });
  EXPECT_EQ(none.code(), errc::unavailable);
  EXPECT_EQ(none.field(), "connect");
  auto const closed = thrown_by_open([] { return mysql_init(nullptr); });
  EXPECT_EQ(closed.code(), errc::unavailable);
  EXPECT_THAT(closed.what(), HasSubstr("not open"));
  auto const threw = thrown_by_open([]() -> st_mysql* { throw std::runtime_error{"no token today"}; });
  EXPECT_EQ(threw.code(), errc::unavailable);
  EXPECT_THAT(threw.what(), HasSubstr("no token today"));
  auto const strange = thrown_by_open([]() -> st_mysql* { throw 1; });
  EXPECT_EQ(strange.code(), errc::unavailable);
  auto const typed = thrown_by_open([]() -> st_mysql* { throw error{errc::store_failure, "not for you"}; });
  EXPECT_EQ(typed.code(), errc::store_failure);
  EXPECT_STREQ(typed.what(), "not for you");
  for (unsigned long const flags : std::vector<unsigned long>{0, CLIENT_MULTI_STATEMENTS, CLIENT_FOUND_ROWS}) {
    auto const e = thrown_by_open([&] { return connect(user->name(), db.database(), flags); });
    EXPECT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), HasSubstr("CLIENT_MULTI_STATEMENTS"));
  }
  for (auto const* const sql : {"START TRANSACTION", "SET autocommit = 0; INSERT INTO mine VALUES (1)"}) {
    db.execute("CREATE TABLE IF NOT EXISTS " + db.table("mine") + " (n int)");
    auto const busy = thrown_by_open([&] {
      auto* const c = connect_and(sql);
      while (mysql_next_result(c) == 0) continue;
      return c;
    });
    EXPECT_EQ(busy.code(), errc::store_failure) << sql;
    EXPECT_THAT(busy.what(), HasSubstr("transaction")) << sql;
  }
  auto const unread = thrown_by_open([&] { return connect_and("SELECT 1"); });
  EXPECT_THAT(unread.what(), HasSubstr("busy"));
  EXPECT_TRUE(all_closed()) << "the store closes what it got";
}

TEST_F(MysqlConnect, AConnectionToAnotherDatabaseIsRefused) {
  mysql_database other;
  db.execute("GRANT ALL ON `" + other.database() + "`.* TO " + user->quoted());
  for (bool const has_an_outbox : {false, true}) {
    if (has_an_outbox) static_cast<void>(other.open());
    std::atomic<bool> astray = false;
    // The database of the table is not named in the options: a connection decides.
    auto const s =
        mysql::open("", with([&] { return connect(user->name(), astray ? other.database() : db.database()); }));
    astray = true;
    // The statements name the database of the table, so that such a connection still does the right thing.
    try {
      s->backend().heartbeat({.incarnation = "a", .lease = 1min});
    } catch (error const& e) {
      EXPECT_THAT(e.what(), HasSubstr("another database"));
    }
    if (has_an_outbox) {
      EXPECT_EQ(other.ask("SELECT count(*) FROM " + other.table("outbox_node")), "0");
    }
    astray = false;
    EXPECT_TRUE(answers_again(*s)) << "it may change its mind again";
  }
}

// Another server, which has no such outbox.
TEST_F(MysqlConnect, AConnectionToAnotherServerIsRefused) {
  mysql_server server;
  std::atomic<bool> astray = false;
  auto const s =
      mysql::open("", with([&]() -> st_mysql* {
                    if (!astray) return connect();
                    auto* const c = mysql_init(nullptr);
                    if (mysql_real_connect(c, "127.0.0.1", "root", "", nullptr, static_cast<unsigned>(server.port()),
                                           nullptr, needed) == nullptr) {
                      throw std::runtime_error{mysql_error(c)};
                    }
                    return c;
                  }));
  astray = true;
  auto const e = thrown_by([&] { static_cast<void>(s->inspect().counts()); });
  EXPECT_EQ(e.code(), errc::store_failure) << "no connection of the pool has worked before";
  EXPECT_THAT(e.what(), HasSubstr("another database"));
  EXPECT_THAT(thrown_by([&] { static_cast<void>(s->backend().try_dispatch_lock("n", 30s)); }).what(),
              HasSubstr("another database"));
  astray = false;
  EXPECT_TRUE(eventually([&] {
    try {
      return s->inspect().counts().pending() == 0;
    } catch (error const&) {
      return false;
    }
  })) << "it may change its mind again";
}

TEST_F(MysqlConnect, MigrateUsesItToo) {
  EXPECT_EQ(mysql::migrate("", with([&] { return connect(); })).change, migration::kind::created);
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(all_closed());
}

}  // namespace
}  // namespace outbox
