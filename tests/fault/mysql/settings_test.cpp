// Settings of a server that the store refuses, warns of, or must live with.
#include <cstdlib>
#include <filesystem>

#include "server_fixture.hpp"
#include "support/free_port.hpp"

namespace outbox {
namespace {

class MysqlSettings : public ::testing::Test {
 protected:
  // What the store says while it opens, without its name.
  std::vector<std::string> said_by_open(mysql_database const& db) {
    std::vector<std::string> said;
    auto o = db.options();
    o.log = [&](log_line const& line) { said.push_back(line.text()); };
    static_cast<void>(mysql::open(db.url(), o));
    return said;
  }
  static std::vector<std::string> found(outbox::store& s) {
    std::vector<std::string> codes;
    for (auto const& f : s.backend().findings()) {
      if (f.level == spi::finding_level::passed || f.code == "superuser") continue;  // that the test's user is
      codes.push_back(f.code);
    }
    return codes;
  }
  multi_node_options options(std::shared_ptr<outbox::store> s) {
    multi_node_options o{.store = std::move(s), .log = nullptr};
    o.poll.every = 20ms;
    o.retry.max_attempts = 1;
    o.limits.payload_bytes = std::size_t{16} << 20U;
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    o.listeners.on("bad", [](delivery const&) { throw std::runtime_error{std::string(4000, 'x')}; });
    return o;
  }

  tally seen;
};

TEST_F(MysqlSettings, ALogOfStatementsIsRefused) {
  mysql_server server{{.settings = {"log-bin=bin", "server-id=1", "binlog-format=STATEMENT"}}};
  mysql_database db{server};
  for (bool const only_migrate : {false, true}) {
    auto const e = thrown_by([&] {
      if (only_migrate) {
        mysql::migrate(db.url(), db.options());
      } else {
        static_cast<void>(db.open());
      }
    });
    EXPECT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), HasSubstr("binlog_format is STATEMENT"));
    EXPECT_THAT(e.what(), HasSubstr("MIXED or ROW"));
  }
  for (std::string const format : {"MIXED", "ROW"}) {
    db.execute("SET GLOBAL binlog_format = '" + format + "'");
    auto const s = db.open();
    auto n = multi_node(options(s));
    for (std::string const callers : {"MIXED", "ROW", "STATEMENT"}) {
      mysql::connection c{db.url()};
      c.execute("SET SESSION binlog_format = '" + callers + "'");
      mysql::transaction tx{c};
      n.writer().write(tx, "t", "1");
      n.writer().write(tx, "bad", "1");
      tx.commit();
    }
    EXPECT_EQ(n.run_until_idle(), 6U) << format;
    EXPECT_EQ(n.dead_events().replay_all(), 3U) << format;
    EXPECT_EQ(n.run_until_idle(), 3U) << format;
    EXPECT_EQ(s->backend().purge({.retention = 0s}), 6U) << format;
    EXPECT_TRUE(s->backend().try_dispatch_lock("n", 30s)) << format;
  }
}

