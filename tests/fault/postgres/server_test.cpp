// What a PostgreSQL server does to its clients, and what the store makes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/testing.hpp>
#include <thread>

#include "postgres/pool.hpp"
#include "sql/dialect.hpp"
#include "support/free_port.hpp"
#include "support/pgbouncer.hpp"
#include "support/postgres_database.hpp"
#include "support/refusing_server.hpp"
#include "support/tcp_proxy.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace spi;

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class F>
error thrown_by(F&& f) {
  try {
    f();
  } catch (error const& e) {
    return e;
  }
  throw std::runtime_error{"nothing was thrown"};
}

class PostgresServer : public ::testing::Test {
 protected:
  multi_node_options options(std::shared_ptr<outbox::store> s) {
    multi_node_options o{.store = std::move(s), .log = nullptr};
    o.poll.every = 20ms;
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    return o;
  }
  void write(node& n, std::string const& id, event_options o = {}) {
    o.id = id;
    postgres::transaction tx{caller};
    n.writer().write(tx, "t", "1", std::move(o));
    tx.commit();
  }
  bool settled() {
    return eventually([&] { return db.ask("SELECT count(*) FROM " + db.table() + " WHERE status IN (0, 2)") == "0"; });
  }
  // Others use the same server, and what they have begun may hold up a claim in order.
  bool earlier_transactions_end() {
    return eventually([&] {
      return db.ask("SELECT count(*) FROM " + db.table() +
                    " WHERE written_by >= pg_snapshot_xmin(pg_current_snapshot())") == "0";
    });
  }
  // The sessions of the store, but for those of this test.
  std::string sessions(std::string const& name) {
    return db.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = '" + name + "'");
  }
  void end_sessions(std::string const& name) {
    db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '" + name + "'");
  }

  postgres_database db;
  postgres::connection caller{db.connection()};
  tally seen;
};

TEST_F(PostgresServer, ThePoolIsBounded) {
  auto o = db.options();
  o.connections = 2;
  auto const s = postgres::open(db.connection() + " application_name=bounded", o);
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
    EXPECT_TRUE(s->backend().settle(std::span{&done, 1}).at(0));
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
    postgres::pool p{"host=127.0.0.1 port=" + std::to_string(free_port()), 1, 2s};
    auto const attempt = [&] { return thrown_by([&] { p.with([](postgres::driver&) {}); }); };
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
  db.execute("SELECT pg_terminate_backend(" + std::to_string(PQbackendPID(caller.handle())) + ")");
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

// What somebody must repair first is not worth another attempt.
TEST_F(PostgresServer, AConnectionThatTheServerRefusesForGoodIsNotTransient) {
  postgres_server server;
  postgres_database own{"postgres", server};
  own.execute("CREATE ROLE guest LOGIN PASSWORD 'right'; CREATE ROLE banned NOLOGIN; CREATE ROLE unknown LOGIN");
  own.execute("CREATE DATABASE closed");
  own.execute("REVOKE CONNECT ON DATABASE closed FROM PUBLIC");
  std::ofstream{server.directory() + "/data/pg_hba.conf"} << "host all outbox 127.0.0.1/32 trust\n"
                                                             "host all nobody 127.0.0.1/32 trust\n"
                                                             "host all banned 127.0.0.1/32 trust\n"
                                                             "host all guest 127.0.0.1/32 scram-sha-256\n";
  own.execute("SELECT pg_reload_conf()");
  auto const at = "host=127.0.0.1 port=" + std::to_string(server.port());
  ASSERT_TRUE(eventually([&] {  // the new rules hold
    try {
      postgres::connection{at + " user=unknown dbname=postgres"};
      return false;
    } catch (error const&) {
      return true;
    }
  }));
  struct refused {
    char const* with;
    char const* state;
    char const* text;
  };
  for (auto const& r :
       {refused{"user=guest password=wrong dbname=postgres", "28P01", "password authentication failed"},
        refused{"user=guest dbname=postgres", "", "no password"},
        refused{"user=outbox dbname=nowhere", "3D000", "\"nowhere\" does not exist"},
        refused{"user=nobody dbname=postgres", "28000", "\"nobody\" does not exist"},
        refused{"user=banned dbname=postgres", "28000", "not permitted to log in"},
        refused{"user=unknown dbname=postgres", "28000", "no pg_hba.conf entry"},
        refused{"user=guest password=right dbname=closed", "42501", "permission denied for database"}}) {
    for (bool const whole_store : {false, true}) {
      auto const e = thrown_by([&] {
        auto const with = at + " " + r.with;
        if (whole_store) {
          static_cast<void>(postgres::open(with, own.options()));
        } else {
          postgres::connection{with};
        }
      });
      EXPECT_EQ(e.code(), errc::store_failure) << e.what();
      EXPECT_EQ(e.sqlstate(), r.state) << e.what();
      EXPECT_THAT(e.what(), HasSubstr(r.text));
      EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("LOCATION"))) << "as psql says it";
    }
  }
  EXPECT_NO_THROW(postgres::connection{at + " user=guest password=right dbname=postgres"});
}

// The code decides, in whatever language the server speaks.
TEST_F(PostgresServer, WhyAServerRefusesAConnectionIsToldByItsCode) {
  struct answer {
    char const* state;
    bool transient;
  };
  for (auto const& a : {answer{"57P03", true}, answer{"53300", true}, answer{"28P01", false}, answer{"3D000", false}}) {
    refusing_server const server{"FATALER FEHLER", a.state, "das geht nicht"};
    auto const e = thrown_by(
        [&] { postgres::connection{"host=127.0.0.1 user=a dbname=b port=" + std::to_string(server.port())}; });
    EXPECT_EQ(e.transient(), a.transient) << e.what();
    EXPECT_EQ(e.sqlstate(), a.state) << e.what();
    EXPECT_THAT(e.what(), HasSubstr("das geht nicht"));
    EXPECT_LE(server.connections(), 2);
  }
}

