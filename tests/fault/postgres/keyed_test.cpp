// Order per key on a PostgreSQL server: what two sessions do to each other step by step, and which plans there are.
#include "postgres/own_connection.hpp"
#include "postgres/statements.hpp"
#include "server_fixture.hpp"

namespace outbox {
namespace {

// A session of this test beside those of the store.
class session {
 public:
  explicit session(postgres_database const& db) : c_{db.connection()} {
    for (auto const setting : postgres::plan_settings) c_.execute("SET " + std::string{setting});
  }
  template <class... Args>
  void execute(std::string const& sql, Args const&... args) {
    c_.execute(sql, args...);
  }
  template <class... Args>
  [[nodiscard]] std::vector<std::string> ask(std::string const& sql, Args const&... args) {
    return c_.query<std::string>(sql, args...);
  }
  [[nodiscard]] postgres::connection& connection() { return c_; }

 private:
  postgres::connection c_;
};

class PostgresKeyed : public PostgresServer {
 protected:
  PostgresKeyed() {
    auto o = db.options();
    o.keyed = true;
    table = postgres::open(db.connection(), o);
    table->backend().set_keyed(true);
  }
  void put(std::string const& key, std::initializer_list<char const*> ids) {
    for (auto const* id : ids) {
      db.execute("INSERT INTO " + db.table() +
                     " (event_id, event_type, payload, available_at, created_at, ordering_key) VALUES ($1, 't', '1', "
                     "now(), now(), $2)",
                 id, key);
    }
  }
  claim_reply take(std::string token, std::size_t limit = 100) {
    return table->backend().claim({.token = std::move(token), .limit = limit, .lease = 30s, .keyed = true});
  }
  static std::vector<std::string> ids(claim_reply const& r) {
    std::vector<std::string> all;
    for (auto const& row : r.rows) all.push_back(row.handle.id);
    return all;
  }
  static settlement done_of(claimed_row const& r) {
    return {.row = r.handle, .outcome = outcome::delivered, .key = r.key, .seq = r.seq};
  }
  settle_reply end(claimed_row const& r) {
    auto const s = done_of(r);
    return table->backend().settle(std::span{&s, 1});
  }
  std::string blocked(char const* id) {
    return db.ask("SELECT blocked::text FROM " + db.table() + " WHERE event_id = $1", id);
  }
  // What the store sends in the transaction of a settlement, in two halves.
  void settle_in(session& s, std::string const& id) {
    s.execute("UPDATE " + db.table() + " SET status = 1, locked_by = NULL, lease_until = NULL WHERE event_id = $1", id);
  }
  std::size_t unblock_in(session& s, std::string const& key, std::string const& seq) {
    return s.ask(statements.unblock + " RETURNING event_id", "{\"" + key + "\"}", "{" + seq + "}").size();
  }
  std::string seq(char const* id) { return db.ask("SELECT seq::text FROM " + db.table() + " WHERE event_id = $1", id); }
  std::size_t note_in(session& s, std::string const& ids_text) {
    return s.ask(statements.note + " RETURNING t.event_id", ids_text).size();
  }