TEST_F(MysqlSettings, SettingsThatLoseCommitsAreWarnedOf) {
  mysql_server server{{.settings = {"log-bin=bin", "server-id=1", "binlog-format=ROW", "sync-binlog=0",
                                    "innodb-flush-log-at-trx-commit=2"}}};
  mysql_database db{server};
  EXPECT_THAT(said_by_open(db), ::testing::UnorderedElementsAre(HasSubstr("innodb_flush_log_at_trx_commit = 2"),
                                                                HasSubstr("sync_binlog = 0")));
  EXPECT_THAT(said_by_open(db),
              ::testing::Each(::testing::StartsWith("the store of " + db.database() + ".outbox_event: ")));
  auto const s = db.open();
  EXPECT_THAT(found(*s), ::testing::UnorderedElementsAre("innodb_flush_log_at_trx_commit", "sync_binlog"));
  db.execute("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
  db.execute("SET GLOBAL sync_binlog = 1");
  EXPECT_THAT(found(*s), IsEmpty()) << "it asks each time";
  EXPECT_THAT(said_by_open(db), IsEmpty());
}

TEST_F(MysqlSettings, WhatAnOperatorShouldKnowIsFound) {
  mysql_server server{{.settings = {"auto-increment-increment=2"}, .durable = true}};
  mysql_database db{server};
  auto const s = db.open();
  EXPECT_THAT(found(*s), ElementsAre("auto_increment_increment"));
  EXPECT_THAT(said_by_open(db), IsEmpty()) << "a note is no warning";
  db.execute("SET GLOBAL auto_increment_increment = 1");
  db.execute("ALTER TABLE " + db.table() + " DROP INDEX outbox_event_ended");
  EXPECT_THAT(found(*s), ElementsAre("missing_index"));
  db.execute("ALTER TABLE " + db.table() + " ADD INDEX outbox_event_ended (status, ended_at, seq)");
  s->backend().set_keyed(true);
  EXPECT_THAT(found(*s), IsEmpty());
  db.execute("SET GLOBAL auto_increment_increment = 2");
  db.execute("ALTER TABLE " + db.table() + " DROP INDEX outbox_event_keyed");
  EXPECT_THAT(found(*s), ElementsAre("missing_index", "auto_increment_increment"));
  for (auto const& f : s->backend().findings()) {
    if (f.code == "missing_index") {
      db.execute(f.fix);
    } else if (f.code == "auto_increment_increment") {
      EXPECT_EQ(f.level, spi::finding_level::warning);
    }
  }
  EXPECT_THAT(found(*s), ElementsAre("auto_increment_increment"));
  db.execute("SET GLOBAL auto_increment_increment = 1");
  mysql_account user{db};  // may not see the transactions of others
  auto const guest = mysql::open(user.url(), db.options());
  EXPECT_THAT(found(*guest), ElementsAre("old_transaction"));
}

// The server ends a session that sends more than max_allowed_packet, and with it the transaction.
class MysqlPacket : public MysqlSettings {
 protected:
  static constexpr std::size_t limit = std::size_t{1} << 20U;

  MysqlPacket() { db.execute("CREATE TABLE " + db.table("orders") + " (id int PRIMARY KEY)"); }

  static event sized(std::string const& id, std::size_t bytes) {
    event_limits const limits{.payload_bytes = std::size_t{16} << 20U};
    return event::json("t", '"' + std::string(bytes - 2, 'x') + '"', {.id = id}, limits);
  }
  static std::vector<event> events(std::string const& prefix, int count, std::size_t bytes) {
    std::vector<event> all;
    for (int i = 0; i < count; ++i) all.push_back(sized(prefix + std::to_string(i), bytes));
    return all;
  }
  std::string rows() { return db.ask("SELECT count(*) FROM " + db.table()); }

  mysql_server server{{.settings = {"max-allowed-packet=1M"}}};
  mysql_database db{server};
  std::shared_ptr<outbox::store> store = db.open();
  node n = multi_node(options(store));
  mysql::connection caller{db.url()};
};

TEST_F(MysqlPacket, AnEventThatIsTooLargeIsRefusedAndTheTransactionGoesOn) {
  event_limits const limits{.payload_bytes = std::size_t{16} << 20U};
  std::vector<event> too_large;
  too_large.push_back(sized("a", 2 * limit));
  too_large.push_back(sized("b", limit));
  too_large.push_back(event::json("t", '"' + std::string(limit * 6 / 10, '\'') + '"', {.id = "c"}, limits));
  too_large.push_back(event::bytes("t", std::string(limit * 6 / 10, '\1'), "application/x", {.id = "d"}, limits));
  mysql::transaction tx{caller};
  tx.execute("INSERT INTO " + db.table("orders") + " VALUES (1)");
  for (auto const& e : too_large) {
    for (bool const many : {false, true}) {
      auto const refused = thrown_by([&] {
        if (many) {
          auto all = events("small", 3, 100);
          all.push_back(e);
          n.writer().write_all(tx, all);
        } else {
          n.writer().write(tx, e);
        }
      });
      EXPECT_EQ(refused.code(), errc::invalid_event) << refused.what();
      EXPECT_EQ(refused.field(), "payload");
      EXPECT_THAT(refused.what(), HasSubstr("max_allowed_packet is " + std::to_string(limit)));
      EXPECT_TRUE(tx.active());
    }
  }
  n.writer().write(tx, sized("fits", limit * 9 / 10));
  tx.execute("INSERT INTO " + db.table("orders") + " VALUES (2)");
  tx.commit();
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table("orders")), "2");
  EXPECT_EQ(db.ask("SELECT group_concat(event_id) FROM " + db.table()), "fits");
  n.start();
  ASSERT_TRUE(seen.reach(1));
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == 1; }));
}

