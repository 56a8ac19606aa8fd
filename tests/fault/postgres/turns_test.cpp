// Claims of several nodes take turns.
#include "server_fixture.hpp"

namespace outbox {
namespace {

class PostgresTurns : public PostgresServer {
 protected:
  void SetUp() override {
    auto n = multi_node(options(db.open()));
    for (int i = 0; i < 3; ++i) write(n, "e" + std::to_string(i));
  }
  // The key of the lock: the table's identity tells it from its copies in other databases and schemas.
  std::string turn() {
    return "hashtextextended('outbox turn ' || (SELECT value || '/' || (SELECT oid FROM pg_database WHERE datname = "
           "current_database()) || '/' || tableoid FROM " +
           db.schema() + ".outbox_meta WHERE name = 'table_id'), 0)";
  }
  std::string sessions_with_turn(bool granted) {
    return db.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND " +
                  std::string{granted ? "" : "NOT "} +
                  "granted AND ((classid::bigint << 32) | objid::bigint) = " + turn());
  }
  static std::size_t claim(outbox::store& s, std::string const& token, bool in_order = false) {
    return s.backend().claim({.token = token, .limit = 1, .lease = 30s, .in_order = in_order}).rows.size();
  }

  // Remembers how each row was updated.
  void record_updates() {
    db.execute("CREATE TABLE " + db.schema() + ".seen (turns bigint, awaited text, patience text)");
    db.execute("CREATE FUNCTION " + db.schema() + ".note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO " +
               db.schema() +
               ".seen SELECT count(*), current_setting(''synchronous_commit''), current_setting(''lock_timeout'') FROM "
               "pg_locks WHERE locktype = ''advisory'' AND pid = pg_backend_pid() AND granted; RETURN NEW; END'");
    db.execute("CREATE TRIGGER note BEFORE UPDATE ON " + db.table() + " FOR EACH ROW EXECUTE FUNCTION " + db.schema() +
               ".note()");
  }
  std::string seen_so_far() {
    auto const found =
        db.ask("SELECT string_agg(turns || ' ' || awaited || ' ' || patience, ', ') FROM " + db.schema() + ".seen");
    db.execute("DELETE FROM " + db.schema() + ".seen");
    return found;
  }
};

TEST_F(PostgresTurns, AClaimHasTheTurnAndIsAwaited) {
  auto const s = db.open();
  record_updates();
  EXPECT_EQ(claim(*s, "n/1"), 1U);
  EXPECT_EQ(seen_so_far(), "1 on 0") << "the limit to the wait for the turn is not a limit to other locks";
  EXPECT_EQ(sessions_with_turn(true), "0") << "the turn ends with the claim";
  settlement const done{.row = {"e0", "n/1", 0}};
  EXPECT_TRUE(s->backend().settle(std::span{&done, 1}).applied.at(0));
  EXPECT_EQ(seen_so_far(), "0 on 0");
}

TEST_F(PostgresTurns, AClaimWaitsForTheTurnOfAnotherOne) {
  postgres::connection other{db.connection()};
  bool waited = false;
  for (int attempt = 0; attempt < 20 && !waited; ++attempt) {  // it waits a short time only: the test may be late
    other.execute("BEGIN");
    other.execute("SELECT pg_advisory_xact_lock(" + turn() + ")");
    std::atomic<bool> over = false;
    std::jthread const claims{[&] {
      auto const s = db.open();  // one that has not missed a turn
      EXPECT_EQ(s->backend().claim({.token = "n/" + std::to_string(attempt), .lease = 0ms}).rows.size(), 3U);
      over = true;
    }};
    while (!waited && !over) waited = sessions_with_turn(false) != "0";
    other.execute("COMMIT");
  }
  EXPECT_TRUE(waited);
}

// It may be stopped, or its network silent.
TEST_F(PostgresTurns, ANodeThatStandsStillInItsClaimDoesNotHoldUpTheOthers) {
  auto const s = db.open();
  postgres::connection stopped{db.connection()};
  stopped.execute("BEGIN");
  stopped.execute("SELECT pg_advisory_xact_lock(" + turn() + ")");
  record_updates();
  EXPECT_EQ(claim(*s, "n/1"), 1U);
  EXPECT_EQ(claim(*s, "n/2"), 1U);
  EXPECT_EQ(seen_so_far(), "0 on 0, 0 on 0");
  stopped.execute("ROLLBACK");
  EXPECT_EQ(claim(*s, "n/3"), 1U);
  EXPECT_EQ(claim(*s, "n/4"), 0U);
}

TEST_F(PostgresTurns, ClaimsInOrderNeedNone) {
  ASSERT_TRUE(earlier_transactions_end());
  auto const s = db.open();
  record_updates();
  EXPECT_EQ(claim(*s, "n/1", true), 1U);
  EXPECT_EQ(seen_so_far(), "0 on 0") << "only the holder of the dispatch lock claims in order";
}

}  // namespace
}  // namespace outbox