  std::shared_ptr<outbox::store> table;
  postgres::array_statements statements = postgres::set_statements({.schema = db.schema()}, done_rows::keep);
};

// A trigger suppresses the change of a row, so what was chosen behind it must not be delivered.
TEST_F(PostgresKeyed, NothingIsTakenBehindARowWhoseChangeIsSuppressed) {
  db.execute("CREATE FUNCTION " + db.schema() +
             ".ignore() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$");
  db.execute("CREATE TRIGGER ignore BEFORE UPDATE ON " + db.table() +
             " FOR EACH ROW WHEN (OLD.event_id LIKE 'bad%') EXECUTE FUNCTION " + db.schema() + ".ignore()");
  put("k", {"a", "bad", "b", "c"});
  put("l", {"bad2", "d"});
  put("m", {"e", "f"});
  for (auto const* const id : {"b", "d"}) {  // one is taken in a run, one because both are due
    db.execute("UPDATE " + db.table() + " SET blocked = true WHERE event_id = $1", id);
  }
  auto const reply = take("n/1");
  EXPECT_THAT(ids(reply), ElementsAre("a", "e", "f"));
  std::vector<std::string> refused;
  for (auto const& r : reply.refused) refused.push_back(r.id);
  EXPECT_THAT(refused, ::testing::UnorderedElementsAre("bad", "bad2"));
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE event_id IN ('b', 'c', 'd') AND locked_by IS NULL"),
            "3");
  db.execute("DROP TRIGGER ignore ON " + db.table());
  end(reply.rows.at(0));
  EXPECT_THAT(ids(take("n/2")), ::testing::UnorderedElementsAre("bad", "b", "c", "bad2", "d"));
}

// The row before it is leaving the line: a note now would never be cleared.
TEST_F(PostgresKeyed, I5_ARowIsNotNotedWhileTheSettlementOfTheRowBeforeIsOpen) {
  put("k", {"a", "b"});
  auto const first = take("n/1", 1);
  ASSERT_THAT(ids(first), ElementsAre("a"));
  session settling{db};
  settling.execute("BEGIN");
  settle_in(settling, "a");
  ASSERT_EQ(unblock_in(settling, "=k", seq("a")), 0U) << "b is not blocked yet";
  auto const reply = take("n/2");
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_EQ(reply.noted, 0U) << "a is locked by the settlement";
  EXPECT_EQ(blocked("b"), "false");
  ASSERT_TRUE(reply.next_due);
  EXPECT_LE(*reply.next_due, reply.now + 20ms) << "the end of a is near";
  settling.execute("COMMIT");
  EXPECT_THAT(ids(take("n/3")), ElementsAre("b"));
}

// The note holds the lock of the row before, so the settlement waits, and its next statement sees the note.
TEST_F(PostgresKeyed, I5_ASettlementThatWaitsForANoteClearsIt) {
  put("k", {"a", "b"});
  auto const first = take("n/1", 1);
  session noting{db};
  noting.execute("BEGIN");
  ASSERT_EQ(note_in(noting, "{b}"), 1U);
  std::optional<settle_reply> reply;
  {
    std::jthread const settling{[&] { reply = end(first.rows[0]); }};
    ASSERT_TRUE(eventually([&] {
      return db.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%" +
                    db.schema() + "%'") != "0";
    })) << "the settlement waits for the note's lock";
    noting.execute("COMMIT");
  }
  EXPECT_EQ(reply->unblocked, 1U);
  EXPECT_EQ(blocked("b"), "false");
}

// The lock of the head would not do: the row right before may be finished by another transaction.
TEST_F(PostgresKeyed, I5_ARowIsNotNotedWhileOneOfTwoFinishersIsOpen) {
  put("k", {"a", "b", "c"});
  auto const held = take("n/1", 2);
  ASSERT_THAT(ids(held), ElementsAre("a", "b"));
  session settling{db};
  settling.execute("BEGIN");
  settle_in(settling, "b");  // out of order, as after a lost lease
  EXPECT_EQ(unblock_in(settling, "=k", seq("b")), 0U);
  session noting{db};
  EXPECT_EQ(note_in(noting, "{c}"), 0U) << "a, the head, is free to be locked; b is not";
  settling.execute("COMMIT");
  EXPECT_EQ(note_in(noting, "{c}"), 1U) << "it waits for a now";
  EXPECT_EQ(end(held.rows[0]).unblocked, 1U);
  EXPECT_EQ(blocked("c"), "false");
}

