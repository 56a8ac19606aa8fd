// Isolation, rights, time zones, clocks and sizes: what the settings of a session do not change.
#include "server_fixture.hpp"

namespace outbox {
namespace {

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

TEST_F(PostgresServer, TheStoresStatementsDoNotDependOnTheSessionsDefaults) {
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
  EXPECT_EQ(hot.total(), 0U) << "the writer may not read whether the rows are there, so the poller decides";
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

}  // namespace
}  // namespace outbox
