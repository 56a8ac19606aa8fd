// Other programs that use the same table on MariaDB.
#include "schema_fixture.hpp"

namespace outbox {
namespace {

class MysqlForeign : public MysqlSchema {
 protected:
  // As a program in any language inserts, with the eleven columns of the specification.
  void insert(std::string const& values) {
    db.execute("INSERT INTO " + db.table() +
               " (event_id, event_type, aggregate_type, aggregate_id, tenant_id, payload, headers, status, attempts, "
               "available_at, created_at) VALUES " +
               values);
  }
  static std::string row(std::string const& id, std::string const& available = "utc_timestamp(6)",
                         std::string const& headers = "NULL") {
    return "('" + id + "', 't', NULL, NULL, NULL, '1', " + headers + ", 0, 0, " + available + ", utc_timestamp(6))";
  }

  std::shared_ptr<outbox::store> s = db.open();
};

TEST_F(MysqlForeign, WhatPlainSqlInsertsIsDelivered) {
  insert(
      "('plain', 't', 'order', '7', 'ten', '{\"n\": 1}', '{\"k\":\"v\"}', 0, 0, utc_timestamp(6) - INTERVAL 2 SECOND, "
      "utc_timestamp(6)), ('blank', 't', NULL, NULL, NULL, '2', NULL, 0, 0, utc_timestamp(6) - INTERVAL 1 SECOND, "
      "utc_timestamp(6))");
  db.execute("INSERT INTO " + db.table() +
             " SET event_id = 'few', event_type = 't', payload = '3', available_at = utc_timestamp(), created_at = "
             "utc_timestamp()");
  EXPECT_THAT(deliver_all(s), ElementsAre("plain {\"n\": 1}", "blank 2", "few 3"));
  auto const found = s->inspect().find("plain");
  EXPECT_EQ(found->event.aggregate_type(), "order");
  EXPECT_EQ(found->event.aggregate_id(), "7");
  EXPECT_EQ(found->event.tenant(), "ten");
  EXPECT_EQ(found->event.headers().at("k"), "v");
  EXPECT_EQ(s->inspect().find("blank")->event.aggregate_type(), global_aggregate);
  EXPECT_TRUE(s->inspect().find("blank")->event.headers().empty());
}

TEST_F(MysqlForeign, ARunningNodeFindsThemWithoutBeingTold) {
  tally seen;
  multi_node_options o{.store = s, .log = nullptr};  // it polls as often as the store advises
  o.listeners.on("t", [&](delivery const& d) { seen.add(d.id); });
  auto n = multi_node(std::move(o));
  n.start();
  insert(row("a"));
  ASSERT_TRUE(seen.reach(1));
  db.execute("START TRANSACTION");
  insert(row("b"));
  db.execute("ROLLBACK");
  insert(row("c"));
  ASSERT_TRUE(seen.reach(2));
  n.stop();
  EXPECT_EQ(seen.of("b"), 0);
}

TEST_F(MysqlForeign, HeadersThatSayNothingAreNone) {
  int n = 0;
  for (std::string const headers : {"NULL", "''", "' '", "'null'", "'{}'", "' { } '", "'  null '"}) {
    insert(row("h" + std::to_string(n++), "utc_timestamp(6)", headers));
  }
  EXPECT_EQ(deliver_all(s).size(), static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) EXPECT_TRUE(s->inspect().find("h" + std::to_string(i))->event.headers().empty()) << i;
}

TEST_F(MysqlForeign, AnEmptyAggregateIsDelivered) {
  insert(
      "('type', 't', '', '7', NULL, '1', NULL, 0, 0, utc_timestamp(6) - INTERVAL 3 SECOND, utc_timestamp(6)), "
      "('id', 't', 'order', '', '', '1', NULL, 0, 0, utc_timestamp(6) - INTERVAL 2 SECOND, utc_timestamp(6)), "
      "('both', 't', '', '', NULL, '1', NULL, 0, 0, utc_timestamp(6) - INTERVAL 1 SECOND, utc_timestamp(6))");
  EXPECT_THAT(deliver_all(s), ElementsAre("type 1", "id 1", "both 1"));
  EXPECT_EQ(s->inspect().counts().done, 3U);
}

// A session that is not strict writes what is no date. Such a row is due, and it does not keep others from delivery.
TEST_F(MysqlForeign, ZeroDatesAreDueAtOnce) {
  mysql::connection c{db.url()};
  c.execute("SET sql_mode = ''");
  auto const columns =
      "INSERT INTO " + db.table() +
      " (event_id, event_type, payload, status, available_at, created_at, locked_by, locked_at) VALUES ";
  c.execute(columns + "('zero', 't', '1', 0, '0000-00-00', '0000-00-00', NULL, NULL)");
  c.execute(columns + "('wrong', 't', '1', 0, '2024-02-31', 'yesterday', NULL, NULL)");
  c.execute(columns + "('month', 't', '1', 2, '2024-00-00', utc_timestamp(6), NULL, NULL)");
  c.execute(columns + "('locked', 't', '1', 0, utc_timestamp(6), utc_timestamp(6), 'java-1', '0000-00-00')");
  c.execute(columns + "('good', 't', '1', 0, utc_timestamp(6), utc_timestamp(6), NULL, NULL)");
  EXPECT_THAT(deliver_all(s), ::testing::UnorderedElementsAre("zero 1", "wrong 1", "month 1", "locked 1", "good 1"));
  EXPECT_EQ(s->inspect().counts().done, 5U);
  c.execute(columns + "('dead', 't', '1', 3, '0000-00-00', '0000-00-00', NULL, NULL)");
  EXPECT_EQ(s->backend().purge({.retention = 0ms}), 6U);
}

TEST_F(MysqlForeign, ZeroDatesAreAdopted) {
  mysql_database other;
  mysql::connection c{other.url()};
  c.execute("SET sql_mode = ''");
  c.execute(
      "CREATE TABLE outbox_event (event_id VARCHAR(36) PRIMARY KEY, event_type VARCHAR(128) NOT NULL, payload JSON NOT "
      "NULL, status TINYINT NOT NULL, available_at DATETIME(6) NOT NULL, created_at TIMESTAMP(6) NOT NULL)");
  c.execute("INSERT INTO outbox_event VALUES ('a', 't', '1', 0, '0000-00-00', '0000-00-00')");
  EXPECT_EQ(mysql::migrate(other.url(), other.options()).change, migration::kind::adopted);
  EXPECT_THAT(deliver_all(other.open()), ElementsAre("a 1"));
}

TEST_F(MysqlForeign, LockColumnsFollowTheOwner) {
  insert(row("done", "utc_timestamp(6) - INTERVAL 4 SECOND") + ", " +
         row("retry", "utc_timestamp(6) - INTERVAL 3 SECOND") + ", " +
         row("defer", "utc_timestamp(6) - INTERVAL 2 SECOND") + ", " +
         row("dead", "utc_timestamp(6) - INTERVAL 1 SECOND"));
  auto const locks = [&] {
    return db.lines("SELECT concat_ws('|', coalesce(locked_by, '-'), locked_at IS NULL, lease_until IS NULL) FROM " +
                    db.table() + " ORDER BY seq");
  };
  EXPECT_THAT(locks(), ::testing::Each("-|1|1"));
  auto const rows = s->backend().claim({.token = "n/1", .lease = 30s}).rows;
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_THAT(locks(), ::testing::Each("n/1|0|0"));
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() +
                   " WHERE locked_at BETWEEN utc_timestamp(6) - INTERVAL 1 MINUTE AND utc_timestamp(6)"),
            "4");
  std::vector<settlement> const ends{
      {.row = rows[0].handle, .outcome = outcome::delivered},
      {.row = rows[1].handle, .outcome = outcome::retry, .counted = 1, .delay = 1h, .error = "down"},
      {.row = rows[2].handle, .outcome = outcome::defer, .delay = 2h},
      {.row = rows[3].handle, .outcome = outcome::dead, .error = "no"}};
  EXPECT_EQ(s->backend().settle(ends).applied, std::vector<bool>(4, true));
  EXPECT_THAT(locks(), ::testing::Each("-|1|1"));
  EXPECT_THAT(db.lines("SELECT concat_ws('|', event_id, status, attempts, done_at IS NULL) FROM " + db.table() +
                       " ORDER BY seq"),
              ElementsAre("done|1|0|0", "retry|2|1|1", "defer|0|0|1", "dead|3|0|0"));
}