// Two settlements of one key in one request: behind the lowest of them.
TEST_F(PostgresKeyed, I5_WhatWaitsBehindTheLowestOfSeveralIsUnblocked) {
  put("k", {"a", "b", "c", "d"});
  auto const held = take("n/1", 3);
  ASSERT_THAT(ids(held), ElementsAre("a", "b", "c"));
  ASSERT_EQ(take("n/2").noted, 1U);
  // b was given back and noted meanwhile, as if this node had lost it.
  settlement const back{.row = held.rows[1].handle, .outcome = outcome::release};
  ASSERT_TRUE(table->backend().settle(std::span{&back, 1}).applied[0]);
  ASSERT_EQ(take("n/3").noted, 1U);
  ASSERT_EQ(blocked("b"), "true");
  settlement const two[] = {done_of(held.rows[0]), done_of(held.rows[2])};
  EXPECT_EQ(table->backend().settle(two).unblocked, 1U);
  EXPECT_EQ(blocked("b"), "false");
  EXPECT_EQ(blocked("d"), "true") << "it waits for b";
}

// The lowest of those that were applied: another node settles the one before at the same time, and sees this one in
// line.
TEST_F(PostgresKeyed, I5_WhatWaitsBehindAnAppliedSettlementIsUnblockedIfALowerOneIsLost) {
  put("k", {"a", "b", "c"});
  put("l", {"x", "y"});
  auto held = take("n/1", 2);
  ASSERT_THAT(ids(held), ElementsAre("a", "b"));
  auto const other = take("n/2", 1);
  ASSERT_THAT(ids(other), ElementsAre("x"));
  ASSERT_EQ(take("n/3").noted, 1U) << "y; c was noted by the claim before";
  ASSERT_EQ(blocked("c"), "true");
  held.rows[0].handle.token = "other/1";
  settlement const all[] = {done_of(held.rows[1]), done_of(held.rows[0]), done_of(other.rows[0])};
  auto const reply = table->backend().settle(all);
  EXPECT_THAT(reply.applied, ElementsAre(true, false, true));
  EXPECT_EQ(reply.unblocked, 2U);
  EXPECT_EQ(blocked("c"), "false");
  EXPECT_EQ(blocked("y"), "false");
}

// An operator cancels b, which parks its key, and discards it before the settlement has ended: neither sees the other.
TEST_F(PostgresKeyed, I5_WhatWaitsBehindEachOfSeveralIsUnblockedIfOneBetweenThemIsLost) {
  put("k", {"a", "b", "c", "d"});
  auto const held = take("n/1", 3);
  ASSERT_THAT(ids(held), ElementsAre("a", "b", "c"));
  ASSERT_EQ(take("n/2").noted, 1U);
  ASSERT_EQ(table->backend().cancel({.ids = {"b"}}, "on purpose", 1), 1U);
  settlement const all[] = {done_of(held.rows[0]), done_of(held.rows[1]), done_of(held.rows[2])};
  auto const reply = table->backend().settle(all);
  EXPECT_THAT(reply.applied, ElementsAre(true, false, true));
  EXPECT_EQ(reply.unblocked, 1U);
  EXPECT_EQ(blocked("d"), "false") << "the discard of b may have looked before c was DONE";
}

// A wide look does not ask what is behind every row.
TEST_F(PostgresKeyed, AWideLookTakesTheRunOfARowThatWasUnblocked) {
  put("k", {"a", "b", "c"});
  auto const first = take("n/1", 1);
  ASSERT_EQ(take("n/2", 1000).noted, 2U);
  ASSERT_EQ(end(first.rows[0]).unblocked, 1U);
  EXPECT_THAT(ids(take("n/3", 1000)), ElementsAre("b", "c"));
}