// A session learns the limit once. Another one may have another limit.
TEST_F(MysqlPacket, TheLimitIsThatOfTheSession) {
  db.execute("SET GLOBAL max_allowed_packet = 4194304");
  mysql::connection wider{db.url()};
  for (auto* const c : {&wider, &caller, &wider}) {
    mysql::transaction tx{*c};
    if (c == &caller) {
      EXPECT_THROW(n.writer().write(tx, sized("no", 2 * limit)), error);
    } else {
      EXPECT_NO_THROW(n.writer().write(tx, sized("yes", 2 * limit)));
    }
  }
}

TEST_F(MysqlPacket, ManyEventsGoInPieces) {
  auto const all = events("e", 40, 100'000);
  mysql::transaction tx{caller};
  tx.execute("INSERT INTO " + db.table("orders") + " VALUES (1)");
  EXPECT_EQ(n.writer().write_all(tx, all).size(), 40U);
  tx.commit();
  EXPECT_EQ(rows(), "40");
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE length(payload) = 100000"), "40");
  n.start();
  ASSERT_TRUE(seen.reach(40));
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == 40; }));
}

// All of them, or none: whatever went before the piece that fails is undone, and only that.
TEST_F(MysqlPacket, AWriteInPiecesIsAtomic) {
  for (bool const by_hand : {false, true}) {
    std::string const name = by_hand ? "hand" : "class";
    auto all = events(name, 40, 100'000);
    auto const duplicate = name + "35";
    db.execute("INSERT INTO " + db.table() +
                   " (event_id, event_type, payload, status, available_at, created_at) VALUES (?, 't', '1', 1, "
                   "utc_timestamp(6), utc_timestamp(6))",
               duplicate);
    std::optional<mysql::transaction> tx;
    if (by_hand) {
      caller.execute("START TRANSACTION");
    } else {
      tx.emplace(caller);
    }
    caller.execute("INSERT INTO " + db.table("orders") + " VALUES (?)", by_hand ? 1 : 2);
    auto const e = thrown_by([&] {
      if (by_hand) {
        n.writer().write_all(caller.handle(), all);
      } else {
        n.writer().write_all(*tx, all);
      }
    });
    EXPECT_EQ(e.code(), errc::duplicate_event) << e.what();
    if (by_hand) {
      n.writer().write(caller.handle(), sized(name + "-after", 100));
      caller.execute("COMMIT");
    } else {
      n.writer().write(*tx, sized(name + "-after", 100));
      tx->commit();
    }
    EXPECT_EQ(db.ask("SELECT group_concat(event_id ORDER BY event_id) FROM " + db.table() + " WHERE event_id LIKE ?",
                     name + "%"),
              name + "-after," + duplicate);
  }
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table("orders")), "2");
}

// The store divides a write by the number of rows too.
TEST_F(MysqlPacket, AWriteOfThousandsOfEventsIsAtomic) {
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at) VALUES ('e2400', 't', '1', 1, "
             "utc_timestamp(6), utc_timestamp(6))");
  auto const all = events("e", 2500, 10);
  mysql::transaction tx{caller};
  auto const e = thrown_by([&] { n.writer().write_all(tx, all); });
  EXPECT_EQ(e.code(), errc::duplicate_event) << e.what();
  EXPECT_TRUE(tx.active());
  n.writer().write(tx, sized("after", 10));
  tx.commit();
  EXPECT_EQ(db.ask("SELECT group_concat(event_id ORDER BY event_id) FROM " + db.table()), "after,e2400");
}