TEST_F(MysqlForeign, I7_ARowThatAnotherProgramHasLockedIsLeftForALease) {
  insert(row("theirs") + ", " + row("free"));
  db.execute("UPDATE " + db.table() +
             " SET locked_by = 'java-1', locked_at = utc_timestamp(6) WHERE event_id = 'theirs'");
  auto const reply = s->backend().claim({.token = "n/1", .lease = 1h});
  ASSERT_EQ(reply.rows.size(), 1U);
  EXPECT_EQ(reply.rows[0].handle.id, "free");
  EXPECT_EQ(reply.foreign_owner, "java-1");
  db.execute("UPDATE " + db.table() +
             " SET locked_at = utc_timestamp(6) - INTERVAL 61 MINUTE WHERE event_id = 'theirs'");
  auto const later = s->backend().claim({.token = "n/2", .lease = 1h});
  ASSERT_EQ(later.rows.size(), 1U);
  EXPECT_EQ(later.rows[0].crashes, 0) << "a foreign lock is no crash";
}

TEST_F(MysqlForeign, ThePollQueryOfTheSpecificationReadsOurRows) {
  write_one(s, "a", {.aggregate = {"order", "7"}, .headers = {{"k", "v"}}});
  write_one(s, "none", {.deliver_after = 1h});
  EXPECT_THAT(db.lines("SELECT event_id FROM " + db.table() + " WHERE headers IS NULL"), ElementsAre("none"))
      << "not an empty object";
  db.execute("START TRANSACTION");
  EXPECT_THAT(
      db.lines("SELECT concat_ws('|', event_id, event_type, aggregate_type, aggregate_id, payload, "
               "json_unquote(json_extract(headers, '$.k')), status, attempts) FROM " +
               db.table() +
               " WHERE status IN (0, 2) AND available_at <= utc_timestamp(6) AND (locked_by IS NULL OR locked_at < "
               "utc_timestamp(6) - INTERVAL 5 MINUTE) ORDER BY created_at LIMIT 50 FOR UPDATE SKIP LOCKED"),
      ElementsAre("a|t|order|7|1|v|0|0"));
  EXPECT_THAT(s->backend().claim({.token = "n/1", .lease = 1h}).rows, IsEmpty()) << "the other one has it";
  db.execute("UPDATE " + db.table() + " SET status = 1, done_at = utc_timestamp(6) WHERE event_id = 'a'");
  db.execute("COMMIT");
  EXPECT_THAT(deliver_all(s), IsEmpty());
  EXPECT_EQ(s->inspect().counts().done, 1U);
}