TEST_F(PostgresKeyed, AWideLookTakesARowAloneThatWasOnlyGivenBackAndTheRestAfterIt) {
  put("k", {"a", "b", "c"});
  auto const first = take("n/1", 1);
  ASSERT_EQ(take("n/2", 1000).noted, 2U);
  settlement const back{.row = first.rows[0].handle, .outcome = outcome::release};
  ASSERT_TRUE(table->backend().settle(std::span{&back, 1}).applied[0]);
  auto const again = take("n/3", 1000);
  ASSERT_THAT(ids(again), ElementsAre("a"));
  EXPECT_EQ(end(again.rows[0]).unblocked, 1U);
  EXPECT_THAT(ids(take("n/4", 1000)), ElementsAre("b", "c"));
}

// Unblocking writes only what is blocked, so it does not lock rows that the same node renews.
TEST_F(PostgresKeyed, ASettlementDoesNotLockAHeldRowThatARenewalLocks) {
  put("k", {"a", "b"});
  auto const held = take("n/1");
  ASSERT_THAT(ids(held), ElementsAre("a", "b"));
  session renewing{db};
  renewing.execute("BEGIN");
  renewing.execute("UPDATE " + db.table() + " SET lease_until = lease_until WHERE event_id = 'b'");
  EXPECT_EQ(end(held.rows[0]).unblocked, 0U) << "returns, although b is locked";
  renewing.execute("COMMIT");
}

// A late renewal revives a row that was noted when its lease had ended.
TEST_F(PostgresKeyed, RenewingClearsTheNote) {
  put("k", {"a", "b"});
  auto const held = take("n/1");
  db.execute("UPDATE " + db.table() + " SET blocked = true WHERE event_id = 'b'");
  auto const h = held.rows[1].handle;
  EXPECT_THAT(table->backend().renew(std::span{&h, 1}, 30s), ElementsAre(true));
  EXPECT_EQ(blocked("b"), "false");
}

// One row that cannot be changed does not keep the others from being noted, nor the claim from what it took.
TEST_F(PostgresKeyed, ARowThatCannotBeNotedIsLeftAlone) {
  put("k", {"a"});
  ASSERT_THAT(take("n/1").rows, ::testing::SizeIs(1));
  put("k", {"bad", "c"});
  put("l", {"x"});
  db.execute("CREATE FUNCTION " + db.schema() +
             ".stuck() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF "
             "OLD.event_id = 'bad' THEN RAISE 'it is stuck'; END IF; RETURN NEW; END $$");
  db.execute("CREATE TRIGGER stuck BEFORE UPDATE ON " + db.table() + " FOR EACH ROW EXECUTE FUNCTION " + db.schema() +
             ".stuck()");
  auto const reply = take("n/2");
  EXPECT_THAT(ids(reply), ElementsAre("x"));
  EXPECT_EQ(reply.noted, 1U);
  EXPECT_EQ(blocked("c"), "true");
  ASSERT_THAT(reply.refused, ::testing::SizeIs(1));
  EXPECT_EQ(reply.refused[0].id, "bad");
}

// A program of another kind holds the lock of the row before for long: rows behind the notes are found all the same.
TEST_F(PostgresKeyed, NotesThatAreStuckDoNotHideOtherKeys) {
  put("k", {"a", "b", "c", "d"});
  ASSERT_THAT(ids(take("n/1", 1)), ElementsAre("a"));
  put("l", {"x"});
  session holding{db};
  holding.execute("BEGIN");
  holding.execute("SELECT 1 FROM " + db.table() + " WHERE event_id = 'a' FOR UPDATE");
  std::vector<std::string> taken;
  for (int i = 0; i < 5 && taken.empty(); ++i) taken = ids(take("m/" + std::to_string(i), 2));
  EXPECT_THAT(taken, ElementsAre("x"));
  holding.execute("COMMIT");
}

// Where an inserted row stands, as the transaction's isolation and its kind allow.
class PostgresReceipt : public PostgresKeyed {
 protected:
  template <class Tx>
  place insert(Tx&& tx, char const* id, std::function<void()> const& commit, std::int64_t finished = 0) {
    auto const e = event::json("t", "1", {.id = id, .ordering_key = "k"});
    insertion const row{&e};
    auto const receipt = std::make_shared<insert_receipt>(insert_receipt{.finished = finished});
    table->backend().insert(join(tx), std::span{&row, 1}, receipt);
    commit();
    return receipt->rows.at(0);
  }
};

