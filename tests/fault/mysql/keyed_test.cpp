// The order of keys among several sessions, step by step: where a note, a settlement and a renewal meet.
#include <future>

#include "mysql/key_statements.hpp"
#include "server_fixture.hpp"

namespace outbox {
namespace {

class MysqlKeyed : public MysqlServer {
 protected:
  void SetUp() override {
    auto o = db.options();
    o.timeout = 2s;  // a wait that must not be fails soon
    store = mysql::open(db.url(), o);
    store->backend().set_keyed(true);
    for (auto* const s : {&one, &two}) {
      s->execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
      s->execute("SET SESSION innodb_lock_wait_timeout = 2");
      s->execute("SET SESSION group_concat_max_len = 1048576");
    }
  }
  // Rows of one key that have been due for long, in this order.
  void put(std::string const& key, std::initializer_list<char const*> ids) {
    for (auto const* id : ids) {
      db.execute("INSERT INTO " + db.table() +
                     " (event_id, event_type, payload, available_at, created_at, ordering_key) VALUES (?, 't', '1', "
                     "utc_timestamp(6) - INTERVAL 1 MINUTE, utc_timestamp(6), ?)",
                 std::string{id}, key);
    }
  }
  claim_reply claim(std::string const& token, std::size_t limit = 100) {
    return store->backend().claim({.token = token, .limit = limit, .lease = 30s, .keyed = true});
  }
  settle_reply deliver(std::vector<claimed_row> const& rows) {
    std::vector<settlement> items;
    for (auto const& r : rows) items.push_back({.row = r.handle, .key = r.key, .seq = r.seq});
    return store->backend().settle(items);
  }
  static std::vector<std::string> ids(claim_reply const& r) {
    std::vector<std::string> all;
    for (auto const& row : r.rows) all.push_back(row.event.id());
    return all;
  }
  std::string blocked(std::string const& id) {
    return db.ask("SELECT blocked FROM " + db.table() + " WHERE event_id = ?", id);
  }
  void run(mysql::connection& on, std::string sql) {
    auto const at = sql.find("TABLE ");
    if (at != std::string::npos) sql.replace(at, 5, db.table());
    on.execute(sql);
  }
  // The statements of a note about `row`, which waits for `before`.
  std::vector<std::string> note_of(std::string const& row, std::string const& before) {
    auto const number = [&](std::string const& id) {
      return db.ask("SELECT seq FROM " + db.table() + " WHERE event_id = ?", id);
    };
    auto text = mysql::statements_for_keys({.table = "outbox_event", .schema = db.database(), .quote = '`'},
                                           "utf8mb4_nopad_bin", true)
                    .note;
    auto const due = db.ask("SELECT due_at FROM " + db.table() + " WHERE event_id = ?", row);
    text.replace(text.find("[rows]"), 6, "'[[" + number(row) + "," + number(before) + ",\"" + due + "\"]]'");
    std::vector<std::string> all;
    for (auto end = text.find("; "); end != std::string::npos; end = text.find("; ")) {
      all.push_back(text.substr(0, end));
      text.erase(0, end + 2);
    }
    all.push_back(text);
    return all;
  }
  // A change of a row for which `condition` is true waits until the lock of the gate is free.
  [[nodiscard]] std::string gate() const { return db.database() + ".gate"; }
  void make_gate(std::string const& condition) {
    db.execute("CREATE TRIGGER " + db.table("gate") + " BEFORE UPDATE ON " + db.table() + " FOR EACH ROW BEGIN IF " +
               condition + " THEN DO get_lock('" + gate() + "', 60); DO release_lock('" + gate() + "'); END IF; END");
  }
  bool a_session_is_at_the_gate() {
    return eventually([&] {
      return db.ask("SELECT count(*) FROM information_schema.processlist WHERE db = ? AND state = 'User lock'",
                    db.database()) == "1";
    });
  }
  // True when a transaction waits for a lock.
  bool a_transaction_waits() {
    return eventually([&] {
      return db.ask(
                 "SELECT variable_value FROM information_schema.global_status WHERE variable_name = "
                 "'INNODB_ROW_LOCK_CURRENT_WAITS'") != "0";
    });
  }

