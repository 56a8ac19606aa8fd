// What a MariaDB server does to its clients, and how the store answers.
#include "server_fixture.hpp"

#include <deque>

#include "mysql/own_connection.hpp"
#include "support/tcp_proxy.hpp"

namespace outbox {
namespace {

TEST_F(MysqlServer, ThePoolIsBounded) {
  mysql_account user{db};
  auto o = db.options();
  o.connections = 2;
  auto const s = mysql::open(user.url(), o);
  // open() has closed the connection that it used. The server may not have noticed yet.
  ASSERT_TRUE(eventually([&] { return user.sessions() == 0; }));
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) static_cast<void>(s->inspect().counts());
    });
  }
  std::size_t most = 0;
  for (int i = 0; i < 10; ++i) most = std::max(most, user.sessions());
  threads.clear();
  EXPECT_LE(most, 2U);
  EXPECT_LE(user.sessions(), 2U);
  EXPECT_GE(user.sessions(), 1U);
}

TEST_F(MysqlServer, ASessionThatWasEndedLooksDead) {
  EXPECT_TRUE(mysql::looks_alive(caller.handle()));
  db.execute("KILL " + std::to_string(mysql_thread_id(caller.handle())));
  EXPECT_TRUE(eventually([&] { return !mysql::looks_alive(caller.handle()); }));
}

TEST_F(MysqlServer, SessionsThatTheServerEndsAreReplacedAndCostNoAttempt) {
  mysql_account user{db};
  auto const s = mysql::open(user.url(), db.options());
  auto n = multi_node(options(s));
  n.start();
  for (int i = 0; i < 20; ++i) {
    write(n, "e" + std::to_string(i));
    user.end_sessions();
  }
  ASSERT_TRUE(settled());
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE status = 1 AND attempts = 0"), "20");
}

// A statement that an operator ends is no reason to give up either: the session goes on.
TEST_F(MysqlServer, AStatementThatIsEndedIsTransient) {
  mysql_account user{db};
  auto const s = mysql::open(user.url(), db.options());
  static_cast<void>(s->inspect().counts());
  mysql::connection other{db.url()};
  other.execute("LOCK TABLES " + db.table() + " WRITE");
  std::optional<error> met;
  std::jthread asking{[&] { met = thrown_by([&] { static_cast<void>(s->inspect().counts()); }); }};
  EXPECT_TRUE(eventually([&] {
    return db.ask("SELECT count(*) FROM information_schema.processlist WHERE user = ? AND state LIKE 'Waiting%'",
                  user.name()) == "1";
  }));
  db.execute("KILL QUERY " + user.session_ids().at(0));
  asking.join();
  other.execute("UNLOCK TABLES");
  ASSERT_TRUE(met);
  EXPECT_TRUE(met->transient()) << met->what();
  EXPECT_EQ(s->inspect().counts().pending(), 0U);
}

TEST_F(MysqlServer, AServerThatRestartsIsWaitedFor) {
  mysql_server server;
  mysql_database own{server};
  auto const s = own.open();
  auto n = multi_node(options(s));
  n.start();
  write_on(own.url(), n, "before");
  ASSERT_TRUE(seen.reach(1));
  server.stop();
  EXPECT_TRUE(eventually([&] { return !n.health().healthy; }));
  auto const e = thrown_by([&] { static_cast<void>(s->inspect().counts()); });
  EXPECT_TRUE(e.transient()) << e.what();
  server.start();
  write_on(own.url(), n, "after");
  ASSERT_TRUE(seen.reach(2));
  EXPECT_TRUE(answers_again(*s));
  EXPECT_TRUE(eventually([&] { return n.health().healthy && s->inspect().counts().done == 2; }));
  EXPECT_EQ(s->inspect().find("before")->attempts, 0);
}

TEST_F(MysqlServer, TooManyConnectionsIsTransient) {
  mysql_server server{{.settings = {"max-connections=10"}}};
  mysql_database own{server};
  mysql_account user{own};  // the last connection is for those who administer the server
  auto const s = mysql::open(user.url(), own.options());
  static_cast<void>(s->inspect().counts());
  std::vector<std::unique_ptr<mysql::connection>> others;
  auto const fill = [&] {
    while (true) others.push_back(std::make_unique<mysql::connection>(user.url()));
  };
  auto const full = thrown_by(fill);
  EXPECT_TRUE(full.transient()) << full.what();
  EXPECT_THAT(full.what(), HasSubstr("Too many connections"));
  EXPECT_EQ(full.sqlstate(), "08004");
  EXPECT_NO_THROW(static_cast<void>(s->inspect().counts())) << "what the pool has, it keeps";
  EXPECT_TRUE(thrown_by([&] { static_cast<void>(mysql::open(user.url(), own.options())); }).transient());
  user.end_sessions();
  others.clear();
  EXPECT_TRUE(answers_again(*s));
}

