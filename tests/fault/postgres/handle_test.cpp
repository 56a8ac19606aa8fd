// What only a libpq handle of the application can do.
#include "join_fixture.hpp"

namespace outbox {
namespace {

class PostgresRaw : public PostgresJoin<raw_client> {};

TEST_F(PostgresRaw, WritingOutsideATransactionIsRefused) {
  postgres::connection c{db.connection()};
  EXPECT_THROW(box->writer().write(c.handle(), "t", "1"), error);
}

TEST_F(PostgresRaw, AResetConnectionIsInDoubtAndThenGoesOn) {
  postgres::connection c{db.connection()};
  check(c.handle(), "BEGIN");
  box->writer().write(c.handle(), "t", "1", {.id = "a"});
  PQreset(c.handle());
  ASSERT_TRUE(nothing_held());
  check(c.handle(), "BEGIN");
  box->writer().write(c.handle(), "t", "1", {.id = "b"});
  check(c.handle(), "COMMIT");
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(hot.of("b"), 1);
  EXPECT_EQ(seen.of("a"), 0);
}

TEST_F(PostgresRaw, EveryWayToCommitIsNoticed) {
  postgres::connection c{db.connection()};
  int n = 0;
  for (auto const* const end : {"COMMIT", "END", "COMMIT AND NO CHAIN", "SELECT 1; COMMIT"}) {
    check(c.handle(), "START TRANSACTION");
    box->writer().write(c.handle(), "t", "1");
    check(c.handle(), end);
    ASSERT_TRUE(hot.reach(static_cast<std::size_t>(++n))) << end;
  }
  check(c.handle(), "BEGIN");
  box->writer().write(c.handle(), "t", "1");
  check(c.handle(), "COMMIT AND CHAIN");
  box->writer().write(c.handle(), "t", "1");
  check(c.handle(), "COMMIT");
  EXPECT_TRUE(hot.reach(6));
}

TEST_F(PostgresRaw, I7_AHookMayUseTheConnectionOfATransactionThatHasEnded) {
  auto const hook = std::make_shared<nested_hook>();
  multi_node_options o{.store = db.open(), .log = nullptr};
  o.poll.every = 1h;
  o.hook = hook;
  o.listeners.on("t", [this](delivery const& d) {
    if (d.path == path::hot) hot.add(d.id);
    seen.add(d.id);
  });
  auto n = multi_node(std::move(o));
  n.start();
  postgres::connection c{db.connection()};
  auto const transact = [&](std::string const& id, char const* end) {
    check(c.handle(), "BEGIN");
    n.writer().write(c.handle(), "t", "1", {.id = id});
    check(c.handle(), end);
  };
  hook->write = [&](std::string const& id) { transact(id, id.size() == 3 ? "ROLLBACK" : "COMMIT"); };
  for (auto const* const id : {"a", "b", "d"}) {
    transact(id, "COMMIT");  // and in it the hook commits "ac", rolls back "acc" and commits "accr"
    check(c.handle(), "SELECT 1");
  }
  ASSERT_TRUE(seen.reach(9));
  ASSERT_TRUE(all_settled());
  n.stop();
  EXPECT_EQ(seen.total(), 9U) << "each once";
  EXPECT_EQ(hot.total(), 9U);
  EXPECT_EQ(n.counters().cold_enqueued, 0U) << "no end was in doubt";
  EXPECT_EQ(seen.of("acc"), 0);
  EXPECT_EQ(hot.of("accr"), 1);
  EXPECT_EQ(rows("outbox_event"), "9");
}

TEST_F(PostgresRaw, I2_APreparedTransactionIsLeftToThePoller) {
  postgres_server server{{.settings = {"max_prepared_transactions=4"}}};
  postgres_database own{"postgres", server};
  tally cold;
  multi_node_options o{.store = own.open(), .log = nullptr};
  o.poll.every = 20ms;
  o.lease.duration = 1s;
  o.listeners.on("t", [&](delivery const& d) {
    if (d.path == path::cold) cold.add(d.id);
  });
  auto n = multi_node(std::move(o));
  n.start();
  postgres::connection c{own.connection()};
  check(c.handle(), "BEGIN");
  n.writer().write(c.handle(), "t", "1", {.id = "a"});
  check(c.handle(), "PREPARE TRANSACTION 'x'");
  EXPECT_EQ(cold.total(), 0U);
  check(c.handle(), "COMMIT PREPARED 'x'");
  EXPECT_TRUE(cold.reach(1));
}

TEST_F(PostgresRaw, AConnectionWithAnotherEncodingIsRefused) {
  postgres::connection c{db.connection() + " client_encoding=LATIN1"};
  c.execute("SET client_encoding = 'LATIN1'");
  check(c.handle(), "BEGIN");
  EXPECT_THROW(box->writer().write(c.handle(), "t", "1"), error);
  check(c.handle(), "COMMIT");
}

TEST_F(PostgresRaw, NothingStaysPreparedOnACallersConnection) {
  postgres::connection c{db.connection()};
  for (int i = 0; i < 3; ++i) {
    check(c.handle(), "BEGIN");
    box->writer().write(c.handle(), "t", "1");
    check(c.handle(), "COMMIT");
  }
  auto* const r = PQexec(c.handle(), "SELECT count(*) FROM pg_prepared_statements");
  EXPECT_STREQ(PQgetvalue(r, 0, 0), "0");
  PQclear(r);
}

}  // namespace
}  // namespace outbox