TEST_F(PostgresReceipt, ComesWithTheCommit) {
  put("k", {"a"});
  for (auto const how : {postgres::send_mode::immediate, postgres::send_mode::pipelined}) {
    auto const* const id = how == postgres::send_mode::immediate ? "b" : "c";
    postgres::transaction tx{caller, how};
    auto const p = insert(tx, id, [&] { tx.commit(); });
    EXPECT_TRUE(p.known);
    EXPECT_EQ(p.before, how == postgres::send_mode::immediate ? "a" : "b");
    EXPECT_EQ(std::to_string(p.seq), seq(id));
  }
}

TEST_F(PostgresReceipt, ComesWithTheInsertOnABareHandle) {
  put("k", {"a"});
  caller.execute("BEGIN");
  auto const p = insert(caller.handle(), "b", [&] { caller.execute("COMMIT"); });
  EXPECT_TRUE(p.known);
  EXPECT_EQ(p.before, "a");
}

// What the node knows to be finished is not read, except if the numbers were set back.
TEST_F(PostgresReceipt, LooksNoFurtherBackThanTheNodeKnowsToBeFinished) {
  put("k", {"a"});
  auto const a = std::stoll(seq("a"));
  auto const before = [&](char const* id, std::int64_t finished) {
    db.execute("DELETE FROM " + db.table() + " WHERE event_id <> 'a'");
    postgres::transaction tx{caller};
    return insert(
               tx, id, [&] { tx.commit(); }, finished)
        .before;
  };
  EXPECT_EQ(before("b", a - 1), "a");
  EXPECT_EQ(before("c", a), "");
  EXPECT_EQ(before("d", a + 1'000'000), "a");
}

// The snapshot may be older than the lock that puts the writers of a key in order.
TEST_F(PostgresReceipt, IsNotKnownInAnotherIsolationLevel) {
  put("k", {"a"});
  int n = 0;
  for (auto const* const level : {"REPEATABLE READ", "SERIALIZABLE"}) {
    caller.execute(std::string{"BEGIN ISOLATION LEVEL "} + level);
    auto const id = "r" + std::to_string(n++);
    EXPECT_FALSE(insert(caller.handle(), id.c_str(), [&] { caller.execute("COMMIT"); }).known) << level;
    EXPECT_TRUE(table->backend().places(std::span{&id, 1})[0].known);
  }
}

// Three writers of three keys: a question about the row before would read a range of the index, and be a conflict.
TEST_F(PostgresReceipt, SerializableWritersOfDifferentKeysDoNotConflict) {
  std::vector<std::unique_ptr<session>> writers;
  for (int i = 0; i < 3; ++i) {
    auto& s = *writers.emplace_back(std::make_unique<session>(db));
    s.execute("BEGIN ISOLATION LEVEL SERIALIZABLE");
    auto const e = event::json("t", "1", {.id = "e" + std::to_string(i), .ordering_key = "k" + std::to_string(i)});
    insertion const row{&e};
    table->backend().insert(join(s.connection().handle()), std::span{&row, 1}, std::make_shared<insert_receipt>());
  }
  for (auto& w : writers) EXPECT_NO_THROW(w->execute("COMMIT"));
}

// It was sent behind a savepoint that was rolled back, and is inserted anew with another number.
TEST_F(PostgresReceipt, IsNotKnownOfARowThatIsInsertedAnew) {
  put("k", {"a"});
  postgres::transaction tx{caller};
  auto const e = event::json("t", "1", {.id = "b", .ordering_key = "k"});
  insertion const row{&e};
  auto const receipt = std::make_shared<insert_receipt>();
  table->backend().insert(join(tx), std::span{&row, 1}, receipt);
  tx.execute("SAVEPOINT s");
  tx.flush();
  ASSERT_EQ(tx.query_one<int>("SELECT count(*) FROM " + db.table() + " WHERE event_id = 'b'"), 1);
  tx.execute("ROLLBACK TO SAVEPOINT s");
  tx.commit();
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE event_id = 'b'"), "1");
  EXPECT_FALSE(receipt->rows.at(0).known);
}