// An account may have a limit of its own.
TEST_F(MysqlServer, TooManyConnectionsOfOneAccountIsTransient) {
  mysql_account user{db};
  db.execute("ALTER USER " + user.quoted() + " WITH MAX_USER_CONNECTIONS 1");
  auto const s = mysql::open(user.url(), db.options());
  ASSERT_TRUE(answers_again(*s)) << "when the server has noticed that open() has closed its connection";
  auto const e = thrown_by([&] { mysql::connection{user.url()}; });
  EXPECT_TRUE(e.transient()) << e.what();
}

// A primary that became a replica refuses each write. The next connection may lead to the new primary.
TEST_F(MysqlServer, AServerThatTurnsReadOnlyIsTransientAndItsConnectionIsClosed) {
  mysql_server server;
  mysql_database own{server};
  mysql_account user{own};
  auto const s = mysql::open(user.url(), own.options());
  static_cast<void>(s->inspect().counts());
  auto const before = user.session_ids();
  own.execute("SET GLOBAL read_only = 1");
  auto const e = thrown_by([&] { s->backend().heartbeat({.incarnation = "a", .lease = 1min}); });
  EXPECT_TRUE(e.transient()) << e.what();
  EXPECT_EQ(e.sqlstate(), "25006");
  EXPECT_NO_THROW(static_cast<void>(s->inspect().counts())) << "an operator may still read";
  EXPECT_TRUE(eventually([&] {
    return std::ranges::none_of(user.session_ids(),
                                [&](auto const& id) { return std::ranges::count(before, id) != 0; });
  })) << "the next statement goes to a new session";
  mysql::connection c{user.url()};
  mysql::transaction tx{c};
  auto n = multi_node(options(s));
  auto const refused = thrown_by([&] { n.writer().write(tx, "t", "1", {.id = "a"}); });
  EXPECT_TRUE(refused.transient()) << refused.what();
  EXPECT_EQ(refused.sqlstate(), "25006");
}

TEST_F(MysqlServer, ANodeWaitsForAServerThatOnlyReads) {
  mysql_server server;
  mysql_database own{server};
  mysql_account user{own};
  auto const s = mysql::open(user.url(), own.options());
  auto o = options(s);
  o.lease.duration = 2s;  // it reports at a quarter of that, which is how it notices
  auto n = multi_node(std::move(o));
  n.start();
  write_on(user.url(), n, "before");
  ASSERT_TRUE(seen.reach(1));
  ASSERT_TRUE(eventually([&] { return s->inspect().counts().done == 1; }));
  own.execute("SET GLOBAL read_only = 1");
  ASSERT_TRUE(eventually([&] { return !n.health().healthy; }));
  EXPECT_THAT(n.health().reason, HasSubstr("read"));
  own.execute("SET GLOBAL read_only = 0");
  EXPECT_TRUE(eventually([&] { return n.health().healthy; }));
  write_on(user.url(), n, "after");
  ASSERT_TRUE(seen.reach(2));
  EXPECT_TRUE(eventually([&] { return s->inspect().counts().done == 2; }));
  EXPECT_EQ(own.ask("SELECT sum(attempts) + sum(crashes) FROM " + own.table()), "0");
}

// A commit that the server refuses because it only reads has not happened.
TEST_F(MysqlServer, ACommitThatAReadOnlyServerRefusesIsNotInDoubt) {
  mysql_server server;
  mysql_database own{server};
  mysql_account user{own};
  auto const s = mysql::open(user.url(), own.options());
  auto n = multi_node(options(s));
  mysql::connection c{user.url()};
  {
    mysql::transaction tx{c};
    n.writer().write(tx, "t", "1", {.id = "a"});
    own.execute("SET GLOBAL read_only = 1");
    auto const e = thrown_by([&] { tx.commit(); });
    EXPECT_TRUE(e.transient()) << e.what();
    EXPECT_FALSE(tx.active());
  }
  own.execute("SET GLOBAL read_only = 0");
  EXPECT_FALSE(s->inspect().find("a"));
}

