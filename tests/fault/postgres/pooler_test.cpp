// A pooler in transaction mode between the store and the server.
#include "server_fixture.hpp"

namespace outbox {
namespace {

class PostgresPooler : public PostgresServer {
 protected:
  PostgresPooler() { bouncer.emplace(postgres_server::shared(), free_port()); }
  std::optional<pgbouncer> bouncer;
};

// The upgrade holds a lock of its session across several transactions.
TEST_F(PostgresPooler, ATableOfVersion1IsNotUpgradedThroughAPooler) {
  static_cast<void>(db.open());
  db.execute("UPDATE " + db.table("outbox_meta") + " SET value = $1 WHERE name = $2", "1", "schema_version");
  auto const e = thrown_by([&] { static_cast<void>(postgres::open(bouncer->connection(), db.options())); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), HasSubstr("direct connection"));
  EXPECT_NO_THROW(static_cast<void>(db.open()));
  EXPECT_NO_THROW(static_cast<void>(postgres::open(bouncer->connection(), db.options()))) << "it is upgraded now";
}

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

// Making the indexes of keys needs one session. A node that finds them does not.
TEST_F(PostgresPooler, I5_AKeyedNodeKeepsTheOrderBehindAPooler) {
  constexpr int keys = 5, each = 20;
  static_cast<void>(db.open());
  auto const s = postgres::open(bouncer->connection(), db.options());
  keyed_options o{.store = s, .workers = 4, .log = nullptr};
  o.poll.every = 20ms;
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> delivered;
  std::atomic<int> total = 0;
  std::set<std::string> failed;
  o.retry.backoff.base = 1ms;
  o.listeners.on("t", [&](delivery const& d) -> result {
    std::lock_guard const lock{mutex};
    auto const key = d.event.ordering_key();
    if (d.id.ends_with("7") && failed.insert(d.id).second) return outbox::failed{"the first time"};
    delivered[std::string{key}].push_back(d.id);
    ++total;
    return done;
  });
  auto n = keyed(std::move(o));
  auto const e = thrown_by([&] { n.start(); });
  EXPECT_THAT(e.what(), HasSubstr("pooler"));
  EXPECT_THAT(e.what(), HasSubstr("direct connection"));
  auto with_keys = db.options();
  with_keys.keyed = true;
  static_cast<void>(postgres::migrate(db.connection(), with_keys));
  n.start();
  postgres::connection c{bouncer->connection()};
  std::map<std::string, std::vector<std::string>> written;
  for (int i = 0; i < keys * each; ++i) {
    postgres::transaction tx{c, i % 2 == 0 ? postgres::send_mode::immediate : postgres::send_mode::pipelined};
    auto const key = "k" + std::to_string(i % keys);
    auto const id = "e" + std::to_string(i);
    n.writer().write(tx, "t", "1", {.id = id, .ordering_key = key});
    tx.commit();
    written[key].push_back(id);
  }
  ASSERT_TRUE(eventually([&] { return total == keys * each; }));
  ASSERT_TRUE(settled());
  EXPECT_EQ(n.counters().store_errors, 0U);
  EXPECT_EQ(n.counters().healed, 0U);
  n.stop();
  EXPECT_EQ(delivered, written);
  EXPECT_FALSE(failed.empty());
}

TEST_F(PostgresPooler, WhatNeedsASessionIsRefusedWithTheReason) {
  static_cast<void>(db.open());  // the tables are made without that limit
  auto o = db.options();
  o.timeout = 5s;
  o.notify = true;
  auto const notify = thrown_by([&] { static_cast<void>(postgres::open(bouncer->connection(), o)); });
  EXPECT_THAT(notify.what(), HasSubstr("pooler"));
  auto const s = postgres::open(bouncer->connection(), db.options());
  auto const lock = thrown_by([&] { static_cast<void>(s->backend().try_dispatch_lock("n", 30s)); });
  EXPECT_EQ(lock.code(), errc::unsupported);
  EXPECT_THAT(lock.what(), HasSubstr("multi_node"));
  EXPECT_EQ(s->capabilities().dispatch_lock, lock_kind::none);
  EXPECT_EQ(db.open()->capabilities().dispatch_lock, lock_kind::session);
}

TEST_F(PostgresPooler, ANodeThatNeedsTheLockDoesNotStart) {
  auto const s = postgres::open(bouncer->connection(), db.options());
  auto const refused = [&](node n) {
    auto const e = thrown_by([&] { n.start(); });
    EXPECT_EQ(e.code(), errc::unsupported);
    EXPECT_THAT(e.what(), HasSubstr("dispatch lock"));
    EXPECT_THAT(e.what(), HasSubstr("pooler"));
    EXPECT_THAT(e.what(), HasSubstr("multi_node"));
  };
  refused(single_node({.store = s, .log = nullptr}));
  refused(ordered({.store = s, .log = nullptr}));
  EXPECT_THAT(s->inspect().nodes(), IsEmpty()) << "it leaves no row behind";
}

// A pooler lets clients in at once and may have no server for them for minutes.
TEST_F(PostgresPooler, AWaitForAFullPoolerEndsAtTheTimeout) {
  static_cast<void>(db.open());  // the tables are made without that limit
  auto o = db.options();
  o.timeout = 3s;
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

}  // namespace
}  // namespace outbox