// Nothing that keeps order grows with what is finished, delayed, or behind a failing head.
TEST_F(PostgresKeyed, StatementsUseTheIndexOfKeys) {
  db.execute(
      "INSERT INTO " + db.table() +
      " (event_id, event_type, payload, status, available_at, created_at, done_at, ordering_key, blocked) SELECT "
      "'d' || i, 't', '1', 1, now(), now(), now(), 'k' || i % 100, false FROM generate_series(1, 20000) i");
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, available_at, created_at, ordering_key, blocked) SELECT 'b' || i, 't', "
             "'1', now(), now(), 'k1', i > 1 FROM generate_series(1, 10000) i");
  for (auto const* const analyse : {"", "ANALYZE "}) {
    if (*analyse != '\0') db.execute(analyse + db.table());
    db.execute("DISCARD ALL");
    db.execute("SET plan_cache_mode = force_generic_plan");
    for (auto const setting : postgres::plan_settings) db.execute("SET " + std::string{setting});
    auto const plan = [&](std::string const& name, std::string const& sql, std::string const& parameters) {
      db.execute("PREPARE " + name + " AS " + sql);
      return db.ask("EXPLAIN (FORMAT JSON) EXECUTE " + name + parameters);
    };
    auto const look = plan("look", statements.due_in_keys, "(51, 0, 0, '{}', '{}', 0, NULL, '{}', NULL)");
    EXPECT_THAT(look, HasSubstr("outbox_event_ready"));
    EXPECT_THAT(look, ::testing::Not(HasSubstr("\"Sort\"")));
    auto const unblock = plan("unblock", statements.unblock, "('{=k1}', '{0}')");
    EXPECT_THAT(unblock, HasSubstr("outbox_event_blocked"));
    auto const all = {look,
                      unblock,
                      plan("run", statements.run, "('{=k1}', '{0}', 64)"),
                      plan("note", statements.note, "('{b5,b6}')"),
                      plan("places", statements.places, "('{b5,b6}')"),
                      plan("heal", statements.heal_keys, "('', 100)")};
    auto const clear = plan("clear", statements.clear_notes, "('', 0, 100)");
    EXPECT_THAT(clear, HasSubstr("outbox_event_blocked"));
    EXPECT_THAT(clear, ::testing::Not(HasSubstr("Seq Scan")));
    for (auto const& p : all) {
      EXPECT_THAT(p, HasSubstr("outbox_event_keyed"));
      EXPECT_THAT(p, ::testing::Not(HasSubstr("Seq Scan")));
    }
  }
}