TEST_F(MysqlServer, ALockTimeoutIsTransient) {
  static_cast<void>(db.open());  // the tables are made without that limit
  auto o = db.options();
  o.timeout = 1s;
  auto const s = mysql::open(db.url(), o);
  auto n = multi_node(options(s));
  write(n, "a");
  mysql::connection other{db.url()};
  other.execute("LOCK TABLES " + db.table() + " WRITE");
  auto const e = thrown_by([&] { static_cast<void>(s->backend().claim({.token = "n/1", .lease = 30s})); });
  EXPECT_TRUE(e.transient()) << e.what();
  other.execute("UNLOCK TABLES");
  EXPECT_EQ(s->backend().claim({.token = "n/2", .lease = 30s}).rows.size(), 1U);
}

TEST_F(MysqlServer, ALockOnARowHoldsUpItsSettlementOnly) {
  auto o = db.options();
  o.timeout = 1s;
  auto const s = mysql::open(db.url(), o);
  auto n = multi_node(options(s));
  write(n, "a");
  write(n, "b");
  auto const rows = s->backend().claim({.token = "n/1", .lease = 30s}).rows;
  ASSERT_EQ(rows.size(), 2U);
  mysql::connection other{db.url()};
  mysql::transaction holding{other};
  holding.execute("SELECT 1 FROM " + db.table() + " WHERE event_id = 'a' FOR UPDATE");
  settlement const a{.row = rows[0].handle};
  settlement const b{.row = rows[1].handle};
  auto const e = thrown_by([&] { static_cast<void>(s->backend().settle(std::span{&a, 1})); });
  EXPECT_TRUE(e.transient()) << e.what();
  EXPECT_TRUE(s->backend().settle(std::span{&b, 1}).applied.at(0));
  holding.rollback();
  EXPECT_TRUE(s->backend().settle(std::span{&a, 1}).applied.at(0));
}

// A node that is stopped between a look and the taking of rows holds their locks, and other nodes pass over them. The
// server ends its transaction.
TEST_F(MysqlServer, I1_ANodeThatSleepsKeepsNoRowsLocked) {
  if (mariadb_connection(caller.handle()) == 0) GTEST_SKIP() << "MySQL waits for a minute at least";
  auto const s = db.open();
  auto n = multi_node(options(s));
  write(n, "a");
  auto const session = mysql::connector{db.url(), {}}.open(1s);
  mysql::driver asleep{session.get()};
  asleep.execute("START TRANSACTION");
  asleep.execute("SELECT 1 FROM " + db.table() + " FOR UPDATE", {}, {});
  EXPECT_EQ(s->backend().claim({.token = "n/1", .lease = 30s}).rows.size(), 0U);
  EXPECT_TRUE(eventually([&] { return s->backend().claim({.token = "n/2", .lease = 30s}).rows.size() == 1; }));
}

TEST_F(MysqlServer, ASilentNetworkIsGivenUpAfterTheTimeout) {
  tcp_proxy proxy{mysql_server::shared().port()};
  static_cast<void>(db.open());  // the tables are made without that limit
  auto o = db.options();
  o.timeout = 1s;
  auto const s = mysql::open(mysql_server::shared().connection_through(proxy.port(), db.database()), o);
  static_cast<void>(s->inspect().counts());
  proxy.stall();
  for (int i = 0; i < 2; ++i) {  // a statement, then a new connection
    auto const e = thrown_by([&] { static_cast<void>(s->inspect().counts()); });
    EXPECT_TRUE(e.transient()) << e.what();
  }
  proxy.heal();
  EXPECT_TRUE(answers_again(*s));
}

// The caller's own limits end a statement. Its transaction goes on.
TEST_F(MysqlServer, ACallersOwnTimeoutIsAnOrdinaryError) {
  auto n = multi_node(options(db.open()));
  write(n, "a");
  mysql::connection other{db.url()};
  other.execute("LOCK TABLES " + db.table() + " WRITE");
  std::vector<std::string> limits{"lock_wait_timeout = 1"};
  if (mariadb_connection(caller.handle()) != 0) limits.emplace_back("max_statement_time = 0.05");
  for (auto const& limit : limits) {
    caller.execute("SET SESSION " + limit);
    mysql::transaction tx{caller};
    auto const e = thrown_by([&] { n.writer().write(tx, "t", "1", {.id = "b"}); });
    EXPECT_TRUE(e.transient()) << e.what();
    EXPECT_TRUE(tx.active());
    tx.rollback();
  }
  other.execute("UNLOCK TABLES");
  write(n, "b");
}

