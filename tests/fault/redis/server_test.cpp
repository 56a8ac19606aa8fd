// Servers with settings that an outbox cannot live with, whose memory is full, that hang, restart, or send a client on.
#include <csignal>

#include "outbox_fixture.hpp"
#include "support/tcp_proxy.hpp"

namespace outbox {
namespace {

class RedisServer : public RedisOutbox {
 protected:
  [[nodiscard]] std::shared_ptr<store> open_on(redis_server const& s, redis::options o) {
    o.name = name;
    return redis::open(s.url(), std::move(o));
  }
  [[nodiscard]] log_function collect() {
    return [this](log_line const& l) { lines.push_back(l.text()); };
  }
  [[nodiscard]] auto mentions(std::string const& word) const { return ::testing::Contains(HasSubstr(word)); }

  std::vector<std::string> lines;
};

TEST_F(RedisServer, OptionsThatMakeNoSenseAreRefusedByName) {
  struct {
    redis::options o;
    std::string field;
  } const bad[] = {{{.name = ""}, "name"},
                   {{.name = "a\nb"}, "name"},
                   {{.name = "\xFF"}, "name"},
                   {{.name = std::string(101, 'x')}, "name"},
                   {{.name = "{}outbox"}, "name"},
                   {{.name = "a}b"}, "name"},
                   {{.name = "a{b"}, "name"},
                   {{.connections = 0}, "connections"},
                   {{.connections = 101}, "connections"},
                   {{.timeout = 99ms}, "timeout"},
                   {{.timeout = 11min}, "timeout"},
                   {{.replicas = 17}, "replicas"}};
  for (auto const& b : bad) {
    auto const e = error_by([&] { static_cast<void>(redis::open(server.url(), b.o)); });
    EXPECT_EQ(e.code(), errc::invalid_option);
    EXPECT_EQ(e.field(), b.field);
  }
}

TEST_F(RedisServer, ANameWithBracesStandsAsItIs) {
  auto const tag = "{" + name + "}";
  auto const s = redis::open(server.url(), {.name = tag + ":outbox", .log = {}});
  put(*s, "a");
  EXPECT_EQ(db.command("EXISTS", tag + ":outbox:event:a").number, 1);
}

TEST_F(RedisServer, WithoutMigrateAMissingOutboxIsRefused) {
  auto o = options();
  o.migrate = false;
  EXPECT_THAT(error_by([&] { static_cast<void>(redis::open(server.url(), o)); }).what(),
              HasSubstr("there is no outbox"));
  EXPECT_EQ(redis::schema_of(server.url(), o).found, schema_state::kind::none);
  EXPECT_EQ(redis::migrate(server.url(), o).change, migration::kind::created);
  EXPECT_EQ(redis::migrate(server.url(), o).change, migration::kind::nothing);
  EXPECT_EQ(redis::schema_of(server.url(), o).found, schema_state::kind::current);
  EXPECT_NO_THROW(static_cast<void>(redis::open(server.url(), o)));
}

TEST_F(RedisServer, AStoreThatReadsOnlyChangesNothing) {
  auto const writing = open();
  put(*writing, "a");
  auto o = options();
  o.read_only = true;
  auto const s = redis::open(server.url(), o);
  auto& b = s->backend();
  EXPECT_TRUE(s->inspect().find("a"));
  EXPECT_EQ(b.overview(10).pending, 1U);
  EXPECT_EQ(error_by([&] { put(*s, "b"); }).code(), errc::unsupported);
  EXPECT_EQ(error_by([&] { claim(*s); }).code(), errc::unsupported);
  EXPECT_EQ(error_by([&] { b.cancel({}, "no", 1); }).code(), errc::unsupported);
  EXPECT_EQ(error_by([&] { b.pause({"t", ""}); }).code(), errc::unsupported);
  EXPECT_EQ(error_by([&] { b.heartbeat({.incarnation = "x"}); }).code(), errc::unsupported);
  EXPECT_EQ(error_by([&] { b.begin_audit({.who = "x"}); }).code(), errc::unsupported);
  EXPECT_EQ(error_by([&] { static_cast<void>(b.try_dispatch_lock("x", 1s)); }).code(), errc::unsupported);
  EXPECT_THAT(claim(*writing), ElementsAre("a"));
}

TEST_F(RedisServer, AServerThatEvictsKeysIsRefused) {
  for (std::string const policy : {"allkeys-lru", "volatile-ttl", "allkeys-random"}) {
    redis_server own{{.settings = {"maxmemory-policy " + policy}}};
    auto const e = error_by([&] { static_cast<void>(open_on(own, {.log = {}})); });
    EXPECT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), HasSubstr(policy));
    EXPECT_THAT(e.what(), HasSubstr("CONFIG SET maxmemory-policy noeviction"));
    EXPECT_EQ(own.ask({"DBSIZE"}), "0") << "nothing was written";
  }
}