// A node plans its statements when it starts, perhaps while nothing waits. They are used when a hundred thousand rows
// do.
TEST_F(PostgresKeyed, PlansThatAreMadeWhileNothingWaitsReadNoWholeIndex) {
  db.execute(
      "INSERT INTO " + db.table() +
      " (event_id, event_type, payload, status, available_at, created_at, done_at, ordering_key, blocked) SELECT "
      "'d' || i, 't', '1', 1, now(), now(), now(), 'k' || i % 100, false FROM generate_series(1, 100000) i");
  put("k1", {"a", "b"});
  db.execute("ANALYZE " + db.table());
  db.execute("SET plan_cache_mode = force_generic_plan");
  for (auto const setting : postgres::plan_settings) db.execute("SET " + std::string{setting});
  auto const expect_conditions = [&](std::string const& name, std::string const& sql, std::string const& parameters) {
    db.execute("PREPARE " + name + " AS " + sql);
    auto const plan = db.lines("EXPLAIN EXECUTE " + name + parameters);
    for (std::size_t i = 0; i < plan.size(); ++i) {
      EXPECT_THAT(plan[i], ::testing::Not(HasSubstr("Seq Scan on outbox_event"))) << name;
      EXPECT_THAT(plan[i], ::testing::Not(HasSubstr("Hash Anti Join"))) << name;
      if (plan[i].find("using outbox_event_") == std::string::npos) continue;
      ASSERT_LT(i + 1, plan.size()) << name;
      EXPECT_THAT(plan[i + 1], HasSubstr("Index Cond")) << name << ": " << plan[i];
    }
  };
  auto const shared = postgres::shared_statements({.schema = db.schema()});
  expect_conditions("unblock", statements.unblock, "('{=k1}', '{0}')");
  expect_conditions("run", statements.run, "('{=k1}', '{0}', 64)");
  expect_conditions("note", statements.note, "('{a,b}')");
  expect_conditions("leave", statements.leave, "('{a,b}')");
  expect_conditions("places", statements.places, "('{a,b}')");
  expect_conditions("heal", statements.heal_keys, "('', 100)");
  expect_conditions("clear", statements.clear_notes, "('', 0, 100)");
  expect_conditions("discard", shared.unblock_next, "(0, '=k1', 0, 'a')");
  expect_conditions("discarded", shared.leave_line, "('a')");
}

// The index is made beside writers, and again if an attempt was interrupted.
// A statement on this table that begins so.
bool waits_for_a_lock(postgres_database& db, std::string const& begin) {
  return eventually([&] {
    return db.ask("SELECT count(*) FROM pg_stat_activity WHERE query LIKE '" + begin + "%" + db.schema() +
                  "%' AND wait_event_type = 'Lock'") != "0";
  });
}

TEST_F(PostgresServer, TheIndexOfKeysIsMadeOnATableInUse) {
  static_cast<void>(db.open());
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, available_at, created_at) VALUES ('e', 't', '1', now(), now())");
  postgres::connection writing{db.connection()};
  writing.execute("BEGIN");
  writing.execute("UPDATE " + db.table() + " SET tenant_id = 'x'");
  auto o = db.options();
  o.keyed = true;
  std::optional<migration> made;
  {
    std::jthread const migrating{[&] { made = postgres::migrate(db.connection(), o); }};
    ASSERT_TRUE(waits_for_a_lock(db, "CREATE INDEX CONCURRENTLY"));
    db.execute("INSERT INTO " + db.table() +
               " (event_id, event_type, payload, available_at, created_at) VALUES ('f', 't', '1', now(), now())");
    writing.execute("COMMIT");
  }
  EXPECT_EQ(made->change, migration::kind::indexed);
  EXPECT_EQ(postgres::migrate(db.connection(), o).change, migration::kind::nothing);
  for (auto const* const index : {"outbox_event_keyed", "outbox_event_blocked"}) {
    db.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = '" + db.table(index) + "'::regclass");
    EXPECT_EQ(postgres::migrate(db.connection(), o).change, migration::kind::indexed) << index;
    EXPECT_EQ(postgres::migrate(db.connection(), o).change, migration::kind::nothing) << index;
  }
}

TEST_F(PostgresServer, ANodeThatMayNotMigrateNamesTheIndexOfKeysThatIsMissing) {
  auto o = db.options();
  o.keyed = true;
  static_cast<void>(postgres::migrate(db.connection(), o));
  o.keyed = false;
  o.migrate = false;
  auto const table = postgres::open(db.connection(), o);
  for (auto const* const index : {"outbox_event_blocked", "outbox_event_keyed"}) {  // the first of them is named
    db.execute("DROP INDEX " + db.table(index));
    auto const e = thrown_by([&] { table->backend().set_keyed(true); });
    ASSERT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), HasSubstr(std::string{"no valid index "} + index + ","))
        << "the migration needs a role that may";
  }
}