// The store's sessions say how long they may be silent. Those of callers are ended, and the callers told.
TEST_F(MysqlServer, AServerThatEndsIdleSessionsDoesNotDisturbTheStore) {
  mysql_server server{{.settings = {"wait-timeout=1", "interactive-timeout=1"}}};
  mysql_database own{server};
  own.execute("SET SESSION wait_timeout = 1000");
  mysql_account user{own};
  auto const s = mysql::open(user.url(), own.options());
  single_node_options o{.store = s, .log = nullptr};
  o.poll.every = 1h;
  o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
  auto n = single_node(std::move(o));
  n.start();
  ASSERT_TRUE(eventually([&] { return n.health().active; }));
  mysql::connection idle{own.url()};
  idle.execute("DO 1");
  ASSERT_TRUE(eventually([&] { return !mysql::looks_alive(idle.handle()); })) << "the server has ended it";
  auto const e = thrown_by([&] { mysql::transaction{idle}; });
  EXPECT_TRUE(e.transient()) << e.what();
  write_on(own.url(), n, "a");
  ASSERT_TRUE(seen.reach(1));
  EXPECT_TRUE(eventually([&] { return s->inspect().counts().done == 1; }));
  EXPECT_TRUE(n.health().active) << "the dispatch lock is silent for even longer";
  EXPECT_EQ(n.counters().store_errors, 0U);
  EXPECT_EQ(s->inspect().find("a")->attempts, 0);
}

// Writers that commit while the server is killed: each learns that its commit happened, that it did not, or that this
// is not known. What it learns is true.
TEST_F(MysqlServer, I1_I2_AServerThatIsKilledDuringCommitsLeavesNoPhantom) {
  mysql_server server;
  mysql_database own{server};
  auto const s = own.open();
  auto n = multi_node(options(s));
  n.start();
  std::mutex mutex;
  std::vector<std::string> committed, in_doubt, failed;
  auto const count = [&] {
    std::lock_guard const lock{mutex};
    return committed.size();
  };
  auto const write_until_it_ends = [&](mysql::connection& c, std::string const& name) {
    for (int i = 0;; ++i) {
      auto const id = name + "-" + std::to_string(i);
      auto* into = &committed;
      try {
        mysql::transaction tx{c};
        n.writer().write(tx, "t", "1", {.id = id});
        tx.commit();
      } catch (error const& e) {
        into = e.in_doubt() ? &in_doubt : &failed;
        EXPECT_TRUE(e.transient() || e.in_doubt()) << e.what();
      }
      std::lock_guard const lock{mutex};
      into->push_back(id);
      if (into != &committed) return;
    }
  };
  for (int round = 0; round < 3; ++round) {
    auto const before = count();
    std::deque<mysql::connection>
        connections;  // all of them before the first write: the kill must find none that opens
    for (int i = 0; i < 4; ++i) connections.emplace_back(own.url());
    std::vector<std::jthread> writers;
    for (auto& c : connections) {
      writers.emplace_back(
          [&, name = "w" + std::to_string(round) + std::to_string(writers.size())] { write_until_it_ends(c, name); });
    }
    ASSERT_TRUE(eventually([&] { return count() > before + 100; }));
    server.kill_hard();
    writers.clear();
    server.start();
    own.reconnect();
  }
  ASSERT_TRUE(
      eventually([&] { return own.ask("SELECT count(*) FROM " + own.table() + " WHERE status IN (0, 2)") == "0"; }));
  n.stop(60s);
  auto const there = [&](std::string const& id) {
    return own.ask("SELECT count(*) FROM " + own.table() + " WHERE event_id = ? AND status = 1", id) == "1";
  };
  std::size_t delivered = committed.size();
  for (auto const& id : committed) EXPECT_TRUE(there(id) && seen.of(id) > 0) << "I1: " << id;
  for (auto const& id : failed) EXPECT_FALSE(there(id) || seen.of(id) > 0) << "I2: " << id;
  for (auto const& id : in_doubt) {
    EXPECT_EQ(there(id), seen.of(id) > 0) << "I1, I2: " << id;
    if (there(id)) ++delivered;
  }
  EXPECT_EQ(own.ask("SELECT count(*) FROM " + own.table()), std::to_string(delivered));
  EXPECT_EQ(own.ask("SELECT sum(attempts) FROM " + own.table()), "0");
}

}  // namespace
}  // namespace outbox