TEST_F(RedisServer, WhatTheServerMayLoseIsSaidAtTheStart) {
  redis_server careless{{.settings = {"appendonly no"}}};
  static_cast<void>(open_on(careless, {.log = collect()}));
  EXPECT_THAT(lines, mentions("The append-only file is off."));
  lines.clear();
  redis_server usual;
  static_cast<void>(open_on(usual, {.log = collect()}));
  EXPECT_THAT(lines, mentions("appendfsync everysec"));
  lines.clear();
  redis_server careful{{.settings = {"appendfsync always"}}};
  static_cast<void>(open_on(careful, {.log = collect()}));
  EXPECT_THAT(lines, IsEmpty());
}

TEST_F(RedisServer, AFullMemoryIsBackPressureAndCanBeEmptied) {
  redis_server own{{.settings = {"maxmemory 0"}}};
  auto const s = open_on(own, {.log = {}});
  for (int i = 0; i < 50; ++i) put(*s, "early-" + std::to_string(i));
  own.ask({"CONFIG", "SET", "maxmemory", "1mb"});
  auto const e = error_by([&] { put(*s, "late"); });
  EXPECT_TRUE(e.transient()) << e.what();
  EXPECT_THAT(e.what(), HasSubstr("OOM"));
  EXPECT_FALSE(s->inspect().find("late"));
  EXPECT_EQ(own.ask({"EXISTS", key("payload:late")}), "0") << "not half of it";
  redis::connection c{own.url()};
  {
    redis::transaction tx{c};
    tx.command("SET", "business", 1);
    auto const ev = event::json("t", "1");
    spi::insertion const row{&ev};
    s->backend().insert(join(tx), std::span{&row, 1});
    auto const refused = error_by([&] { tx.commit(); });
    EXPECT_TRUE(refused.transient()) << refused.what();
    EXPECT_THAT(refused.what(), HasSubstr("nothing took effect"));
  }
  // Nodes go on: they claim, renew, fail and settle what is there.
  auto const rows = s->backend().claim({.token = "n/1", .limit = 100, .lease = 30s}).rows;
  ASSERT_THAT(rows, SizeIs(50));
  std::vector<spi::settlement> items;
  for (auto const& r : rows) items.push_back({.row = r.handle});
  items[0].outcome = spi::outcome::retry;
  EXPECT_TRUE(s->backend().renew(std::span{&rows[1].handle, 1}, 30s).at(0));
  EXPECT_THAT(s->backend().settle(items).applied, ::testing::Each(true));
  s->backend().heartbeat({.incarnation = "x", .lease = 30s});
  EXPECT_EQ(s->inspect().counts().pending(), 1U);
  own.ask({"CONFIG", "SET", "maxmemory", "0"});
  put(*s, "late");
  EXPECT_EQ(s->inspect().counts().pending(), 2U);
}

TEST_F(RedisServer, AServerThatHangsIsUnavailableInTimeAndUsedAgainAfterwards) {
  redis_server own;
  auto const s = open_on(own, {.timeout = 300ms, .notify = false, .log = {}});
  put(*s, "a");
  ::kill(own.pid(), SIGSTOP);
  EXPECT_TRUE(error_by([&] { put(*s, "b"); }).in_doubt()) << "it may be done when the server goes on";
  EXPECT_TRUE(error_by([&] { claim(*s); }).transient());
  ::kill(own.pid(), SIGCONT);
  ASSERT_TRUE(eventually([&] {
    try {
      return s->inspect().counts().pending() > 0;
    } catch (error const&) {
      return false;
    }
  }));
  ASSERT_TRUE(eventually([&] { return s->backend().release(std::vector<owner_token>{"n/1"}, 30s) < 99; }));
  EXPECT_TRUE(s->inspect().find("a"));
}

TEST_F(RedisServer, ANodeGoesOnWhenTheServerComesBack) {
  redis_server own{{.settings = {"appendfsync always"}}};
  auto const s = open_on(own, {.timeout = 1s, .log = {}});
  tally seen;
  multi_node_options o{.store = s, .log = nullptr};
  o.poll.every = 50ms;
  o.listeners.on("t", [&](delivery const& d) { seen.add(d.id); });
  auto n = multi_node(std::move(o));
  n.start();
  n.writer().write(no_transaction, "t", "1", {.id = "before"});
  ASSERT_TRUE(seen.reach(1));
  own.kill_hard();
  EXPECT_THROW(n.writer().write(no_transaction, "t", "1", {.id = "meanwhile"}), error);
  own.start();
  ASSERT_TRUE(eventually([&] {
    try {
      n.writer().write(no_transaction, "t", "1", {.id = "after"});
      return true;
    } catch (error const& e) {
      if (e.code() == errc::duplicate_event) return true;  // an attempt in doubt had been done
      return false;
    }
  }));
  ASSERT_TRUE(eventually([&] { return seen.of("after") > 0; }));
}