// Another program finishes, puts off or deletes what a node holds: the node's settlement changes nothing.
TEST_F(MysqlForeign, WhatAnotherProgramChangesStays) {
  insert(row("done", "utc_timestamp(6) - INTERVAL 4 SECOND") + ", " +
         row("gone", "utc_timestamp(6) - INTERVAL 3 SECOND") + ", " +
         row("stolen", "utc_timestamp(6) - INTERVAL 2 SECOND") + ", " +
         row("kept", "utc_timestamp(6) - INTERVAL 1 SECOND"));
  auto const rows = s->backend().claim({.token = "n/1", .lease = 30s}).rows;
  ASSERT_EQ(rows.size(), 4U);
  db.execute("UPDATE " + db.table() + " SET status = 1 WHERE event_id = 'done'");
  db.execute("DELETE FROM " + db.table() + " WHERE event_id = 'gone'");
  db.execute("UPDATE " + db.table() + " SET locked_by = 'java-1' WHERE event_id = 'stolen'");
  std::vector<settlement> ends;
  for (auto const& r : rows) ends.push_back({.row = r.handle, .outcome = outcome::delivered});
  EXPECT_EQ(s->backend().settle(ends).applied, (std::vector<bool>{false, false, false, true}));
  EXPECT_EQ(s->inspect().find("stolen")->status, event_status::created);
}

