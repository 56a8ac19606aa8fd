// What a PostgreSQL server does to its clients, and how the store answers.
#include "one_connection.hpp"
#include "server_fixture.hpp"

namespace outbox {
namespace {

TEST_F(PostgresServer, ThePoolIsBounded) {
  auto o = db.options();
  o.connections = 2;
  auto const s = postgres::open(db.connection() + " application_name=bounded", o);
  // open() has closed the connection that it used. The server may not have noticed yet.
  ASSERT_TRUE(eventually([&] { return sessions("bounded") == "0"; }));
  std::vector<std::jthread> threads;
  std::atomic<int> most = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) static_cast<void>(s->inspect().counts());
    });
  }
  for (int i = 0; i < 10; ++i) most = std::max<int>(most, std::stoi(sessions("bounded")));
  threads.clear();
  EXPECT_LE(most, 2);
  EXPECT_LE(std::stoi(sessions("bounded")), 2);
  EXPECT_GE(std::stoi(sessions("bounded")), 1);
}

TEST_F(PostgresServer, TheStoresOwnStatementsAreParsedOncePerSession) {
  tcp_proxy proxy{postgres_server::shared().port()};
  auto o = db.options();
  o.connections = 1;
  auto const s = postgres::open(proxy.connection(), o);
  auto n = multi_node(options(s));
  auto const round = [&](int i) {
    write(n, "e" + std::to_string(i));
    auto const rows = s->backend().claim({.token = "n/" + std::to_string(i), .lease = 30s}).rows;
    ASSERT_EQ(rows.size(), 1U);
    row_handle const handle = rows[0].handle;
    EXPECT_TRUE(s->backend().renew(std::span{&handle, 1}, 30s).at(0));
    settlement const done{.row = handle};
    EXPECT_TRUE(s->backend().settle(std::span{&done, 1}).applied.at(0));
  };
  round(0);
  auto const parsed = proxy.parsed();
  auto const trips = proxy.round_trips();
  EXPECT_GT(parsed, 0) << "or the proxy cannot count";
  for (int i = 1; i <= 5; ++i) round(i);
  EXPECT_EQ(proxy.parsed(), parsed);
  EXPECT_GT(proxy.round_trips(), trips);
}

// Nodes that see the same outage must not come back all at once.
TEST_F(PostgresServer, AttemptsToReconnectAreSpread) {
  std::vector<int> waits;
  for (int i = 0; i < 40; ++i) {
    one_connection p{"host=127.0.0.1 port=" + std::to_string(free_port())};
    auto const attempt = [&] { return thrown_by([&] { p.with([](postgres::own_connection&) {}); }); };
    EXPECT_TRUE(attempt().transient());
    std::string const text = attempt().what();
    auto const at = text.find("attempt is in ");
    if (at != std::string::npos) waits.push_back(std::atoi(text.c_str() + at + 14));
  }
  ASSERT_GT(waits.size(), 20U) << "the second is not made at once";
  auto const [least, most] = std::ranges::minmax(waits);
  EXPECT_LE(most, 75);
  EXPECT_GT(most - least, 20) << "50 ms, give or take a half";
}

// The server's last words are one look, the end of the connection another: one question must see both.
TEST_F(PostgresServer, ASessionThatWasEndedLooksDeadAtTheFirstLook) {
  EXPECT_TRUE(postgres::looks_alive(caller.handle()));
  db.execute("SELECT pg_terminate_backend($1)", PQbackendPID(caller.handle()));
  ::pollfd closed{PQsocket(caller.handle()), POLLRDHUP, 0};
  ASSERT_TRUE(eventually([&] { return ::poll(&closed, 1, 0) == 1; }));
  EXPECT_FALSE(postgres::looks_alive(caller.handle()));
}

TEST_F(PostgresServer, SessionsThatTheServerEndsAreReplacedAndCostNoAttempt) {
  auto const s = postgres::open(db.connection() + " application_name=ended", db.options());
  auto n = multi_node(options(s));
  n.start();
  for (int i = 0; i < 20; ++i) {
    write(n, "e" + std::to_string(i));
    end_sessions("ended");
  }
  ASSERT_TRUE(settled());
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE status = 1 AND attempts = 0"), "20");
}

TEST_F(PostgresServer, AServerThatRestartsIsWaitedFor) {
  postgres_server server;
  postgres_database own{"postgres", server};
  auto const s = own.open();
  auto n = multi_node(options(s));
  n.start();
  auto const put = [&](std::string const& id) {
    postgres::connection c{own.connection()};
    postgres::transaction tx{c};
    n.writer().write(tx, "t", "1", {.id = id});
    tx.commit();
  };
  put("before");
  ASSERT_TRUE(seen.reach(1));
  server.stop();
  EXPECT_TRUE(eventually([&] { return !n.health().healthy; }));
  auto const e = thrown_by([&] { static_cast<void>(s->inspect().counts()); });
  EXPECT_TRUE(e.transient()) << e.what();
  server.start();
  put("after");
  ASSERT_TRUE(seen.reach(2));
  EXPECT_TRUE(eventually([&] { return n.health().healthy && s->inspect().counts().done == 2; }));
  EXPECT_EQ(s->inspect().find("before")->attempts, 0);
}

