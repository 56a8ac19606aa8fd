// The plans of claims and purges: which index they use.
#include "postgres/own_connection.hpp"
#include "postgres/statements.hpp"
#include "server_fixture.hpp"

namespace outbox {
namespace {

// What a claim costs depends on nothing else in the table, also with a plan that knows no parameters.
TEST_F(PostgresServer, ClaimsUseTheIndexOfWhatIsDue) {
  auto const s = db.open();
  auto const fill = [&](int status, char const* due, int rows) {
    db.execute(
        "INSERT INTO " + db.table() +
            " (event_id, event_type, payload, status, available_at, created_at, done_at) SELECT $1::int || '-' || "
            "i, 't', '1', $1::int, now() + $2::interval, now(), CASE WHEN $1::int IN (1, 3) THEN now() END FROM "
            "generate_series(1, $3::int) i",
        status, due, rows);
  };
  fill(1, "0", 30'000);
  fill(0, "1 day", 10'000);
  fill(2, "-1 s", 1'000);
  auto const sql = postgres::set_statements({.schema = db.schema()}, done_rows::keep);
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
      EXPECT_THAT(due, HasSubstr("outbox_event_ready"));
      EXPECT_THAT(due, HasSubstr("Index Cond")) << from;
      EXPECT_THAT(due, ::testing::Not(HasSubstr("\"Sort\"")));
      EXPECT_THAT(due, ::testing::Not(HasSubstr("Seq Scan")));
    }
    EXPECT_THAT(plan("ahead"), HasSubstr("outbox_event_ready"));
    auto const beside = plan("beside('{a}', '{}')");
    EXPECT_THAT(beside, HasSubstr("outbox_event_ready"));
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
  auto const sql = postgres::shared_statements({.schema = db.schema()});
  for (bool const pooled : {false, true}) {
    db.execute("DISCARD ALL");
    db.execute("SET plan_cache_mode = force_generic_plan");
    for (auto const setting : postgres::plan_settings)
      if (!pooled) db.execute("SET " + std::string{setting});
    db.execute("PREPARE purge AS " + sql.purge);
    auto const plan = db.lines("EXPLAIN EXECUTE purge(1, 1, 0, 500)");
    EXPECT_THAT(plan, ::testing::Contains(HasSubstr("Index Cond: (done_at <= ")));
    EXPECT_THAT(plan, ::testing::Contains(HasSubstr("Index Cond: (done_at IS NULL)")));
    EXPECT_THAT(plan, ::testing::Each(::testing::Not(HasSubstr("Seq Scan"))));
  }
  EXPECT_EQ(s->backend().purge({.retention = 0s, .limit = 500}), 500U);
}

// What an operator looks at costs the same on a large table.
TEST_F(PostgresServer, AnOverviewAndTheNewestRowsComeFromIndexes) {
  auto o = db.options();
  o.keyed = true;  // on a table without an index of keys, the server plans a scan that it never makes
  auto const s = postgres::open(db.connection(), o);
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at, done_at) SELECT 'e' || i, 't', '1', "
             "i % 4, now(), now(), CASE WHEN i % 2 = 1 THEN now() END FROM generate_series(1, 20000) i");
  db.execute("ANALYZE " + db.table());
  db.execute("SET plan_cache_mode = force_generic_plan");
  for (auto const setting : postgres::plan_settings) db.execute("SET " + std::string{setting});
  auto const sql = postgres::shared_statements({.schema = db.schema()});
  db.execute("PREPARE overview AS " + sql.overview);
  auto const plan = db.ask("EXPLAIN (FORMAT JSON) EXECUTE overview(100, 0, -60000000)");
  for (auto const* const index : {"outbox_event_ready", "outbox_event_ended", "outbox_event_dead"}) {
    EXPECT_THAT(plan, HasSubstr(index));
  }
  EXPECT_THAT(plan, ::testing::Not(HasSubstr("Seq Scan")));
  EXPECT_THAT(plan, ::testing::Not(HasSubstr("\"Sort\"")));
  auto newest = sql.filter.newest;
  for (auto at = newest.find("[?]"); at != std::string::npos; at = newest.find("[?]")) newest.replace(at, 3, "50");
  auto const list = db.ask("EXPLAIN (FORMAT JSON) SELECT event_id FROM " + db.table() + " WHERE " + newest);
  EXPECT_THAT(list, HasSubstr("Tid Scan"));
  EXPECT_THAT(list, HasSubstr("outbox_event_ready"));
  EXPECT_THAT(list, HasSubstr("outbox_event_ended"));
  EXPECT_THAT(list, ::testing::Not(HasSubstr("Seq Scan")));
  EXPECT_EQ(s->backend().overview(100).pending, 100U);
  EXPECT_EQ(s->backend().count({.newest = 50}, 1000), 100U) << "so many of each kind";
}

// With its index if there is one. Only without it does the store log a warning, once there is a backlog.
TEST_F(PostgresServer, ClaimsInOrderUseTheirIndex) {
  std::vector<std::string> said;
  auto o = db.options();
  o.log = [&](log_line const& line) { said.push_back(line.text()); };
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
  auto const sql = postgres::set_statements({.schema = db.schema()}, done_rows::keep);
  db.execute("PREPARE in_order AS " + sql.in_order);
  db.execute("PREPARE due AS " + sql.due);
  auto const plan = db.ask("EXPLAIN (FORMAT JSON) EXECUTE in_order(51, '{}', '{}')");
  EXPECT_THAT(plan, HasSubstr("outbox_event_in_order"));
  EXPECT_THAT(plan, ::testing::Not(HasSubstr("\"Sort\"")));
  EXPECT_THAT(db.ask("EXPLAIN (FORMAT JSON) EXECUTE due(51, 0, 0, '{}', '{}', 0, NULL, '{}', NULL)"),
              HasSubstr("outbox_event_ready"));
}

}  // namespace
}  // namespace outbox