// One that refuses says nothing about one that could not be asked.
TEST_F(PostgresServer, OfSeveralHostsOneThatIsAwayMayYetAccept) {
  refusing_server const server{"FATAL", "28P01", "no"};
  auto const with = [](std::string const& ports) {
    return thrown_by([&] { postgres::connection{"host=127.0.0.1,127.0.0.1 user=a dbname=b port=" + ports}; });
  };
  auto const away = std::to_string(free_port());
  auto const refusing = std::to_string(server.port());
  EXPECT_TRUE(with(away + "," + refusing).transient());
  EXPECT_FALSE(with(refusing + "," + away).transient()) << "libpq asks nobody else after a wrong password";
  EXPECT_TRUE(with(away + "," + away).transient());
}

// A running node waits until an operator has undone what broke its connections.
TEST_F(PostgresServer, WhatIsRefusedAfterItWorkedIsTransient) {
  refusing_server const server{"FATAL", "28P01", "no"};
  postgres::pool never{"host=127.0.0.1 user=a dbname=b port=" + std::to_string(server.port()), 1, 2s};
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(thrown_by([&] { never.with([](postgres::driver&) {}); }).transient()) << "between attempts, too";
  }
  auto const role = "changing" + db.schema();
  db.execute("CREATE ROLE " + role + " LOGIN");
  postgres::pool p{db.connection() + " user=" + role, 1, 2s};
  p.with([](postgres::driver&) {});
  db.execute("ALTER ROLE " + role + " NOLOGIN");
  db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '" + role + "'");
  EXPECT_TRUE(eventually([&] {
    try {
      p.with([](postgres::driver&) {});
      return false;
    } catch (error const& e) {
      EXPECT_TRUE(e.transient()) << e.what();
      return e.sqlstate() == "28000";
    }
  }));
  db.execute("ALTER ROLE " + role + " LOGIN");
  EXPECT_TRUE(eventually([&] {
    try {
      p.with([](postgres::driver&) {});
      return true;
    } catch (error const&) {
      return false;
    }
  }));
  db.execute("DROP ROLE " + role);
}