// A lock that a later piece waits for in vain ends that statement only. The transaction goes on, so that nothing of the
// write may be in it.
TEST_F(MysqlPacket, AWriteInPiecesThatTimesOutLeavesNothing) {
  caller.execute("SET SESSION innodb_lock_wait_timeout = 1");
  mysql::connection other{db.url()};
  mysql::transaction holding{other};
  for (bool const large : {true, false}) {
    auto const all = large ? events("e", 40, 100'000) : events("many", 2500, 10);
    n.writer().write(holding, sized(all.at(large ? 35 : 2400).id(), 10));
    mysql::transaction tx{caller};
    auto const e = thrown_by([&] { n.writer().write_all(tx, all); });
    EXPECT_TRUE(e.transient()) << e.what();
    if (tx.active()) {
      n.writer().write(tx, sized(large ? "after1" : "after2", 10));
      tx.commit();
    }
  }
  holding.rollback();
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE event_id NOT LIKE 'after%'"), "0");
}

// With this setting a lock that takes too long ends the whole transaction, as a deadlock does. What follows must not be
// committed on its own.
TEST_F(MysqlSettings, ATimeoutThatRollsBackEndsTheTransaction) {
  mysql_server server{{.settings = {"innodb-rollback-on-timeout=ON"}}};
  mysql_database db{server};
  auto n = multi_node(options(db.open()));
  db.execute("CREATE TABLE " + db.table("orders") + " (id int PRIMARY KEY, n int)");
  db.execute("INSERT INTO " + db.table("orders") + " VALUES (1, 0), (2, 0)");
  mysql::connection other{db.url()};
  mysql::transaction holding{other};
  holding.execute("UPDATE " + db.table("orders") + " SET n = 1 WHERE id = 1");
  mysql::connection c{db.url()};
  c.execute("SET SESSION innodb_lock_wait_timeout = 1");
  auto const wait = "UPDATE " + db.table("orders") + " SET n = 2 WHERE id = 1";
  {
    mysql::transaction tx{c};
    tx.execute("UPDATE " + db.table("orders") + " SET n = 2 WHERE id = 2");
    EXPECT_TRUE(thrown_by([&] { tx.execute(wait); }).transient());
    EXPECT_FALSE(tx.active());
    EXPECT_EQ(thrown_by([&] { n.writer().write(tx, "t", "1"); }).code(), errc::no_transaction);
    EXPECT_EQ(thrown_by([&] { tx.commit(); }).code(), errc::no_transaction);
  }
  c.execute("START TRANSACTION");
  c.execute("UPDATE " + db.table("orders") + " SET n = 2 WHERE id = 2");
  EXPECT_TRUE(thrown_by([&] { c.execute(wait); }).transient());
  EXPECT_EQ(thrown_by([&] { n.writer().write(c.handle(), "t", "1"); }).code(), errc::no_transaction);
  c.execute("COMMIT");
  EXPECT_EQ(db.ask("SELECT n FROM " + db.table("orders") + " WHERE id = 2"), "0");
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table()), "0");
}

// The texts of a thousand errors are more than a packet too.
TEST_F(MysqlPacket, SettlementsThatAreTooLargeForOnePacketAreDivided) {
  constexpr int count = 1000;
  mysql::transaction tx{caller};
  std::vector<event> all;
  for (int i = 0; i < count; ++i) all.push_back(event::json("t", "1"));
  writer_only({.store = store, .log = nullptr}).writer().write_all(tx, all);
  tx.commit();
  auto const rows = store->backend().claim({.token = "n/1", .limit = count, .lease = 1min}).rows;
  ASSERT_EQ(rows.size(), count);
  for (auto const how : {outcome::retry, outcome::dead}) {
    std::vector<settlement> items;
    for (std::size_t i = how == outcome::retry ? 0 : count / 2; i < (how == outcome::retry ? count / 2 : count); ++i) {
      items.push_back(
          {.row = rows[i].handle, .outcome = how, .counted = 1, .delay = 1h, .error = std::string(4000, 'x')});
    }
    auto const reply = store->backend().settle(items);
    EXPECT_EQ(std::ranges::count(reply.applied, true), count / 2);
  }
  EXPECT_EQ(store->inspect().counts().retry, count / 2);
  EXPECT_EQ(store->inspect().counts().dead, count / 2);
}

