// Other programs that use the same table on PostgreSQL.
#include "schema_fixture.hpp"

namespace outbox {
namespace {

// A writer in any language, and a reader in any language.
TEST_F(PostgresSchema, WhatPsqlInsertsIsDelivered) {
  auto const s = db.open();
  psql("INSERT INTO " + db.table() +
       " (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, "
       "available_at, created_at) VALUES ('plain', 't', 'order', '7', NULL, '{\"n\": 1}', NULL, 0, 0, now(), now()), "
       "('blank', 't', NULL, NULL, NULL, '2', 'null', 0, 0, now(), now());");
  EXPECT_THAT(deliver_all(s), ElementsAre("plain {\"n\": 1}", "blank 2"));
  EXPECT_EQ(s->inspect().find("blank")->event.aggregate_type(), global_aggregate);
  EXPECT_TRUE(s->inspect().find("blank")->event.headers().empty());
}

TEST_F(PostgresSchema, LockColumnsFollowTheOwner) {
  auto const s = db.open();
  psql("INSERT INTO " + db.table() +
       " (event_id, event_type, payload, status, available_at, created_at) VALUES ('done', 't', '1', 0, now() - "
       "interval '4 s', now()), ('retry', 't', '1', 0, now() - interval '3 s', now()), ('defer', 't', '1', 0, now() - "
       "interval '2 s', now()), ('dead', 't', '1', 0, now() - interval '1 s', now());");
  auto const locks = [&] {
    return psql("SELECT coalesce(locked_by, '-'), locked_at IS NULL, lease_until IS NULL FROM " + db.table() +
                " ORDER BY available_at;");
  };
  EXPECT_EQ(locks(), "-|t|t\n-|t|t\n-|t|t\n-|t|t\n");
  auto const rows = s->backend().claim({.token = "n/1", .lease = 30s}).rows;
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(locks(), "n/1|f|f\nn/1|f|f\nn/1|f|f\nn/1|f|f\n");
  EXPECT_EQ(psql("SELECT count(*) FROM " + db.table() + " WHERE locked_at BETWEEN now() - interval '1 min' AND now();"),
            "4\n");
  std::vector<settlement> const ends{
      {.row = rows[0].handle, .outcome = outcome::delivered},
      {.row = rows[1].handle, .outcome = outcome::retry, .counted = 1, .delay = 1h, .error = "down"},
      {.row = rows[2].handle, .outcome = outcome::defer, .delay = 2h},
      {.row = rows[3].handle, .outcome = outcome::dead, .error = "no"}};
  EXPECT_EQ(s->backend().settle(ends).applied, std::vector<bool>(4, true));
  EXPECT_EQ(locks(), "-|t|t\n-|t|t\n-|t|t\n-|t|t\n");
}

TEST_F(PostgresSchema, ThePollQueryOfTheSpecificationReadsOurRows) {
  auto const s = db.open();
  auto n = multi_node({.store = s, .log = nullptr});
  postgres::connection c{db.connection()};
  postgres::transaction tx{c};
  n.writer().write(tx, "t", "{\"n\":1}", {.id = "a", .aggregate = {"order", "7"}, .headers = {{"k", "v"}}});
  n.writer().write(tx, "u", "1", {.id = "none", .deliver_after = 1h});
  tx.commit();
  EXPECT_EQ(psql("SELECT event_id FROM " + db.table() + " WHERE headers IS NULL;"), "none\n") << "not an empty object";
  EXPECT_EQ(
      psql("SELECT event_id, event_type, aggregate_type, aggregate_id, payload, headers->>'k', status, attempts FROM " +
           db.table() +
           " WHERE status IN (0, 2) AND available_at <= now() AND (locked_by IS NULL OR locked_at < now() - interval "
           "'5 minutes') ORDER BY created_at LIMIT 50 FOR UPDATE SKIP LOCKED;"),
      "a|t|order|7|{\"n\":1}|v|0|0\n");
}

TEST_F(PostgresSchema, UnreadableRowsAreDeadAndTheRestIsDelivered) {
  auto const s = db.open();
  psql("INSERT INTO " + db.table() +
       " (event_id, event_type, payload, headers, status, available_at, created_at) VALUES "
       "('bad', 't', '1', '[1]', 0, now() - interval '1 s', now()), ('good', 't', '1', '{}', 0, now(), now()), "
       "('never', 't', '1', NULL, 0, 'infinity', now());");
  std::vector<std::string> log;
  EXPECT_THAT(deliver_all(s,
                          [&](log_line const& line) {
                            if (line.level == log_level::error) log.push_back(line.text());
                          }),
              ElementsAre("good 1"));
  EXPECT_THAT(log, ElementsAre(HasSubstr("event bad (t) of route 't' is DEAD: the row cannot be read: ")));
  EXPECT_EQ(s->inspect().find("bad")->status, event_status::dead);
  EXPECT_EQ(s->inspect().find("never")->status, event_status::created);
}

TEST_F(PostgresSchema, ARowWhoseChangeIsSuppressedIsIsolated) {
  auto const s = db.open();
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at) SELECT id, 't', '1', 0, now(), now() "
             "FROM unnest(ARRAY['a', 'bad', 'b']) id");
  db.execute("CREATE FUNCTION " + db.schema() +
             ".ignore() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$");
  db.execute("CREATE TRIGGER ignore BEFORE UPDATE ON " + db.table() +
             " FOR EACH ROW WHEN (OLD.event_id = 'bad') EXECUTE FUNCTION " + db.schema() + ".ignore()");
  auto const reply = s->backend().claim({.token = "n/1", .lease = 30s});
  EXPECT_EQ(reply.rows.size(), 2U);
  ASSERT_EQ(reply.refused.size(), 1U);
  EXPECT_EQ(reply.refused.front().id, "bad");
}

}  // namespace
}  // namespace outbox