// A primary that became a standby says 25006 to whoever writes. As good: a server that recovers.
TEST_F(PostgresServer, AServerThatOnlyReadsIsTransientAndLeft) {
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

TEST_F(PostgresServer, ALockThatOthersHoldIsTransient) {
  auto o = db.options();
  o.timeout = 2s;
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

TEST_F(PostgresServer, ANetworkThatSaysNothingIsGivenUp) {
  tcp_proxy proxy{postgres_server::shared().port()};
  auto o = db.options();
  o.timeout = 2s;
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

TEST_F(PostgresServer, CallersMayUseAnyIsolation) {
  auto n = multi_node(options(db.open()));
  n.start();
  int i = 0;
  for (auto const* const level : {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"}) {
    postgres::transaction tx{caller};
    caller.execute(std::string{"SET TRANSACTION ISOLATION LEVEL "} + level);
    caller.execute("SELECT count(*) FROM " + db.table());  // its view of the table is older than what follows
    postgres::connection other{db.connection()};
    postgres::transaction elsewhere{other};
    n.writer().write(elsewhere, "t", "1", {.id = "other" + std::to_string(i)});
    elsewhere.commit();
    ASSERT_TRUE(seen.reach(static_cast<std::size_t>(2 * i) + 1));
    n.writer().write(tx, "t", "1", {.id = "e" + std::to_string(i)});
    tx.commit();
    ASSERT_TRUE(seen.reach(static_cast<std::size_t>(2 * ++i))) << level;
  }
  EXPECT_TRUE(settled());
}

TEST_F(PostgresServer, OurOwnStatementsDoNotCareForTheDefaults) {
  db.execute("CREATE ROLE strict" + db.schema() + " LOGIN SUPERUSER");
  db.execute("ALTER ROLE strict" + db.schema() +
             " SET default_transaction_isolation = 'serializable'; ALTER ROLE strict" + db.schema() +
             " SET default_transaction_read_only = on; ALTER ROLE strict" + db.schema() +
             " SET timezone = 'Pacific/Apia'");
  auto const s = postgres::open(db.connection() + " user=strict" + db.schema(), [&] {
    static_cast<void>(db.open());
    auto o = db.options();
    o.migrate = false;
    return o;
  }());
  auto n = multi_node(options(s));
  n.start();
  write(n, "a");
  write(n, "later", {.deliver_after = 30ms});
  ASSERT_TRUE(seen.reach(2));
  EXPECT_TRUE(settled());
  n.stop();
  db.execute("DROP OWNED BY strict" + db.schema() + "; DROP ROLE strict" + db.schema());
}

// The rights of a role that only writes, as docs/reference/postgres.md lists them; then without the last of them.
TEST_F(PostgresServer, AWriterThatMayNotReadTheTableCommitsAfterASavepoint) {
  auto const role = "writer_" + db.schema();
  auto o = options(db.open());
  tally hot;
  o.listeners = {};
  o.listeners.on("t", [&](delivery const& d) {
    if (d.path == path::hot) hot.add(d.id);
    seen.add(d.id);
  });
  auto n = multi_node(std::move(o));
  n.start();
  db.execute("CREATE ROLE " + role + " LOGIN");
  db.execute("CREATE TABLE " + db.table("orders") + " (id int)");
  db.execute("GRANT ALL ON " + db.table("orders") + " TO " + role);
  db.execute("GRANT USAGE ON SCHEMA " + db.schema() + " TO " + role);
  db.execute("GRANT INSERT ON " + db.table() + " TO " + role);
  std::size_t expected = 0;
  auto const go = [&](std::string const& id) {
    postgres::connection c{db.connection() + " user=" + role};
    for (auto const how : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
      postgres::transaction tx{c, how};
      n.writer().write(tx, "t", "1", {.id = id + std::to_string(++expected)});
      tx.enqueue("SAVEPOINT s");
      tx.enqueue("INSERT INTO " + db.table("orders") + " VALUES (1)");
      n.writer().write(tx, "t", "1", {.id = "undone"});
      tx.flush();
      tx.enqueue("ROLLBACK TO s");
      tx.flush();
      tx.enqueue("INSERT INTO " + db.table("orders") + " VALUES (2)");
      tx.commit();
    }
    ASSERT_TRUE(seen.reach(expected));
    ASSERT_TRUE(settled());
  };
  {
    postgres::connection c{db.connection() + " user=" + role};
    postgres::transaction tx{c};
    auto const e = thrown_by([&] { n.writer().write(tx, "t", "1"); });
    EXPECT_EQ(e.sqlstate(), "42501") << e.what();
    EXPECT_THAT(e.what(), HasSubstr("GRANT SELECT"));
    EXPECT_NO_THROW(tx.enqueue("INSERT INTO " + db.table("orders") + " VALUES (3)")) << "the transaction lives";
  }
  db.execute("GRANT SELECT ON " + db.table("outbox_meta") + " TO " + role);
  go("blind");
  EXPECT_EQ(hot.total(), 0U) << "nobody may ask whether the rows are there, so the poller decides";
  db.execute("GRANT SELECT (event_id, locked_by) ON " + db.table() + " TO " + role);
  go("seeing");
  EXPECT_EQ(hot.total(), 2U);
  db.execute("ALTER TABLE " + db.table() + " ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON " + db.table() +
             " FOR INSERT WITH CHECK (true)");
  go("filtered");
  EXPECT_EQ(hot.total(), 2U) << "it would see no row";
  EXPECT_EQ(seen.total(), 6U);
  EXPECT_EQ(seen.of("undone"), 0);
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table("orders") + " WHERE id = 2"), "6");
  n.stop();
  db.execute("DROP OWNED BY " + role + "; DROP ROLE " + role);
}

TEST_F(PostgresServer, ZonesDoNotMoveInstants) {
  auto const s = db.open();
  auto n = multi_node(options(s));
  auto const at = s->now() + 3h;
  int i = 0;
  for (auto const* const zone : {"UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Apia"}) {
    caller.execute(std::string{"SET timezone = '"} + zone + "'; SET datestyle = 'German, DMY'");
    auto const id = "e" + std::to_string(i++);
    write(n, id, {.occurred_at = at - 5h, .available_at = at});
    EXPECT_EQ(s->inspect().find(id)->available_at, at) << zone;
    EXPECT_EQ(s->inspect().find(id)->event.occurred_at(), at - 5h) << zone;
  }
  auto const reply = s->backend().claim({.token = "n/1", .lease = 30s});
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_EQ(*reply.next_due, at);
}

// Two hours ahead, and two behind: every instant that counts is the server's.
TEST_F(PostgresServer, TheServersClockIsTheOnlyOneThatCounts) {
  for (auto const* const shift : {"FAKETIME=+2h", "FAKETIME=-2h"}) {
    postgres_server server{{.environment = {"LD_PRELOAD=/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", shift,
                                            "FAKETIME_DONT_FAKE_MONOTONIC=1"}}};
    postgres_database own{"postgres", server};
    auto const s = own.open();
    auto const away = std::chrono::abs(s->now() - std::chrono::system_clock::now());
    ASSERT_GT(away, 110min) << "the server's clock was not moved";
    tally done, hot;
    multi_node_options o{.store = s, .log = nullptr};
    o.poll.every = 1h;
    o.retry.backoff = {.base = 1ms, .cap = 2ms};
    o.listeners.on("t", [&](delivery const& d) -> result {
      if (d.path == path::hot) hot.add(d.id);
      if (d.id == "again" && d.attempt == 1) return failed{"once"};
      done.add(d.id);
      return outbox::done;
    });
    auto n = multi_node(std::move(o));
    n.start();
    postgres::connection c{own.connection()};
    auto const put = [&](std::string const& id, event_options e = {}) {
      e.id = id;
      postgres::transaction tx{c};
      n.writer().write(tx, "t", "1", std::move(e));
      tx.commit();
    };
    put("now");
    put("again");
    put("soon", {.deliver_after = 50ms});
    put("tomorrow", {.deliver_after = 24h});
    ASSERT_TRUE(done.reach(3)) << shift;
    EXPECT_EQ(hot.of("now"), 1) << shift;
    EXPECT_TRUE(eventually([&] { return s->inspect().counts().done == 3; }));
    EXPECT_EQ(s->inspect().counts().pending(), 1U);
    EXPECT_EQ(s->backend().purge({.retention = 1h}), 0U) << "what has just ended is young";
  }
}

TEST_F(PostgresServer, AnEventIsDueWhenItIsWrittenNotWhenItsTransactionBegan) {
  auto const s = db.open();
  auto n = multi_node(options(s));
  postgres::transaction tx{caller};
  caller.execute("SELECT pg_sleep(0.1)");
  n.writer().write(tx, "t", "1", {.id = "a"});
  tx.flush();
  caller.execute("CREATE TEMP TABLE began AS SELECT now() AS at");
  tx.commit();
  auto* const r = PQexec(caller.handle(), ("SELECT available_at - at >= interval '0.1 s', inserted_at - at >= interval "
                                           "'0.1 s', lease_until IS NULL FROM began, " +
                                           db.table())
                                              .c_str());
  EXPECT_STREQ(PQgetvalue(r, 0, 0), "t");
  EXPECT_STREQ(PQgetvalue(r, 0, 1), "t");
  PQclear(r);
}

TEST_F(PostgresServer, I1_I7_ACommitAfterTheLeaseIsDeliveredOnce) {
  auto o = options(db.open());
  o.lease.duration = 1s;
  auto n = multi_node(std::move(o));
  n.start();
  postgres::transaction tx{caller};
  n.writer().write(tx, "t", "1", {.id = "slow"});
  tx.flush();
  ASSERT_TRUE(eventually([&] { return n.counters().held == 0; })) << "past half the lease the node lets go of it";
  EXPECT_TRUE(eventually([&] {
    return db.ask("SELECT count(*) FROM pg_stat_activity WHERE now() - xact_start > interval '1.2 s' AND pid = " +
                  std::to_string(PQbackendPID(caller.handle()))) != "0";
  }));
  tx.commit();
  ASSERT_TRUE(seen.reach(1));
  ASSERT_TRUE(settled());
  n.stop();
  EXPECT_EQ(seen.of("slow"), 1);
}

TEST_F(PostgresServer, AMebibyteIsDeliveredAndOneByteMoreIsRefused) {
  auto o = options(db.open());
  std::size_t size = 0;
  o.listeners = {};
  o.listeners.on("t", [&](delivery const& d) {
    size = d.event.payload().size();
    seen.add(d.id);
  });
  auto n = multi_node(std::move(o));
  n.start();
  constexpr std::size_t mebibyte = 1U << 20U;
  auto const text = [](std::size_t bytes) { return '"' + std::string(bytes - 2, 'x') + '"'; };
  {
    postgres::transaction tx{caller};
    auto const e = thrown_by([&] { n.writer().write(tx, "t", text(mebibyte + 1), {.id = "large"}); });
    EXPECT_EQ(e.code(), errc::invalid_event);
    EXPECT_EQ(e.field(), "payload");
    n.writer().write(tx, "t", text(mebibyte), {.id = "a"});
    tx.commit();
  }
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(size, mebibyte);
  EXPECT_TRUE(settled());
}

TEST_F(PostgresServer, ColumnsTakeAsManyCharactersAsTheyPromise) {
  auto const s = db.open();
  auto n = multi_node(options(s));
  auto const characters = [](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += "\xF0\x9F\x9A\x80";
    return text;
  };
  postgres::transaction tx{caller};
  n.writer().write(tx, characters(128), "1",
                   {.id = std::string(36, 'i'),
                    .aggregate = {characters(64), characters(128)},
                    .tenant = characters(64),
                    .ordering_key = characters(128)});
  for (auto const& [field, o] :
       {std::pair<std::string, event_options>{"aggregate.type", {.aggregate = {characters(65), "1"}}},
        {"aggregate.id", {.aggregate = {"a", characters(129)}}},
        {"tenant", {.tenant = characters(65)}},
        {"id", {.id = std::string(37, 'i')}}}) {
    auto const e = thrown_by([&] { n.writer().write(tx, "t", "1", o); });
    EXPECT_EQ(e.code(), errc::invalid_event) << field;
  }
  tx.commit();
  auto const row = s->inspect().find(std::string(36, 'i'));
  ASSERT_TRUE(row);
  EXPECT_EQ(row->event.type(), characters(128));
  EXPECT_EQ(row->event.tenant(), characters(64));
}

// What came first may still be under way: nothing that was written after it overtakes it.
TEST_F(PostgresServer, I5_OrderWaitsForATransactionThatBeganEarlier) {
  auto const s = db.open();
  auto n = multi_node(options(s));
  postgres::connection slow{db.connection()};
  postgres::transaction first{slow};
  n.writer().write(first, "t", "1", {.id = "first"});
  first.flush();
  write(n, "second");
  claim_request r{.token = "n/1", .lease = 30s, .in_order = true};
  auto const waiting = s->backend().claim(r);
  EXPECT_THAT(waiting.rows, IsEmpty());
  ASSERT_TRUE(waiting.next_due);
  EXPECT_LT(*waiting.next_due - waiting.now, 1s) << "it asks again soon";
  first.commit();
  ASSERT_TRUE(earlier_transactions_end());
  r.token = "n/2";
  auto const reply = s->backend().claim(r);
  ASSERT_EQ(reply.rows.size(), 2U);
  EXPECT_EQ(reply.rows[0].handle.id, "first");
  EXPECT_EQ(reply.rows[1].handle.id, "second");
}

// A number from another server, which a dump or a replica brought along: it says nothing here.
TEST_F(PostgresServer, I1_OrderDoesNotWaitForATransactionOfAnotherServer) {
  auto const s = db.open();
  auto n = multi_node(options(s));
  write(n, "a");
  ASSERT_TRUE(earlier_transactions_end());
  db.execute("UPDATE " + db.table() + " SET written_by = '9000000000000'");
  EXPECT_EQ(s->backend().claim({.token = "n/1", .lease = 30s, .in_order = true}).rows.size(), 1U);
}

// Rows that a claim must leave do not hide the ones behind them, however many they are.
TEST_F(PostgresServer, SuspectsDoNotHideWhatIsBehindThem) {
  auto const s = db.open();
  db.execute(
      "INSERT INTO " + db.table() +
      " (event_id, event_type, payload, status, available_at, created_at, crashes) SELECT 's' || i, 't', '1', 0, "
      "now() - interval '1 h', now(), 3 FROM generate_series(1, 3000) i");
  db.execute(
      "INSERT INTO " + db.table() +
      " (event_id, event_type, payload, status, available_at, created_at) VALUES ('good', 't', '1', 0, now(), now())");
  auto const reply = s->backend().claim({.token = "n/1", .limit = 50, .lease = 30s, .max_crashes = 4});
  ASSERT_EQ(reply.rows.size(), 1U);
  EXPECT_EQ(reply.rows[0].handle.id, "good");
  EXPECT_TRUE(reply.suspects_waiting);
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE locked_by IS NOT NULL"), "1");
}

TEST_F(PostgresServer, ALostDispatchLockIsNoticedAndTakenOver) {
  auto const named = [&](std::string const& name) {
    return postgres::open(db.connection() + " application_name=" + name, db.options());
  };
  auto const make = [&](std::string const& name) {
    single_node_options o{.store = named(name), .log = nullptr};
    o.poll.every = 20ms;
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    return single_node(std::move(o));
  };
  auto first = make("first_node");
  first.start();
  ASSERT_TRUE(eventually([&] { return first.health().active; }));
  auto second = make("second_node");
  second.start();
  // Either may be the quicker one to ask for the lock again.
  ASSERT_TRUE(eventually([&] {
    end_sessions("first_node");
    return second.health().active;
  }));
  EXPECT_TRUE(eventually([&] { return !first.health().active; })) << "it has noticed";
  write(second, "a");
  ASSERT_TRUE(seen.reach(1));
  EXPECT_TRUE(settled());
}

// As a schema per tenant is made: by copying a template, with all that is in it.
class PostgresCopies : public PostgresServer {
 protected:
  void make_copy(std::string const& schema, std::string const& of) {
    static_cast<void>(postgres::open(db.connection(), options_in(schema)));
    db.execute("UPDATE " + schema + ".outbox_meta SET value = (SELECT value FROM " + of +
               ".outbox_meta WHERE name = 'table_id') WHERE name = 'table_id'");
  }
  postgres::options options_in(std::string const& schema) {
    auto o = db.options();
    o.schema = schema;
    o.log = [this](log_level, std::string_view text) {
      std::lock_guard const lock{mutex};
      said.emplace_back(text);
    };
    return o;
  }
  std::shared_ptr<outbox::store> open_in(std::string const& schema) {
    return postgres::open(db.connection(), options_in(schema));
  }
  std::vector<std::string> about_older() {
    std::lock_guard const lock{mutex};
    std::vector<std::string> lines;
    std::ranges::copy_if(said, std::back_inserter(lines),
                         [](auto const& line) { return line.find("earlier version") != std::string::npos; });
    return lines;
  }
  // What earlier versions ask for.
  std::string older_key(std::string const& schema) {
    return "hashtextextended('outbox dispatch ' || (SELECT value FROM " + schema +
           ".outbox_meta WHERE name = 'table_id') || '/' || (SELECT oid FROM pg_database WHERE datname = "
           "current_database()), 0)";
  }

  postgres_database second;
  std::mutex mutex;
  std::vector<std::string> said;
};

TEST_F(PostgresCopies, EachHasItsOwnDispatchLock) {
  auto const a = open_in(db.schema());
  make_copy(second.schema(), db.schema());
  auto const b = open_in(second.schema());
  auto const first = a->backend().try_dispatch_lock("a");
  ASSERT_TRUE(first);
  EXPECT_TRUE(b->backend().try_dispatch_lock("b"));
  EXPECT_FALSE(a->backend().try_dispatch_lock("c")) << "one each";
  EXPECT_THAT(about_older(), IsEmpty());
}

TEST_F(PostgresCopies, EachHasItsOwnChannel) {
  auto const a = open_in(db.schema());
  make_copy(second.schema(), db.schema());
  auto with_notify = [&](std::string const& schema) {
    auto o = options_in(schema);
    o.notify = true;
    return postgres::open(db.connection(), o);
  };
  auto const heard = with_notify(db.schema());
  auto const other = with_notify(second.schema());
  auto const before = heard->backend().change_counter();
  auto const before_other = other->backend().change_counter();
  heard->backend().hint();
  ASSERT_TRUE(eventually([&] { return heard->backend().change_counter() != before; }));
  other->backend().hint();
  ASSERT_TRUE(eventually([&] { return other->backend().change_counter() != before_other; }));
  EXPECT_EQ(other->backend().change_counter(), before_other + 1) << "the other one's hint is not its own";
  // Programs that know the channel of earlier versions.
  auto const now = heard->backend().change_counter();
  db.execute(
      "SELECT pg_notify('outbox_' || replace(value, '-', '') || (SELECT oid FROM pg_database WHERE datname = "
      "current_database()), '') FROM " +
      db.table("outbox_meta") + " WHERE name = 'table_id'");
  EXPECT_TRUE(eventually([&] { return heard->backend().change_counter() != now; }));
}

TEST_F(PostgresCopies, ANodeOfTheOlderVersionAndANewOneExcludeEachOther) {
  auto const s = open_in(db.schema());
  make_copy(second.schema(), db.schema());
  auto const copy = open_in(second.schema());
  postgres_database older;  // its session is the older node's
  auto const take = "SELECT pg_try_advisory_lock(" + older_key(db.schema()) + ")";
  ASSERT_EQ(older.ask(take), "t");
  EXPECT_FALSE(s->backend().try_dispatch_lock("n"));
  EXPECT_FALSE(s->backend().try_dispatch_lock("n"));
  EXPECT_THAT(about_older(), ElementsAre(HasSubstr("stands by"))) << "once";
  EXPECT_FALSE(copy->backend().try_dispatch_lock("n")) << "nobody knows which of the copies the older one works on";
  older.execute("SELECT pg_advisory_unlock_all()");
  auto lock = s->backend().try_dispatch_lock("n");
  ASSERT_TRUE(lock);
  EXPECT_EQ(older.ask(take), "f");
  lock.reset();
  EXPECT_TRUE(eventually([&] { return older.ask(take) == "t"; }));
}

TEST_F(PostgresServer, NotifyWakesNodesInOtherProcesses) {
  auto o = db.options();
  o.notify = true;
  auto const there = postgres::open(db.connection() + " application_name=listening", o);
  auto const here = postgres::open(db.connection(), o);
  auto node_options = options(there);
  node_options.poll.every = 1h;
  auto n = multi_node(std::move(node_options));
  n.start();
  auto w = writer_only({.store = here, .log = nullptr});
  int written = 0;
  auto const put = [&] {
    postgres::transaction tx{caller};
    w.writer().write(tx, "t", "1", {.id = "e" + std::to_string(++written)});
    tx.commit();
  };
  put();
  ASSERT_TRUE(seen.reach(1));
  end_sessions("listening");  // it listens again, and looks
  put();
  ASSERT_TRUE(seen.reach(2));
  EXPECT_TRUE(settled());
}

TEST_F(PostgresServer, WhatIsSaidAtOnceIsNotifiedOnce) {
  auto o = db.options();
  o.notify = true;
  auto const s = postgres::open(db.connection(), o);
  auto const listening = postgres::open(db.connection(), o);
  auto const before = listening->backend().change_counter();
  auto const began = std::chrono::steady_clock::now();
  std::uint64_t hints = 0;
  for (; std::chrono::steady_clock::now() < began + 300ms; ++hints) s->backend().hint();
  ASSERT_TRUE(eventually([&] { return listening->backend().change_counter() != before; }));
  auto const most = (std::chrono::steady_clock::now() - began) / 10ms + 2;
  ASSERT_GT(hints, 1000U);
  EXPECT_LE(listening->backend().change_counter() - before, static_cast<std::uint64_t>(most)) << "a hundred a second";
}

// A process that commits and ends leaves nobody behind who could notify later.
TEST_F(PostgresServer, AHintIsSentBeforeTheStoreIsGone) {
  auto o = db.options();
  o.notify = true;
  auto s = postgres::open(db.connection(), o);
  auto const channel = db.ask(  // as docs/reference/postgres.md has it
      "SELECT 'outbox_' || replace(value, '-', '') || '_' || (SELECT oid FROM pg_database WHERE datname = "
      "current_database()) || '_' || tableoid FROM " +
      db.table("outbox_meta") + " WHERE name = 'table_id'");
  postgres::connection listener{db.connection()};
  listener.execute("LISTEN " + channel);
  auto const heard = [&](std::string_view payload) {
    return eventually([&] {
      PQconsumeInput(listener.handle());
      while (auto* const n = PQnotifies(listener.handle())) {
        bool const it_is = n->extra == payload;
        PQfreemem(n);
        if (it_is) return true;
      }
      return false;
    });
  };
  // Everything that was sent so far, the store's test of itself among it.
  auto const skip = [&] {
    db.execute("NOTIFY " + channel + ", 'mark'");
    return heard("mark");
  };
  for (int i = 0; i < 5; ++i) {
    s = postgres::open(db.connection(), o);
    ASSERT_TRUE(skip());
    s->backend().hint();
    ASSERT_TRUE(heard(""));
    s->backend().hint();  // sooner than a second notification may follow the first
    s.reset();
    EXPECT_TRUE(heard("")) << i;
  }
  s = postgres::open(db.connection() + " application_name=leaving", o);
  ASSERT_TRUE(skip());
  end_sessions("leaving");
  ASSERT_TRUE(eventually([&] { return sessions("leaving") == "0"; }));
  s->backend().hint();
  s.reset();  // on a connection that it must make first
  EXPECT_TRUE(heard(""));
}

// A whole process: what its last commit left is found at once, not at the next poll.
TEST_F(PostgresServer, TheLastEventOfAWriterThatEndsIsDeliveredAtOnce) {
  auto o = db.options();
  o.notify = true;
  auto node_options = options(postgres::open(db.connection(), o));
  node_options.poll.every = 1h;
  auto n = multi_node(std::move(node_options));
  n.start();
  for (std::size_t i = 1; i <= 5; ++i) {
    {
      auto w = writer_only({.store = postgres::open(db.connection(), o), .log = nullptr});
      for (int event = 0; event < 3; ++event) {
        postgres::transaction tx{caller};
        w.writer().write(tx, "t", "1");
        tx.commit();
      }
    }
    ASSERT_TRUE(seen.reach(3 * i));
  }
}

// Commits that notify wait for each other, on the whole server: so those of the business do not.
TEST_F(PostgresServer, TheApplicationsSessionsNotifyNobody) {
  postgres_server server{{.settings = {"log_statement=all", "log_line_prefix=%a|"}}};
  postgres_database own{"postgres", server};
  auto o = own.options();
  o.notify = true;
  auto const s = postgres::open(own.connection(), o);
  auto w = writer_only({.store = s, .log = nullptr});
  auto const before = s->backend().change_counter();
  postgres::connection c{own.connection() + " application_name=business"};
  for (auto const how : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
    postgres::transaction tx{c, how};
    w.writer().write(tx, "t", "1");
    tx.commit();
  }
  ASSERT_TRUE(eventually([&] { return s->backend().change_counter() != before; })) << "somebody did";
  std::ifstream log{server.directory() + "/server.log"};
  int commits = 0;
  int notified = 0;
  for (std::string line; std::getline(log, line);) {
    bool const business = line.starts_with("business|");
    if (business && line.find("COMMIT") != std::string::npos) ++commits;
    if (line.find(": NOTIFY ") == std::string::npos) continue;
    ++notified;
    EXPECT_FALSE(business) << line;
  }
  EXPECT_EQ(commits, 2);
  EXPECT_GE(notified, 2) << "the test of itself, and one";
}

TEST_F(PostgresServer, NotifyIsOffByDefault) {
  EXPECT_EQ(db.open()->capabilities().watch_every, 0ms);
  auto const s = postgres::open(db.connection() + " application_name=quiet", db.options());
  static_cast<void>(s->inspect().counts());
  EXPECT_EQ(db.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'quiet' AND query LIKE 'LISTEN%'"),
            "0");
}

// A server that speaks TLS only, with a certificate of its own.
TEST_F(PostgresServer, TlsIsPassedOnToLibpq) {
  temporary_directory const dir;
  auto const key = dir / "server.key";
  auto const certificate = dir / "server.crt";
  auto const made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout " + key + " -out " +
                    certificate + " 2>/dev/null";
  ASSERT_EQ(std::system(made.c_str()), 0) << "is openssl installed?";
  std::filesystem::permissions(dir.string(), std::filesystem::perms::all);
  std::filesystem::permissions(key, std::filesystem::perms::owner_read);
  ASSERT_TRUE(::geteuid() != 0 || ::chown(key.c_str(), 65534, 65534) == 0);
  postgres_server server{{.settings = {"ssl=on", "ssl_key_file=" + key, "ssl_cert_file=" + certificate}}};
  postgres_database own{"postgres", server};
  auto const secure = own.connection() + " application_name=secure sslmode=verify-ca sslrootcert=" + certificate;
  auto const s = postgres::open(secure, own.options());
  auto o = options(s);
  std::atomic<std::size_t> bytes = 0;  // of four workers
  o.listeners = {};
  o.listeners.on("t", [&](delivery const& d) {
    bytes += d.event.payload().size();
    seen.add(d.id);
  });
  auto n = multi_node(std::move(o));
  auto w = writer_only({.store = s, .log = nullptr});
  postgres::connection c{secure};
  std::string const large = '"' + std::string(500'000, 'x') + '"';
  for (int i = 0; i < 20; ++i) {
    postgres::transaction tx{c};
    w.writer().write(tx, "t", large);
    tx.commit();
  }
  n.start();  // claims it all in large replies
  ASSERT_TRUE(seen.reach(20));
  EXPECT_EQ(bytes, 20 * large.size());
  EXPECT_EQ(own.ask("SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = "
                    "'secure'"),
            "t");
  auto const e = thrown_by([&] {
    static_cast<void>(postgres::open(own.connection() + " sslmode=verify-ca sslrootcert=/nowhere", own.options()));
  });
  EXPECT_TRUE(e.transient()) << e.what();

  // TLS must notice the end of a session too, whoever waits for an answer.
  for (auto const how : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
    postgres::connection other{secure};
    postgres::transaction tx{other, how};
    w.writer().write(tx, "t", large);
    tx.flush();
    w.writer().write(tx, "t", "1");
    own.execute("SELECT pg_terminate_backend(" + std::to_string(PQbackendPID(other.handle())) + ")");
    EXPECT_TRUE(thrown_by([&] { tx.commit(); }).transient());
  }
}

class PostgresPooler : public PostgresServer {
 protected:
  PostgresPooler() { bouncer.emplace(postgres_server::shared(), free_port()); }
  std::optional<pgbouncer> bouncer;
};

TEST_F(PostgresPooler, ItWorksBehindAPoolerWithoutPreparedStatements) {
  auto const s = postgres::open(bouncer->connection(), db.options());
  auto n = multi_node(options(s));
  n.start();
  postgres::connection c{bouncer->connection()};
  for (int i = 0; i < 100; ++i) {
    postgres::transaction tx{c, i % 2 == 0 ? postgres::send_mode::immediate : postgres::send_mode::pipelined};
    event_options o{.id = "e" + std::to_string(i)};
    if (i % 3 == 0) o.deliver_after = 1ms;
    n.writer().write(tx, "t", "1", o);
    tx.commit();
  }
  ASSERT_TRUE(seen.reach(100));
  ASSERT_TRUE(settled());
  EXPECT_EQ(n.counters().store_errors, 0U);
  EXPECT_EQ(seen.total(), 100U);
}

TEST_F(PostgresPooler, WhatNeedsASessionIsRefusedWithTheReason) {
  auto o = db.options();
  o.timeout = 500ms;
  o.notify = true;
  auto const notify = thrown_by([&] { static_cast<void>(postgres::open(bouncer->connection(), o)); });
  EXPECT_THAT(notify.what(), HasSubstr("pooler"));
  auto const s = postgres::open(bouncer->connection(), db.options());
  auto const lock = thrown_by([&] { static_cast<void>(s->backend().try_dispatch_lock("n")); });
  EXPECT_EQ(lock.code(), errc::store_failure);
  EXPECT_THAT(lock.what(), HasSubstr("multi_node"));
}

// A pooler lets clients in at once and may have no server for them for minutes.
TEST_F(PostgresPooler, AFullPoolerIsGivenUp) {
  auto o = db.options();
  o.timeout = 1s;
  auto const s = postgres::open(bouncer->connection(), o);
  std::vector<std::unique_ptr<postgres::connection>> others;
  auto const fill = [&] {
    for (int i = 0; i < pgbouncer::servers; ++i) {
      others.push_back(std::make_unique<postgres::connection>(bouncer->connection()));
      others.back()->execute("BEGIN");
    }
  };
  fill();
  EXPECT_TRUE(thrown_by([&] { static_cast<void>(s->inspect().counts()); }).transient());
  EXPECT_TRUE(thrown_by([&] { static_cast<void>(postgres::open(bouncer->connection(), o)); }).transient());
  others.clear();
  EXPECT_TRUE(eventually([&] {
    try {
      return s->inspect().counts().pending() == 0;
    } catch (error const&) {
      return false;
    }
  }));
}

// What a claim costs depends on nothing else in the table, also with a plan that knows no parameters.
TEST_F(PostgresServer, ClaimsUseTheIndexOfWhatIsDue) {
  auto const s = db.open();
  auto const fill = [&](std::string const& status, std::string const& due, int rows) {
    db.execute("INSERT INTO " + db.table() +
               " (event_id, event_type, payload, status, available_at, created_at, done_at) SELECT '" + status +
               due[0] + "' || i, 't', '1', " + status + ", now() + " + due + ", now(), CASE WHEN " + status +
               " IN (1, 3) THEN now() END FROM generate_series(1, " + std::to_string(rows) + ") i");
  };
  fill("1", "interval '0'", 30'000);
  fill("0", "interval '1 day'", 10'000);
  fill("2", "- interval '1 s'", 1'000);
  auto const sql = sql::postgres_array_statements("outbox_event", db.schema());
  for (auto const* const analyse : {"", "ANALYZE "}) {
    if (*analyse != '\0') db.execute(analyse + db.table());
    db.execute("DISCARD ALL");
    db.execute("SET plan_cache_mode = force_generic_plan");
    for (auto const setting : postgres::plan_settings) db.execute("SET " + std::string{setting});
    db.execute("PREPARE due AS " + sql.due);
    db.execute("PREPARE take AS " + sql.take);
    db.execute("PREPARE ahead AS " + sql.next_due);
    db.execute("PREPARE beside AS " + sql.next_due_beside_pauses);
    db.execute("PREPARE done AS " + sql.settle_done);
    auto const plan = [&](std::string const& call) { return db.ask("EXPLAIN (FORMAT JSON) EXECUTE " + call); };
    for (auto const* const from : {"NULL, '{}', NULL", "now(), '{a}', NULL", "NULL, '{}', 10000000"}) {
      auto const due = plan("due(51, 0, 0, '{}', '{}', 0, " + std::string{from} + ")");
      EXPECT_THAT(due, HasSubstr("outbox_event_due"));
      EXPECT_THAT(due, HasSubstr("Index Cond")) << from;
      EXPECT_THAT(due, ::testing::Not(HasSubstr("\"Sort\"")));
      EXPECT_THAT(due, ::testing::Not(HasSubstr("Seq Scan")));
    }
    EXPECT_THAT(plan("ahead"), HasSubstr("outbox_event_due"));
    auto const beside = plan("beside('{a}', '{}')");
    EXPECT_THAT(beside, HasSubstr("outbox_event_due"));
    EXPECT_THAT(beside, ::testing::Not(HasSubstr("\"Sort\"")));
    EXPECT_THAT(plan("take('t', 1, '{a,b}')"), HasSubstr("outbox_event_pkey"));
    EXPECT_THAT(plan("done('{a,b}', '{t,t}', '{NULL,NULL}')"), HasSubstr("outbox_event_pkey"));
  }
  EXPECT_EQ(s->backend().claim({.token = "n/1", .limit = 100, .lease = 30s}).rows.size(), 100U);
}

// The planner takes the rows without done_at for many, because every pending row is one; among those that ended there
// are hardly any. Behind a pooler it is told nothing about how to plan.
TEST_F(PostgresServer, PurgeUsesTheIndexOfWhatEnded) {
  auto const s = db.open();
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at, done_at) SELECT 'e' || i, 't', '1', i "
             "% 2, now(), now(), CASE WHEN i % 2 = 1 THEN now() END FROM generate_series(1, 20000) i");
  db.execute("ANALYZE " + db.table());
  auto const sql = sql::postgres_statements("outbox_event", db.schema());
  for (bool const pooled : {false, true}) {
    db.execute("DISCARD ALL");
    db.execute("SET plan_cache_mode = force_generic_plan");
    for (auto const setting : postgres::plan_settings)
      if (!pooled) db.execute("SET " + std::string{setting});
    db.execute("PREPARE purge AS " + sql.purge);
    auto const plan = db.ask("EXPLAIN EXECUTE purge(1, 1, 0, 500)", "\n");
    EXPECT_THAT(plan, HasSubstr("Index Cond: (done_at <= "));
    EXPECT_THAT(plan, HasSubstr("Index Cond: (done_at IS NULL)"));
    EXPECT_THAT(plan, ::testing::Not(HasSubstr("Seq Scan")));
  }
  EXPECT_EQ(s->backend().purge({.retention = 0s, .limit = 500}), 500U);
}

// By its index if there is one; if not, and only then, somebody hears of it once there is a backlog.
TEST_F(PostgresServer, ClaimsInOrderUseTheirIndex) {
  std::vector<std::string> said;
  auto o = db.options();
  o.log = [&](log_level, std::string_view text) { said.emplace_back(text); };
  auto const claim = [&](std::shared_ptr<outbox::store> const& s, std::string const& token, std::size_t limit) {
    auto const rows = s->backend().claim({.token = token, .limit = limit, .lease = 30s, .in_order = true}).rows;
    s->backend().release(std::span{&token, 1}, 30s);
    return rows.size();
  };
  auto const plain = postgres::open(db.connection(), o);
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, available_at, created_at) SELECT 'e' || i, 't', '1', now(), now() FROM "
             "generate_series(1, 1000) i");
  ASSERT_TRUE(earlier_transactions_end());
  said.clear();  // that fsync is off
  EXPECT_EQ(claim(plain, "n/1", 1000), 1000U);
  EXPECT_THAT(said, IsEmpty()) << "there is nothing behind them";
  EXPECT_EQ(claim(plain, "n/2", 10), 10U);
  EXPECT_EQ(claim(plain, "n/3", 10), 10U);
  EXPECT_THAT(said, ElementsAre(HasSubstr(".ordered = true"))) << "once";
  o.ordered = true;
  auto const indexed = postgres::open(db.connection(), o);
  said.clear();
  EXPECT_EQ(claim(indexed, "n/4", 10), 10U);
  EXPECT_THAT(said, IsEmpty());
  db.execute("SET plan_cache_mode = force_generic_plan");
  for (auto const setting : postgres::plan_settings) db.execute("SET " + std::string{setting});
  auto const sql = sql::postgres_array_statements("outbox_event", db.schema());
  db.execute("PREPARE in_order AS " + sql.in_order);
  db.execute("PREPARE due AS " + sql.due);
  auto const plan = db.ask("EXPLAIN (FORMAT JSON) EXECUTE in_order(51, '{}', '{}')");
  EXPECT_THAT(plan, HasSubstr("outbox_event_in_order"));
  EXPECT_THAT(plan, ::testing::Not(HasSubstr("\"Sort\"")));
  EXPECT_THAT(db.ask("EXPLAIN (FORMAT JSON) EXECUTE due(51, 0, 0, '{}', '{}', 0, NULL, '{}', NULL)"),
              HasSubstr("outbox_event_due"));
}

}  // namespace
}  // namespace outbox