TEST_F(MysqlForeign, UnreadableRowsAreDeadAndTheRestIsDelivered) {
  insert(row("array", "utc_timestamp(6) - INTERVAL 3 SECOND", "'[1]'") + ", " +
         row("number", "utc_timestamp(6) - INTERVAL 2 SECOND", "'{\"k\": 1}'") + ", " +
         row("half", "utc_timestamp(6) - INTERVAL 1 SECOND", "'{\"k\":'") + ", " +
         row("good", "utc_timestamp(6)", "'{}'") + ", " + row("never", "'9999-12-31 23:59:59.999999'"));
  std::vector<std::string> log;
  EXPECT_THAT(deliver_all(s,
                          [&](log_line const& line) {
                            if (line.level == log_level::error) log.push_back(line.text());
                          }),
              ElementsAre("good 1"));
  EXPECT_THAT(log, ::testing::Contains(HasSubstr("event array (t) of route 't' is DEAD: the row cannot be read: ")));
  for (auto const* const id : {"array", "number", "half"}) {
    EXPECT_EQ(s->inspect().find(id)->status, event_status::dead) << id;
  }
  EXPECT_EQ(s->inspect().find("never")->status, event_status::created);
}

// There are no triggers here that suppress a change; but one may put the old values back.
TEST_F(MysqlForeign, ARowWhoseChangeIsSuppressedIsIsolated) {
  insert(row("a", "utc_timestamp(6) - INTERVAL 3 SECOND") + ", " + row("bad", "utc_timestamp(6) - INTERVAL 2 SECOND") +
         ", " + row("b", "utc_timestamp(6) - INTERVAL 1 SECOND"));
  db.execute("CREATE TRIGGER " + db.table("put_back") + " BEFORE UPDATE ON " + db.table() +
             " FOR EACH ROW IF OLD.event_id = 'bad' THEN SET NEW.locked_by = OLD.locked_by, NEW.locked_at = "
             "OLD.locked_at, NEW.lease_until = OLD.lease_until, NEW.crashes = OLD.crashes; END IF");
  auto const reply = s->backend().claim({.token = "n/1", .lease = 30s});
  EXPECT_EQ(reply.rows.size(), 2U);
  ASSERT_EQ(reply.refused.size(), 1U);
  EXPECT_EQ(reply.refused.front().id, "bad");
  EXPECT_EQ(reply.refused.front().type, "t");
}

TEST_F(MysqlForeign, ARowWhoseChangeIsRefusedIsIsolated) {
  std::string values = row("bad", "utc_timestamp(6) - INTERVAL 1 MINUTE");
  for (int i = 0; i < 20; ++i) values += ", " + row("e" + std::to_string(i));
  insert(values);
  db.execute("CREATE TRIGGER " + db.table("refuse_it") + " BEFORE UPDATE ON " + db.table() +
             " FOR EACH ROW IF OLD.event_id = 'bad' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'it is stuck'; END "
             "IF");
  auto const reply = s->backend().claim({.token = "n/1", .lease = 30s});
  EXPECT_EQ(reply.rows.size(), 20U);
  ASSERT_EQ(reply.refused.size(), 1U);
  EXPECT_EQ(reply.refused.front().id, "bad");
  EXPECT_THAT(reply.refused.front().error, HasSubstr("it is stuck"));
}

// What a trigger does to a settlement is told too: the node must not believe that it has settled.
TEST_F(MysqlForeign, ASettlementThatIsSuppressedIsNotTakenForOne) {
  insert(row("a", "utc_timestamp(6) - INTERVAL 2 SECOND") + ", " + row("bad", "utc_timestamp(6) - INTERVAL 1 SECOND"));
  auto const rows = s->backend().claim({.token = "n/1", .lease = 30s}).rows;
  ASSERT_EQ(rows.size(), 2U);
  db.execute("CREATE TRIGGER " + db.table("refuse_it") + " BEFORE UPDATE ON " + db.table() +
             " FOR EACH ROW IF OLD.event_id = 'bad' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'it is stuck'; END "
             "IF");
  std::vector<settlement> ends;
  for (auto const& r : rows) ends.push_back({.row = r.handle, .outcome = outcome::delivered});
  EXPECT_THROW(static_cast<void>(s->backend().settle(ends)), error);
  EXPECT_EQ(s->inspect().find("a")->status, event_status::created) << "one transaction";
  EXPECT_EQ(s->backend().settle(std::span{ends}.first(1)).applied, std::vector<bool>{true}) << "the connection is fine";
}

}  // namespace
}  // namespace outbox