TEST_F(RedisServer, MessagesAreHeardAgainAfterTheConnectionWasLost) {
  tcp_proxy proxy{server.port()};
  auto o = options();
  o.log = collect();
  auto const s = redis::open(server.url_through(proxy.port()), o);
  std::atomic<int> heard = 0;
  auto const told = s->backend().on_change([&] { ++heard; });
  proxy.cut_all();
  ASSERT_TRUE(eventually([&] { return heard > 0; })) << "a reconnection counts as a change";
  auto const before = heard.load();
  db.command("PUBLISH", key("wake"), "");
  EXPECT_TRUE(eventually([&] { return heard > before; }));
}

TEST_F(RedisServer, AReplicaTakesNoEventsAndSaysWhy) {
  redis_server replica{{.replica_of = server.port()}};
  auto const there = open();  // on the primary
  ASSERT_TRUE(eventually([&] { return replica.ask({"EXISTS", key("meta")}) == "1"; }));
  put(*there, "a");
  ASSERT_TRUE(eventually([&] { return replica.ask({"EXISTS", key("event:a")}) == "1"; }));
  auto const s = open_on(replica, {.notify = false, .log = collect()});
  EXPECT_THAT(lines, mentions("The server is a replica."));
  EXPECT_TRUE(s->inspect().find("a")) << "tools may read there";
  EXPECT_EQ(s->backend().overview(10).pending, 1U);
  EXPECT_THAT(s->inspect().nodes(), IsEmpty());
  EXPECT_THAT(s->backend().audit(10), IsEmpty());
  EXPECT_FALSE(s->backend().settings().keyed);
  auto const e = error_by([&] { put(*s, "b"); });
  EXPECT_TRUE(e.transient()) << "it may become the primary: " << e.what();
  EXPECT_THAT(e.what(), HasSubstr("replica"));
}

class RedisInACluster : public RedisOutbox {
 protected:
  static redis_server& cluster() {
    static redis_server one{{.cluster = true}};
    return one;
  }
  RedisInACluster() : RedisOutbox{cluster()} {}
};

TEST_F(RedisInACluster, AllKeysOfAnOutboxAreInOneSlot) {
  auto const s = open();
  auto o = options();
  o.name = "{shop}:outbox";
  auto const shop = redis::open(server.url(), o);
  put(*s, "a");
  EXPECT_THAT(claim(*s), ElementsAre("a"));
  redis::transaction tx{db};
  tx.command("SET", "{shop}:order:1", 1);
  auto const e = event::json("t", "1", {.id = "x"});
  spi::insertion const row{&e};
  shop->backend().insert(join(tx), std::span{&row, 1});
  tx.commit();
  EXPECT_EQ(db.command("GET", "{shop}:order:1").text, "1");
  EXPECT_EQ(shop->backend().purge({.retention = 0s}), 0U);
  EXPECT_THAT(shop->backend().findings(), ::testing::Not(IsEmpty()));
  EXPECT_THAT(claim(*shop), ElementsAre("x"));
}

TEST_F(RedisInACluster, AKeyOfAnotherSlotInATransactionUndoesAllOfIt) {
  auto const s = open();
  redis::transaction tx{db};
  tx.command("SET", key("mine"), 1);
  tx.command("MSET", "a", 1, "b", 2);  // of two slots
  auto const e = event::json("t", "1", {.id = "x"});
  spi::insertion const row{&e};
  s->backend().insert(join(tx), std::span{&row, 1});
  EXPECT_THAT(error_by([&] { tx.commit(); }).what(), HasSubstr("nothing took effect"));
  EXPECT_TRUE(db.command("GET", key("mine")).nil());
  EXPECT_FALSE(s->inspect().find("x"));
}

// Two servers of a cluster: the one that is asked has no slots, and names the other.
TEST_F(RedisInACluster, MovedIsFollowed) {
  redis_server asked{{.cluster = true}};
  asked.ask({"CLUSTER", "FLUSHSLOTS"});
  asked.ask({"CLUSTER", "MEET", "127.0.0.1", std::to_string(server.port()), std::to_string(server.bus_port())});
  ASSERT_TRUE(eventually([&] {
    return asked.ask({"CLUSTER", "INFO"}).find("cluster_state:ok") != std::string::npos &&
           asked.ask({"CLUSTER", "INFO"}).find("cluster_slots_ok:16384") != std::string::npos;
  }));
  redis::connection plain{asked.url()};
  EXPECT_THAT(error_by([&] { plain.command("GET", key("x")); }).what(), HasSubstr("MOVED"));
  auto const s = redis::open(asked.url(), options());
  put(*s, "a");
  EXPECT_EQ(db.command("EXISTS", key("event:a")).number, 1) << "it is on the other server";
  std::atomic<int> heard = 0;
  auto const told = s->backend().on_change([&] { ++heard; });
  s->backend().hint();
  EXPECT_TRUE(eventually([&] { return heard > 0; }));
  EXPECT_THAT(claim(*s), ElementsAre("a"));
  redis::transaction tx{plain};
  tx.command("SET", key("k"), 1);
  auto const e = error_by([&] { tx.commit(); });
  EXPECT_THAT(e.what(), HasSubstr("on another server of the cluster"));
  EXPECT_FALSE(e.transient()) << "the same connection will not do";
}

}  // namespace
}  // namespace outbox