TEST_F(PostgresServer, TooManyConnectionsIsTransient) {
  postgres_server server{{.settings = {"max_connections=6", "superuser_reserved_connections=0", "max_wal_senders=0"}}};
  postgres_database own{"postgres", server};
  auto const s = own.open();
  static_cast<void>(s->inspect().counts());
  std::vector<std::unique_ptr<postgres::connection>> others;
  auto const fill = [&] {
    while (true) others.push_back(std::make_unique<postgres::connection>(own.connection()));
  };
  auto const full = thrown_by(fill);
  EXPECT_TRUE(full.transient()) << full.what();
  EXPECT_THAT(full.what(), HasSubstr("too many clients"));
  EXPECT_NO_THROW(static_cast<void>(s->inspect().counts())) << "what the pool has, it keeps";
  own.execute(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'outbox' AND pid <> "
      "pg_backend_pid()");
  others.clear();
  EXPECT_TRUE(eventually([&] {
    try {
      return s->inspect().counts().pending() == 0;
    } catch (error const& e) {
      EXPECT_TRUE(e.transient()) << e.what();
      return false;
    }
  }));
}

// A primary that became a standby answers each write with 25006. So does a server that recovers.
TEST_F(PostgresServer, AReadOnlyServerIsTransientAndItsConnectionIsClosed) {
  auto const s =
      postgres::open(db.connection() + " application_name=reader options='-c search_path=pg_catalog'", db.options());
  static_cast<void>(s->inspect().counts());
  db.execute("CREATE FUNCTION " + db.table("refuse") +
             "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION USING ERRCODE = '25006', MESSAGE = "
             "'cannot execute UPDATE in a read-only transaction'; END $$");
  db.execute("CREATE TRIGGER refuse BEFORE UPDATE ON " + db.table() + " FOR EACH STATEMENT EXECUTE FUNCTION " +
             db.table("refuse") + "()");
  auto const before =
      db.ask("SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE application_name = 'reader'");
  settlement const one{.row = {"a", "n/1"}};
  auto const e = thrown_by([&] { static_cast<void>(s->backend().settle(std::span{&one, 1})); });
  EXPECT_TRUE(e.transient()) << e.what();
  EXPECT_EQ(e.sqlstate(), "25006");
  static_cast<void>(s->inspect().counts());
  EXPECT_TRUE(eventually([&] {
    return db.ask(
               "SELECT coalesce(string_agg(pid::text, ','), '') FROM pg_stat_activity WHERE application_name = "
               "'reader'") != before;
  })) << "the next statement goes to a new session, which may reach another server";
}

TEST_F(PostgresServer, ALockTimeoutIsTransient) {
  static_cast<void>(db.open());  // the tables are made without that limit
  auto o = db.options();
  o.timeout = 4s;
  auto const s = postgres::open(db.connection(), o);
  auto n = multi_node(options(s));
  write(n, "a");
  postgres::connection other{db.connection()};
  other.execute("BEGIN; LOCK TABLE " + db.table() + " IN ACCESS EXCLUSIVE MODE");
  auto const e = thrown_by([&] { static_cast<void>(s->backend().claim({.token = "n/1", .lease = 30s})); });
  EXPECT_TRUE(e.transient()) << e.what();
  EXPECT_EQ(e.sqlstate(), "57014");
  other.execute("ROLLBACK");
  EXPECT_EQ(s->backend().claim({.token = "n/2", .lease = 30s}).rows.size(), 1U);
}

TEST_F(PostgresServer, ASilentNetworkIsGivenUpAfterTheTimeout) {
  tcp_proxy proxy{postgres_server::shared().port()};
  static_cast<void>(db.open());  // the tables are made without that limit
  auto o = db.options();
  o.timeout = 4s;
  auto const s = postgres::open(proxy.connection(), o);
  static_cast<void>(s->inspect().counts());
  proxy.stall();
  auto const e = thrown_by([&] { static_cast<void>(s->inspect().counts()); });
  EXPECT_TRUE(e.transient()) << e.what();
  proxy.heal();
  EXPECT_TRUE(eventually([&] {
    try {
      return s->inspect().counts().pending() == 0;
    } catch (error const&) {
      return false;
    }
  }));
}

TEST_F(PostgresServer, ACallersOwnTimeoutIsAnOrdinaryError) {
  auto n = multi_node(options(db.open()));
  write(n, "a");
  postgres::connection other{db.connection()};
  other.execute("BEGIN; LOCK TABLE " + db.table() + " IN ACCESS EXCLUSIVE MODE");
  for (auto const* const limit : {"SET LOCAL statement_timeout = 50", "SET LOCAL lock_timeout = 50"}) {
    postgres::transaction tx{caller};
    caller.execute(limit);
    auto const e = thrown_by([&] {
      n.writer().write(tx, "t", "1", {.id = "b"});
      tx.commit();
    });
    EXPECT_TRUE(e.transient()) << e.what();
    EXPECT_FALSE(tx.active());
  }
  other.execute("ROLLBACK");
  write(n, "b");
}

}  // namespace
}  // namespace outbox
