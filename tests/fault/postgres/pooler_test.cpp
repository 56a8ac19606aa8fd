// A pooler in transaction mode between the store and the server.
#include "server_fixture.hpp"

namespace outbox {
namespace {

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
TEST_F(PostgresPooler, AWaitForAFullPoolerEndsAtTheTimeout) {
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

}  // namespace
}  // namespace outbox