TEST_F(MysqlPacket, LeasesOfManyRowsAreRenewed) {
  std::vector<row_handle> handles;
  for (int i = 0; i < 20'000; ++i) {
    handles.push_back({.id = "e" + std::to_string(1'000'000 + i), .token = std::string(60, 'n') + "/1"});
  }
  std::vector<bool> kept;
  EXPECT_NO_THROW(kept = store->backend().renew(handles, 30s));
  EXPECT_EQ(kept.size(), handles.size());
}

// Every attempt fails with a long text, on four workers.
TEST_F(MysqlPacket, ANodeSettlesLongErrors) {
  constexpr int count = 2000;
  std::vector<event> all;
  for (int i = 0; i < count; ++i) all.push_back(event::json("bad", "1"));
  mysql::transaction tx{caller};
  writer_only({.store = store, .log = nullptr}).writer().write_all(tx, all);
  tx.commit();
  n.start();
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().dead == count; }));
  EXPECT_TRUE(n.health().healthy) << n.health().reason;
}

class MysqlGalera : public MysqlSettings {
 protected:
  static constexpr char const* library = "/usr/lib/galera/libgalera_smm.so";

  void SetUp() override {
    if (!std::filesystem::exists(library)) GTEST_SKIP() << "there is no " << library << ": install galera-4";
    auto const at = "127.0.0.1:" + std::to_string(free_port());
    server.emplace(mysql_server::setup{
        .settings = {"wsrep-on=ON", std::string{"wsrep-provider="} + library, "wsrep-cluster-address=gcomm://",
                     "wsrep-node-address=127.0.0.1", "binlog-format=ROW", "innodb-autoinc-lock-mode=2",
                     "wsrep-provider-options=gmcast.listen_addr=tcp://" + at + ";gcache.size=8M;socket.dynamic=true"}});
    db.emplace(*server);
  }

  std::optional<mysql_server> server;
  std::optional<mysql_database> db;
};

TEST_F(MysqlGalera, ManyNodesWorkOnItAndOpenWarns) {
  EXPECT_THAT(said_by_open(*db), ::testing::Contains(HasSubstr("a Galera cluster")));
  auto const s = db->open();
  EXPECT_THAT(found(*s), ::testing::Contains("cluster"));
  EXPECT_EQ(s->capabilities().dispatch_lock, lock_kind::none);
  auto n = multi_node(options(s));
  auto second = multi_node(options(s));
  n.start();
  second.start();
  mysql::connection c{db->url()};
  for (int i = 0; i < 50; ++i) {
    mysql::transaction tx{c};
    n.writer().write(tx, i % 10 == 0 ? "bad" : "t", "1");
    tx.commit();
  }
  ASSERT_TRUE(seen.reach(45));
  EXPECT_TRUE(eventually([&] { return s->inspect().counts().done == 45 && s->inspect().counts().dead == 5; }));
  EXPECT_TRUE(n.health().healthy) << n.health().reason;
}

TEST_F(MysqlGalera, ASingleNodeIsRefusedWithTheReason) {
  auto const s = db->open();
  EXPECT_THAT(s->capabilities().no_lock_reason, HasSubstr("cluster"));
  auto n = single_node({.store = s, .log = nullptr});
  auto const e = thrown_by([&] { n.start(); });
  EXPECT_EQ(e.code(), errc::unsupported);
  EXPECT_THAT(e.what(), HasSubstr("cluster"));
  auto in_order = ordered({.store = s, .log = nullptr});
  EXPECT_EQ(thrown_by([&] { in_order.start(); }).code(), errc::unsupported);
  EXPECT_EQ(thrown_by([&] { static_cast<void>(s->backend().try_dispatch_lock("n", 30s)); }).code(), errc::unsupported);
}

// Each server of the cluster draws numbers of its own.
TEST_F(MysqlGalera, AnOrderOfKeysIsRefused) {
  auto const s = db->open();
  auto const e = thrown_by([&] { s->backend().set_keyed(true); });
  EXPECT_EQ(e.code(), errc::unsupported);
  EXPECT_THAT(e.what(), HasSubstr("a Galera cluster"));
  EXPECT_FALSE(s->backend().settings().keyed);
}

}  // namespace
}  // namespace outbox