  std::shared_ptr<outbox::store> store;
  mysql::connection one{db.url()};
  mysql::connection two{db.url()};
};

// The settlement has looked at what is behind its row before the note, and nothing looks after it.
TEST_F(MysqlKeyed, ANoteLeavesARowWhoseForerunnerIsBeingSettled) {
  put("k", {"a", "b"});
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  run(one, "START TRANSACTION");
  run(one, "UPDATE TABLE SET status = 1, locked_by = NULL, lease_until = NULL WHERE event_id = 'a'");
  auto const reply = claim("n/2");
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_EQ(reply.noted, 0U);
  ASSERT_TRUE(reply.next_due);
  EXPECT_LT(*reply.next_due - reply.now, 1s) << "the end of the settlement is near";
  EXPECT_EQ(blocked("b"), "0");
  run(one, "COMMIT");
  EXPECT_THAT(ids(claim("n/3")), ElementsAre("b"));
}

// What a note without that lock would do.
TEST_F(MysqlKeyed, WithoutTheLockOfTheRowBeforeAKeyWouldStop) {
  put("k", {"a", "b"});
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  run(one, "START TRANSACTION");
  run(one, "UPDATE TABLE SET status = 1, locked_by = NULL, lease_until = NULL WHERE event_id = 'a'");
  run(two, "UPDATE TABLE SET blocked = 1 WHERE event_id = 'b'");  // it sees that a is in line
  run(one, "COMMIT");
  EXPECT_THAT(claim("n/2").rows, IsEmpty());
  EXPECT_EQ(store->backend().heal(10), 1U);
  EXPECT_THAT(ids(claim("n/3")), ElementsAre("b"));
}

// The settlement waits for the note, and its next statement sees it.
TEST_F(MysqlKeyed, ASettlementThatComesAfterTheNoteUnblocksTheRow) {
  put("k", {"a", "b"});
  auto const held = claim("n/1", 1).rows;
  ASSERT_EQ(held.size(), 1U);
  auto const note = note_of("b", "a");
  for (std::size_t i = 0; i + 1 < note.size(); ++i) one.execute(note[i]);
  auto settled = std::async(std::launch::async, [&] { return deliver(held); });
  ASSERT_TRUE(a_transaction_waits());
  one.execute(note.back());
  auto const reply = settled.get();
  EXPECT_THAT(reply.applied, ElementsAre(true));
  EXPECT_EQ(reply.unblocked, 1U);
  EXPECT_EQ(blocked("b"), "0");
}

// Two rows of a key are finished by two transactions. The row before c is b, whichever row is at the head.
TEST_F(MysqlKeyed, TwoFinishersOfAKeyLoseNoWakeUp) {
  put("k", {"a", "b", "c"});
  auto const held = claim("n/1", 2).rows;
  ASSERT_EQ(held.size(), 2U);
  run(two, "START TRANSACTION");
  run(two, "UPDATE TABLE SET status = 1, locked_by = NULL, lease_until = NULL WHERE event_id = 'b'");
  EXPECT_EQ(claim("n/2").noted, 0U) << "the lock of a would be free";
  EXPECT_EQ(deliver({held[0]}).unblocked, 0U);
  run(two, "COMMIT");
  EXPECT_THAT(ids(claim("n/3")), ElementsAre("c"));
}

TEST_F(MysqlKeyed, WithTheLockOfTheHeadAKeyWouldStop) {
  put("k", {"a", "b", "c"});
  auto const held = claim("n/1", 2).rows;
  ASSERT_EQ(held.size(), 2U);
  run(two, "START TRANSACTION");
  run(two, "UPDATE TABLE SET status = 1, locked_by = NULL, lease_until = NULL WHERE event_id = 'b'");
  run(one, "START TRANSACTION");
  run(one, "SELECT seq FROM TABLE WHERE event_id = 'a' FOR UPDATE SKIP LOCKED");
  run(one, "UPDATE TABLE SET blocked = 1 WHERE event_id = 'c'");
  run(one, "COMMIT");
  EXPECT_EQ(deliver({held[0]}).unblocked, 0U) << "the row behind it is still b";
  run(two, "COMMIT");
  EXPECT_THAT(claim("n/2").rows, IsEmpty());
  EXPECT_EQ(blocked("c"), "1");
}

// An operator has cancelled b, which parks its key, and discards it while a, b and c are settled: neither sees what the
// other has not committed. So many rows of a claim are settled by their numbers, which leaves no lock on b.
TEST_F(MysqlKeyed, I5_WhatWaitsBehindEachOfSeveralIsUnblockedIfOneBetweenThemIsLost) {
  store = db.open();  // its statements may take long
  put("k", {"a", "b", "c"});
  for (int i = 0; i < 30; ++i) {
    auto const name = "other" + std::to_string(i);
    put(name, {name.c_str()});
  }
  put("k", {"d"});
  auto const held = claim("n/1", 33).rows;
  ASSERT_EQ(held.size(), 33U);
  ASSERT_EQ(claim("n/2").noted, 1U);
  ASSERT_EQ(store->backend().cancel({.ids = {"b"}}, "on purpose", 1), 1U);
  // Only the second try, which knows that a row was lost, waits before its look.
  make_gate("NEW.event_id = 'c' AND NEW.status = 1 AND (@tries := coalesce(@tries, 0) + 1) = 2");
  one.execute("DO get_lock('" + gate() + "', 0)");
  auto settled = std::async(std::launch::async, [&] { return deliver(held); });
  ASSERT_TRUE(a_session_is_at_the_gate());
  run(two, "START TRANSACTION");
  run(two, "UPDATE TABLE SET blocked = NULL WHERE event_id = 'b'");
  ASSERT_THAT(two.query<std::string>("SELECT event_id FROM " + db.table() +
                                     " WHERE ordering_key = 'k' AND status <> 1 AND blocked IS NOT NULL ORDER BY seq"),
              ElementsAre("a", "c", "d"))
      << "the discard sees c in line behind b, so it unblocks nothing";
  one.execute("DO release_lock('" + gate() + "')");
  auto const reply = settled.get();
  run(two, "COMMIT");
  EXPECT_EQ(std::ranges::count(reply.applied, true), 32);
  EXPECT_EQ(reply.unblocked, 1U);
  EXPECT_EQ(blocked("d"), "0");
  EXPECT_THAT(ids(claim("n/3")), ElementsAre("d"));
}

// Behind each of those that have left, the next row is the same.
TEST_F(MysqlKeyed, ARowThatWaitsBehindSeveralIsUnblockedOnce) {
  put("k", {"a", "b", "c", "d"});
  auto const held = claim("n/1", 3).rows;
  ASSERT_EQ(held.size(), 3U);
  ASSERT_EQ(claim("n/2").noted, 1U);
  db.execute("UPDATE " + db.table() + " SET locked_by = 'n/9' WHERE event_id = 'c'");
  auto const reply = deliver(held);
  EXPECT_THAT(reply.applied, ElementsAre(true, true, false));
  EXPECT_EQ(reply.unblocked, 0U) << "c is in line";
  db.execute("UPDATE " + db.table() + " SET status = 1, locked_by = NULL WHERE event_id = 'c'");
  db.execute("UPDATE " + db.table() + " SET status = 0, locked_by = 'n/1' WHERE event_id IN ('a', 'b')");
  EXPECT_EQ(deliver(held).unblocked, 1U);
  EXPECT_EQ(blocked("d"), "0");
}

// A settlement that was lost has left nothing: what waits behind its row still does.
TEST_F(MysqlKeyed, ASettlementThatWasLostUnblocksNothing) {
  put("k", {"a", "b"});
  auto const held = claim("n/1", 1).rows;
  ASSERT_EQ(held.size(), 1U);
  ASSERT_EQ(claim("n/2").noted, 1U);
  db.execute("UPDATE " + db.table() + " SET locked_by = 'n/9' WHERE event_id = 'a'");
  auto const reply = deliver(held);
  EXPECT_THAT(reply.applied, ElementsAre(false));
  EXPECT_EQ(reply.unblocked, 0U);
  EXPECT_EQ(blocked("b"), "1");
}

// A node stood still between its question which rows it may note and the note, and the mark was removed meanwhile.
TEST_F(MysqlKeyed, I5_ANoteWithoutTheMarkBlocksNothing) {
  put("k", {"a", "b"});
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  auto const note = note_of("b", "a");
  store->backend().set_keyed(false);
  for (auto const& sql : note) one.execute(sql);
  EXPECT_EQ(blocked("b"), "0");
  store->backend().set_keyed(true);
  for (auto const& sql : note) one.execute(sql);
  EXPECT_EQ(blocked("b"), "1");
}

// Nor does a change of the mark hold up a note.
TEST_F(MysqlKeyed, ANoteDoesNotHoldUpAChangeOfTheMark) {
  auto const remove = "UPDATE " + db.table("outbox_meta") + " SET value = '0' WHERE name = 'keyed'";
  for (auto const flavour : {mysql::flavour::detect, mysql::flavour::mysql}) {
    db.execute("DELETE FROM " + db.table());
    auto o = db.options();
    o.flavour = flavour;
    store = mysql::open(db.url(), o);
    store->backend().set_keyed(true);
    put("k", {"a", "b"});
    ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
    make_gate("NEW.event_id = 'b' AND NEW.blocked = 1");
    one.execute("DO get_lock('" + gate() + "', 0)");
    auto noted = std::async(std::launch::async, [&] { return claim("n/2").noted; });
    ASSERT_TRUE(a_session_is_at_the_gate());
    run(two, "START TRANSACTION");
    EXPECT_NO_THROW(two.execute(remove)) << "the note is open";
    run(two, "ROLLBACK");
    one.execute("DO release_lock('" + gate() + "')");
    EXPECT_EQ(noted.get(), 1U);
    db.execute("DROP TRIGGER " + db.table("gate"));
    db.execute("UPDATE " + db.table() + " SET blocked = 0 WHERE event_id = 'b'");
    run(two, "START TRANSACTION");
    two.execute(remove);
    EXPECT_EQ(claim("n/3").noted, 1U) << "the change is open";
    run(two, "ROLLBACK");
  }
}

// A renewal locks rows by their ids, and the next row of the key may have the lower one.
TEST_F(MysqlKeyed, ASettlementDoesNotTouchANextRowThatIsNotBlocked) {
  put("k", {"z", "b"});
  auto const held = claim("n/1").rows;
  ASSERT_EQ(held.size(), 2U);
  run(one, "START TRANSACTION");
  run(one, "SELECT seq FROM TABLE WHERE event_id = 'b' FOR UPDATE");
  EXPECT_THAT(deliver({held[0]}).applied, ElementsAre(true));
  run(one, "SELECT seq FROM TABLE WHERE event_id = 'z' FOR UPDATE");
  run(one, "COMMIT");
}

// The same with a settlement that clears the next row whatever it is.
TEST_F(MysqlKeyed, ClearingANextRowThatIsNotBlockedWouldDeadlock) {
  put("k", {"z", "b"});
  run(one, "START TRANSACTION");
  run(one, "SELECT seq FROM TABLE WHERE event_id = 'b' FOR UPDATE");
  run(two, "START TRANSACTION");
  run(two, "UPDATE TABLE SET status = 1 WHERE event_id = 'z'");
  auto cleared = std::async(std::launch::async, [&]() -> std::string {
    try {
      run(two, "UPDATE TABLE SET blocked = 0 WHERE event_id = 'b'");
    } catch (error const& e) {
      return std::string{e.sqlstate()};
    }
    return {};
  });
  ASSERT_TRUE(a_transaction_waits());
  std::string renewed;
  try {
    run(one, "SELECT seq FROM TABLE WHERE event_id = 'z' FOR UPDATE");
  } catch (error const& e) {
    renewed = e.sqlstate();
  }
  EXPECT_EQ(cleared.get() + renewed, "40001") << "one of the two";
  run(one, "ROLLBACK");
  run(two, "ROLLBACK");
}

// A claim that has skipped a row keeps the lock of its place in the index of due rows until it ends, and it ends when
// its node answers.
TEST_F(MysqlKeyed, ANoteDoesNotWaitForAClaimThatIsOpen) {
  put("k", {"a", "b"});
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  auto const note = note_of("b", "a");
  ASSERT_EQ(note.size(), 4U);
  one.execute(note[0]);
  one.execute(note[1]);
  run(two, "START TRANSACTION");
  run(two,
      "SELECT seq FROM TABLE FORCE INDEX (outbox_event_due) WHERE due_at <= utc_timestamp(6) ORDER BY due_at, seq "
      "LIMIT 10 FOR UPDATE "
      "SKIP LOCKED");
  one.execute(note[2]);
  one.execute(note[3]);
  run(two, "COMMIT");
  EXPECT_EQ(blocked("b"), "1");
}

TEST_F(MysqlKeyed, ANoteThatIsOpenHoldsUpNoOtherKey) {
  put("k", {"a", "b"});
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  auto const note = note_of("b", "a");
  for (std::size_t i = 0; i + 1 < note.size(); ++i) one.execute(note[i]);
  put("l", {"x", "y"});
  auto const reply = claim("n/2");
  EXPECT_THAT(ids(reply), ElementsAre("x", "y"));
  put("k", {"c"});
  EXPECT_THAT(deliver(reply.rows).applied, ElementsAre(true, true));
  one.execute(note.back());
}

// If a trigger refuses one row, the others are noted, and no lock is left.
TEST_F(MysqlKeyed, ANoteThatFailsLeavesNoLock) {
  for (auto const flavour : {mysql::flavour::detect, mysql::flavour::mysql}) {
    db.execute("DELETE FROM " + db.table());
    auto o = db.options();
    o.flavour = flavour;
    store = mysql::open(db.url(), o);
    store->backend().set_keyed(true);
    put("k", {"a", "b", "c"});
    auto const held = claim("n/1", 1).rows;
    ASSERT_EQ(held.size(), 1U);
    db.execute("CREATE TRIGGER " + db.database() + ".refuse BEFORE UPDATE ON " + db.table() +
               " FOR EACH ROW BEGIN IF NEW.event_id = 'b' AND NEW.blocked = 1 THEN SIGNAL SQLSTATE '45000' SET "
               "MESSAGE_TEXT = 'no'; END IF; END");
    auto const reply = claim("n/2");
    EXPECT_EQ(reply.noted, 1U);
    ASSERT_EQ(reply.refused.size(), 1U);
    EXPECT_EQ(reply.refused[0].id, "b");
    EXPECT_EQ(blocked("c"), "1");
    EXPECT_NO_THROW(run(one, "SELECT seq FROM TABLE FOR UPDATE NOWAIT"));
    EXPECT_THAT(deliver(held).applied, ElementsAre(true));
    db.execute("DROP TRIGGER " + db.database() + ".refuse");
  }
}

TEST_F(MysqlKeyed, RowsBehindAGapAreNotedEach) {
  put("k", {"a", "b", "c", "d", "e", "f"});
  auto const all = claim("n/1").rows;
  ASSERT_EQ(all.size(), 6U);
  // b, d and f are free, each behind one that is held.
  for (auto const i : {1U, 3U, 5U}) {
    settlement const s{.row = all[i].handle, .outcome = outcome::release};
    ASSERT_THAT(store->backend().settle(std::span{&s, 1}).applied, ElementsAre(true));
  }
  auto const reply = claim("n/2");
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_EQ(reply.noted, 3U);
  EXPECT_EQ(deliver({all[4]}).unblocked, 1U);
  EXPECT_EQ(blocked("f"), "0");
  EXPECT_EQ(blocked("d"), "1");
}

TEST_F(MysqlKeyed, TheIndexIsMadeOnDemand) {
  mysql_database other;
  auto const s = other.open();
  EXPECT_FALSE(mysql::open(other.url(), other.options())->backend().settings().keyed);
  EXPECT_EQ(other.ask("SELECT count(*) FROM information_schema.columns WHERE table_schema = ? AND column_name = "
                      "'key_in_line'",
                      other.database()),
            "0")
      << "only a keyed node needs it";
  mysql::options o = other.options();
  o.keyed = true;
  EXPECT_EQ(mysql::migrate(other.url(), o).change, migration::kind::indexed);
  EXPECT_EQ(mysql::migrate(other.url(), o).change, migration::kind::nothing);
  // An ALTER that ended after its first step.
  other.execute("ALTER TABLE " + other.table() + " DROP INDEX outbox_event_keyed");
  EXPECT_EQ(mysql::migrate(other.url(), o).change, migration::kind::indexed);
  other.execute("ALTER TABLE " + other.table() + " DROP INDEX outbox_event_keyed");
  o.migrate = false;
  auto const e = thrown_by([&] { mysql::open(other.url(), o)->backend().set_keyed(true); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(std::string{e.what()}, HasSubstr("outbox_event_keyed"));
}

// Another node made it, and marked the table, after this store was opened.
TEST_F(MysqlKeyed, AStoreThatWasOpenedBeforeUsesItOnceItsNodeHasStarted) {
  mysql_database other;
  auto const mine = other.open();
  other.open()->backend().set_keyed(true);
  auto o = keyed_options{.store = mine, .log = nullptr};
  o.poll.every = 1h;
  auto box = keyed(std::move(o));
  box.start();
  other.execute("INSERT INTO " + other.table() +
                " (event_id, event_type, payload, available_at, created_at, ordering_key, locked_by, lease_until) "
                "SELECT concat('e', seq), 't', '1', utc_timestamp(6), utc_timestamp(6), concat('k', seq), 'other/1', "
                "utc_timestamp(6) + INTERVAL 1 HOUR FROM seq_1_to_2000");
  auto const rows_read = [&] {
    return std::stoll(other.ask(
        "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Handler_read_rnd_next'"));
  };
  std::vector<std::string> const id{"e1000"};
  auto const before = rows_read();
  static_cast<void>(mine->backend().places(id));
  EXPECT_LT(rows_read() - before, 1000) << "without the index it would read the whole table";
}

// Where several servers take writes, each draws numbers of its own.
TEST(MysqlKeyedSettings, ANodeWarnsIfTheServerLeavesOutNumbers) {
  mysql_server server{{.settings = {"auto-increment-increment=2"}}};
  mysql_database other{server};
  std::vector<std::string> said;
  auto o = other.options();
  o.log = [&](log_line const& line) { said.push_back(line.text()); };
  auto const s = mysql::open(other.url(), o);
  s->backend().prepare_for_keys();
  EXPECT_THAT(said, ::testing::Contains(HasSubstr("auto_increment_increment = 2")));
  said.clear();
  other.execute("SET GLOBAL auto_increment_increment = 1");
  s->backend().prepare_for_keys();
  EXPECT_THAT(said, ::testing::Not(::testing::Contains(HasSubstr("auto_increment_increment"))));
}

// A table whose column was made by hand as schema/mysql/keyed.sql says it has the key that the nodes compute.
TEST_F(MysqlKeyed, TheColumnHasTheKeyOfTheEvent) {
  struct written {
    aggregate about;
    std::string ordering_key;
  };
  int i = 0;
  for (auto const& w : {written{{"order", "1"}, ""}, written{{"", ""}, "k"}, written{{"\xC3\xA4:b", "c "}, ""},
                        written{{"", "7"}, ""}, written{{"a", "1"}, "=x"}}) {
    auto const e =
        event::json("t", "1", {.id = "e" + std::to_string(++i), .aggregate = w.about, .ordering_key = w.ordering_key});
    insertion const row{&e};
    mysql::transaction tx{caller};
    store->backend().insert(transaction_traits<mysql::transaction>::join(tx), std::span{&row, 1}, nullptr);
    tx.commit();
    EXPECT_EQ(db.ask("SELECT key_in_line FROM " + db.table() + " WHERE event_id = ?", std::string{e.id()}),
              spi::key_of(e));
  }
}

}  // namespace
}  // namespace outbox