// It is in use all the same: its first writer has not committed yet.
TEST_F(PostgresServer, WritersDoNotWaitForTheIndexOfKeysOfATableWithoutRows) {
  static_cast<void>(db.open());
  std::string const insert = "INSERT INTO " + db.table() +
                             " (event_id, event_type, payload, available_at, created_at) VALUES ('e', 't', '1', now(), "
                             "now())";
  postgres::connection writing{db.connection()};
  writing.execute("BEGIN");
  writing.execute(insert);
  auto o = db.options();
  o.keyed = true;
  std::optional<migration> made;
  {
    std::jthread const migrating{[&] { made = postgres::migrate(db.connection(), o); }};
    ASSERT_TRUE(waits_for_a_lock(db, "CREATE INDEX CONCURRENTLY"));
    postgres::connection other{db.connection()};
    other.execute("SET lock_timeout = '1ms'");
    EXPECT_NO_THROW(
        other.execute("BEGIN; " + insert.substr(0, insert.find("('e'")) + "('f', 't', '1', now(), now()); COMMIT"));
    writing.execute("COMMIT");
  }
  EXPECT_EQ(made->change, migration::kind::indexed);
}

TEST_F(PostgresServer, AnIndexOfKeysThatAnotherSessionIsMakingIsNotDropped) {
  auto o = db.options();
  o.keyed = true;
  static_cast<void>(postgres::migrate(db.connection(), o));
  auto const definition = db.ask("SELECT pg_get_indexdef('" + db.table("outbox_event_keyed") + "'::regclass)");
  db.execute("DROP INDEX " + db.table("outbox_event_keyed"));
  postgres::connection writing{db.connection()};
  writing.execute("BEGIN");
  writing.execute("LOCK TABLE " + db.table() + " IN ROW EXCLUSIVE MODE");
  std::optional<migration> made;
  {
    std::jthread const by_hand{[&] {
      postgres::connection{db.connection()}.execute("CREATE INDEX CONCURRENTLY" +
                                                    definition.substr(std::string{"CREATE INDEX"}.size()));
    }};
    EXPECT_TRUE(waits_for_a_lock(db, "CREATE INDEX CONCURRENTLY"));
    std::jthread const migrating{[&] { made = postgres::migrate(db.connection(), o); }};
    EXPECT_TRUE(waits_for_a_lock(db, "LOCK TABLE"));
    writing.execute("COMMIT");
  }
  EXPECT_EQ(made->change, migration::kind::nothing) << "it was there in the end";
}

// Its functions count bytes, and a key has the number of characters of the aggregate type in it.
TEST_F(PostgresServer, ADatabaseWithoutAnEncodingKeepsNoOrderOfKeys) {
  auto const name = "ascii_" + db.schema();
  db.execute("CREATE DATABASE " + name + " ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
  {
    auto const table = postgres::open(db.connection() + " dbname=" + name, {.log = nullptr});
    auto const e = thrown_by([&] { table->backend().set_keyed(true); });
    EXPECT_EQ(e.code(), errc::unsupported);
    EXPECT_THAT(std::string{e.what()}, HasSubstr("SQL_ASCII"));
    EXPECT_FALSE(table->backend().settings().keyed);
  }
  db.execute("DROP DATABASE " + name);
}

TEST_F(PostgresServer, AStoreThatMayNotMigrateSaysHowToPrepareAKeyedTable) {
  static_cast<void>(db.open());
  auto o = db.options();
  o.migrate = false;
  auto const e = thrown_by([&] { postgres::open(db.connection(), o)->backend().set_keyed(true); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(std::string{e.what()}, HasSubstr("schema/postgres/keyed.sql"));
  EXPECT_FALSE(postgres::open(db.connection(), o)->backend().settings().keyed) << "it is not marked";
}

}  // namespace
}  // namespace outbox
