// Order per key on a file: what happens between the look of a claim and its transaction, what its statements cost, and
// its index.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <outbox/testing.hpp>

#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

using namespace spi;
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Sees every statement of the store's connections: what runs before it begins, and how many steps it took.
class watched_handles {
 public:
  explicit watched_handles(std::string path) : path_{std::move(path)} {}

  sqlite3* open() {
    sqlite3* db = nullptr;
    sqlite3_open(path_.c_str(), &db);
    sqlite3_trace_v2(db, SQLITE_TRACE_STMT | SQLITE_TRACE_PROFILE, &seen, this);
    return db;
  }

  /// Runs once, when a transaction of the store is about to begin. The store has looked already.
  std::function<void()> before_transaction;

  std::map<std::string, int> steps;  ///< By the text of the statement.

 private:
  static int seen(unsigned what, void* self, void* statement, void* text) {
    auto& me = *static_cast<watched_handles*>(self);
    auto* const s = static_cast<sqlite3_stmt*>(statement);
    if (what == SQLITE_TRACE_PROFILE) {
      me.steps[sqlite3_sql(s)] += sqlite3_stmt_status(s, SQLITE_STMTSTATUS_VM_STEP, 1);
    } else if (std::string_view{static_cast<char const*>(text)} == "BEGIN IMMEDIATE") {
      if (auto const f = std::exchange(me.before_transaction, {})) f();
    }
    return 0;
  }

  std::string path_;
};

class SqliteKeyed : public ::testing::Test {
 protected:
  void SetUp() override { store().set_keyed(true); }
  spi::store& store() { return store_->backend(); }
  void run(std::string const& sql) { other.execute(sql); }
  // Rows of a program that knows only the columns of the specification.
  void put(std::string const& id, std::string const& key, std::string const& more = {}) {
    other.execute(
        "INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, ordering_key) VALUES (?, "
        "'t', '1', '2020-01-01 00:00:00.000000', '2020-01-01 00:00:00.000000', ?)",
        id, key);
    if (!more.empty()) run("UPDATE outbox_event SET " + more + " WHERE event_id = '" + id + "'");
  }
  void put_many(std::string const& prefix, int from, int to, std::string const& key, int status = 0) {
    run("WITH RECURSIVE n(i) AS (SELECT " + std::to_string(from) + " UNION ALL SELECT i + 1 FROM n WHERE i < " +
        std::to_string(to) +
        ") INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, ordering_key, status) "
        "SELECT '" +
        prefix + "' || i, 't', '1', '2020-01-01 00:00:00.000000', '2020-01-01 00:00:00.000000', '" + key + "', " +
        std::to_string(status) + " FROM n");
  }
  // One row of each of many keys.
  void put_keys(std::string const& prefix, int count, int status = 0) {
    run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " + std::to_string(count) +
        ") INSERT INTO outbox_event (event_id, event_type, payload, available_at, created_at, ordering_key, status) "
        "SELECT '" +
        prefix + "' || i, 't', '1', '2020-01-01 00:00:00.000000', '2020-01-01 00:00:00.000000', 'k' || i, " +
        std::to_string(status) + " FROM n");
  }
  claim_reply claim(std::string token, std::size_t limit = 100) {
    return store().claim({.token = std::move(token), .limit = limit, .lease = 1h, .keyed = true});
  }
  static std::vector<std::string> ids(claim_reply const& reply) {
    std::vector<std::string> all;
    for (auto const& r : reply.rows) all.push_back(r.handle.id);
    return all;
  }
  row_view row(std::string const& id) { return store_->inspect().find(id).value(); }
  settle_reply deliver(std::vector<claimed_row> const& rows) {
    std::vector<settlement> items;
    for (auto const& r : rows) items.push_back({.row = r.handle, .key = r.key, .seq = r.seq});
    return store().settle(items);
  }
  // As if another node had claimed it.
  void take_away(std::string const& id) {
    run("UPDATE outbox_event SET locked_by = 'm/1', locked_at = '2030-01-01 00:00:00.000000', lease_until = "
        "'2999-01-01 00:00:00.000000' WHERE event_id = '" +
        id + "'");
  }
  void finish(std::string const& id) { run("UPDATE outbox_event SET status = 1 WHERE event_id = '" + id + "'"); }

  temporary_directory dir;
  std::string path = dir / "a.db";
  watched_handles handles{path};
  std::shared_ptr<outbox::store> store_ = sqlite::open("", {.connect = [this] { return handles.open(); }});
  sqlite::connection other{path};
};

// ---- Between the look and the transaction

TEST_F(SqliteKeyed, WhatFollowsAHeadThatAnotherNodeTookIsNotTaken) {
  for (auto const* id : {"a", "b", "c"}) put(id, "k");
  handles.before_transaction = [&] { take_away("a"); };
  EXPECT_THAT(claim("n/1").rows, IsEmpty());
  for (auto const* id : {"b", "c"}) {
    EXPECT_EQ(row(id).locked_by, "");
    EXPECT_EQ(row(id).blocked, false) << "the next claim notes it";
  }
  EXPECT_EQ(claim("n/2").noted, 2U);
}

TEST_F(SqliteKeyed, TheRunOfAHeadThatAnotherNodeTookStaysBlocked) {
  for (auto const* id : {"a", "b", "c"}) put(id, "k");
  run("UPDATE outbox_event SET blocked = true WHERE event_id <> 'a'");
  handles.before_transaction = [&] { take_away("a"); };
  EXPECT_THAT(claim("n/1").rows, IsEmpty());
  for (auto const* id : {"b", "c"}) {
    EXPECT_EQ(row(id).locked_by, "");
    EXPECT_EQ(row(id).blocked, true);
  }
}

// All in one run of numbers, which one statement takes.
TEST_F(SqliteKeyed, OneHeadOfManyKeysThatIsMissedLeavesOnlyItsKey) {
  for (int i = 1; i <= 3; ++i) {
    for (auto const* key : {"k", "l", "m"}) put(key + std::to_string(i), key);
  }
  handles.before_transaction = [&] { take_away("l1"); };
  EXPECT_THAT(ids(claim("n/1")), ElementsAre("k1", "m1", "k2", "m2", "k3", "m3"));
  EXPECT_EQ(row("l2").locked_by, "");
  EXPECT_EQ(row("l3").locked_by, "");
}

TEST_F(SqliteKeyed, ARowInTheMiddleThatIsMissedEndsWhatIsTakenOfItsKey) {
  for (auto const* id : {"a", "b", "c", "d"}) put(id, "k");
  handles.before_transaction = [&] { run("UPDATE outbox_event SET attempts = 1 WHERE event_id = 'b'"); };
  EXPECT_THAT(ids(claim("n/1")), ElementsAre("a"));
  EXPECT_EQ(row("c").locked_by, "");
  EXPECT_EQ(row("d").locked_by, "");
}

TEST_F(SqliteKeyed, ARowWhoseForerunnerEndedIsTakenWithoutIt) {
  for (auto const* id : {"a", "b", "c"}) put(id, "k");
  handles.before_transaction = [&] { finish("a"); };
  EXPECT_THAT(ids(claim("n/1")), ElementsAre("b", "c")) << "nothing is before b now";
}

TEST_F(SqliteKeyed, ARowWhoseForerunnerEndedIsNotNoted) {
  for (auto const* id : {"a", "b"}) put(id, "k");
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  handles.before_transaction = [&] { finish("a"); };
  auto const reply = claim("n/2");
  EXPECT_EQ(reply.noted, 0U);
  EXPECT_EQ(row("b").blocked, false) << "no settlement would ever find it";
  ASSERT_TRUE(reply.next_due.has_value()) << "nothing else tells the node to look again";
  EXPECT_LE(*reply.next_due, reply.now + 20ms);
  EXPECT_THAT(ids(claim("n/3")), ElementsAre("b"));
}

TEST_F(SqliteKeyed, ARowWhoseForerunnerWasDeletedIsNotNoted) {
  for (auto const* id : {"a", "b"}) put(id, "k");
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  handles.before_transaction = [&] { run("DELETE FROM outbox_event WHERE event_id = 'a'"); };
  EXPECT_EQ(claim("n/2").noted, 0U);
  EXPECT_EQ(row("b").blocked, false);
}

TEST_F(SqliteKeyed, ARowThatGotAnOwnerIsNotNoted) {
  for (auto const* id : {"a", "b"}) put(id, "k");
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  handles.before_transaction = [&] { take_away("b"); };
  EXPECT_EQ(claim("n/2").noted, 0U);
  EXPECT_EQ(row("b").blocked, false) << "a row with a live lease is never blocked";
}

TEST_F(SqliteKeyed, ARowThatAnotherNodeNotedIsStillTakenBehindItsHead) {
  for (auto const* id : {"a", "b"}) put(id, "k");
  handles.before_transaction = [&] { run("UPDATE outbox_event SET blocked = true WHERE event_id = 'b'"); };
  EXPECT_THAT(ids(claim("n/1")), ElementsAre("a", "b"));
  EXPECT_EQ(row("b").blocked, false);
}

TEST_F(SqliteKeyed, ARowThatWasPutOutsideTheOrderMeanwhileIsLeftToTheNextClaim) {
  for (auto const* id : {"a", "b"}) put(id, "k");
  handles.before_transaction = [&] { run("UPDATE outbox_event SET blocked = NULL WHERE event_id = 'b'"); };
  EXPECT_THAT(ids(claim("n/1")), ElementsAre("a"));
  auto const reply = claim("n/2");
  ASSERT_THAT(ids(reply), ElementsAre("b"));
  EXPECT_EQ(reply.rows[0].key, "");
}

// ---- What cannot be changed

TEST_F(SqliteKeyed, ARefusedHeadHoldsUpItsKeyOnly) {
  run("CREATE TRIGGER stuck BEFORE UPDATE ON outbox_event WHEN OLD.event_id = 'a' BEGIN SELECT RAISE(ABORT, 'stuck'); "
      "END");
  for (auto const* id : {"a", "b"}) put(id, "k");
  put("x", "l");
  auto const reply = claim("n/1");
  EXPECT_THAT(ids(reply), ElementsAre("x"));
  ASSERT_THAT(reply.refused, SizeIs(1));
  EXPECT_EQ(reply.refused[0].id, "a");
  EXPECT_EQ(row("b").locked_by, "");
}

// A trigger ignores the note: it must not make the node look fifty times a second.
TEST_F(SqliteKeyed, ANoteThatIsIgnoredIsTriedLessAndLessOften) {
  for (auto const* id : {"a", "b"}) put(id, "k");
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  run("CREATE TRIGGER quiet BEFORE UPDATE ON outbox_event WHEN NEW.blocked = 1 BEGIN SELECT RAISE(IGNORE); END");
  for (auto const wait : {20ms, 40ms, 80ms, 160ms, 320ms, 640ms, 640ms}) {
    auto const reply = claim("n/2");
    EXPECT_EQ(reply.noted, 0U);
    EXPECT_EQ(reply.next_due, reply.now + wait);
  }
}

TEST_F(SqliteKeyed, ANoteThatIsRefusedDoesNotHoldUpTheClaim) {
  run("CREATE TRIGGER stuck BEFORE UPDATE ON outbox_event WHEN OLD.event_id = 'b' BEGIN SELECT RAISE(ROLLBACK, "
      "'stuck'); END");
  for (auto const* id : {"a", "b", "c"}) put(id, "k");
  ASSERT_THAT(ids(claim("n/1", 1)), ElementsAre("a"));
  put("x", "l");
  auto const reply = claim("n/2");
  EXPECT_THAT(ids(reply), ElementsAre("x"));
  EXPECT_EQ(reply.noted, 1U) << "c";
  ASSERT_THAT(reply.refused, SizeIs(1));
  EXPECT_EQ(reply.refused[0].id, "b");
  put("y", "l");
  auto again = claim_request{.token = "n/3", .lease = 1h, .keyed = true, .leave = {"b"}};
  EXPECT_THAT(store().claim(again).refused, IsEmpty());
}

// ---- Rows of other programs

// At three in the afternoon. What a trigger refuses to change cannot be put in form.
class SqliteKeyedUnmended : public SqliteKeyed {
 protected:
  void SetUp() override {
    using namespace std::chrono;
    auto const clock = std::make_shared<testing::manual_clock>(instant{sys_days{year{2026} / 11 / 19}} + 15h);
    store_ = sqlite::open(path, {.clock = clock});
    SqliteKeyed::SetUp();
  }
  void put_unmended(std::string const& id, std::string const& key, std::string const& available_at) {
    put(id, key, "available_at = '" + available_at + "'");
    run("CREATE TRIGGER unmended_" + id + " BEFORE UPDATE OF available_at ON outbox_event WHEN OLD.event_id = '" + id +
        "' BEGIN SELECT RAISE(ABORT, 'not now'); END");
  }
};

// As text, an instant with a T is later than any of its day in the form of the library.
TEST_F(SqliteKeyedUnmended, I5_ARowThatIsDueInAnotherFormHoldsUpItsKey) {
  put_unmended("p", "k", "2026-11-19T10:00:00");
  put_unmended("q", "l", "2026-11-19T15:30:00+01:00");
  put("r", "k");
  put("s", "l");
  auto const reply = claim("n/1");
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_EQ(reply.noted, 2U);
  for (auto const* id : {"p", "q"}) EXPECT_EQ(row(id).blocked, false) << id;
  EXPECT_THAT(claim("n/2").rows, IsEmpty());
  for (auto const* id : {"p", "q"}) run("DROP TRIGGER unmended_" + std::string{id});
  EXPECT_THAT(ids(claim("n/3")), ElementsAre("p", "r", "q", "s"));
}

TEST_F(SqliteKeyedUnmended, ARowThatItsWriterDelayedInAnotherFormHoldsUpNothing) {
  put_unmended("p", "k", "2026-11-19T16:00:00");
  put_unmended("q", "l", "2026-11-19T16:30:00+01:00");
  put("r", "k");
  put("s", "l");
  EXPECT_EQ(claim("n/1").noted, 0U);
  for (auto const* id : {"p", "q"}) EXPECT_EQ(row(id).blocked, std::nullopt) << id;
  EXPECT_THAT(ids(claim("n/2")), ElementsAre("r", "s"));
}

TEST_F(SqliteKeyed, AnInstantOfTheWriterThatCannotBeReadIsNoDelay) {
  put("p", "k", "available_at = '2999-01-01 00:00:00.000000', created_at = 'yesterday'");
  put("r", "k");
  EXPECT_EQ(claim("n/1").noted, 1U);
  EXPECT_EQ(row("p").blocked, false);
}

// No node can settle a row under an id that is not text, so nothing would ever free its key.
TEST_F(SqliteKeyed, ABlobForAnIdDoesNotParkItsKey) {
  put("p", "k", "event_id = x'7000ff'");
  put("r", "k", "blocked = true");
  auto const reply = claim("n/1");
  EXPECT_THAT(reply.dead, SizeIs(1));
  EXPECT_THAT(ids(reply), ElementsAre("r"));
  EXPECT_THAT(store().parked_keys(10), IsEmpty());
  EXPECT_EQ(store().discard({}, 10), 0U);
}

TEST_F(SqliteKeyed, AnInstantThatCannotBeReadParksItsKeyUntilItIsDiscarded) {
  put("p", "k", "available_at = 'tomorrow'");
  put("r", "k");
  auto const reply = claim("n/1");
  EXPECT_THAT(reply.dead, SizeIs(1));
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_THAT(store().parked_keys(10), SizeIs(1));
  EXPECT_EQ(store().discard({.ids = {"p"}}, 10), 1U);
  EXPECT_THAT(ids(claim("n/2")), ElementsAre("r"));
}

TEST_F(SqliteKeyed, ADeadRowWithABlobForAnIdCanBeDiscarded) {
  put("p", "k", "event_id = x'7000ff', status = 3");
  put("r", "k", "blocked = true");
  EXPECT_THAT(claim("n/1").rows, IsEmpty());
  EXPECT_EQ(store().discard({}, 10), 1U);
  EXPECT_THAT(ids(claim("n/2")), ElementsAre("r"));
  EXPECT_EQ(store().discard({}, 10), 0U);
}

TEST_F(SqliteKeyed, DiscardCountsTheRowsThatItHasChanged) {
  put("p", "k", "status = 3");
  put("q", "l", "status = 3");
  put("r", "k", "blocked = true");
  run("CREATE TRIGGER quiet BEFORE UPDATE ON outbox_event WHEN OLD.event_id = 'p' BEGIN SELECT RAISE(IGNORE); END");
  EXPECT_EQ(store().discard({}, 10), 1U) << "q";
  EXPECT_EQ(row("r").blocked, true);
  run("DROP TRIGGER quiet");
  EXPECT_EQ(store().discard({}, 10), 1U);
  EXPECT_EQ(row("r").blocked, false);
}

// ---- Many rows

TEST_F(SqliteKeyed, NotesAreWrittenSomeHundredAtATime) {
  put("a", "k");
  ASSERT_THAT(claim("n/1").rows, SizeIs(1));
  put_many("b", 1, 1200, "k");
  put("x", "l");
  std::vector<std::size_t> noted;
  std::vector<std::string> taken;
  for (int i = 2; i < 10; ++i) {
    auto const reply = claim("n/" + std::to_string(i));
    noted.push_back(reply.noted);
    for (auto const& id : ids(reply)) taken.push_back(id);
    if (!reply.more) break;
  }
  EXPECT_THAT(noted, ElementsAre(500U, 500U, 200U));
  EXPECT_THAT(taken, ElementsAre("x"));
}

TEST_F(SqliteKeyed, HealingFindsStraysAmongManyKeysAndStopsAtItsLimit) {
  for (int i = 0; i < 50; ++i) {
    for (auto const* row : {"a", "b"}) put(row + std::to_string(i), "k" + std::to_string(i));
  }
  put("none", "");
  run("UPDATE outbox_event SET blocked = true WHERE event_id LIKE 'b%' OR event_id IN ('a7', 'a11', 'a40')");
  EXPECT_EQ(store().heal(2), 2U);
  EXPECT_EQ(store().heal(100), 1U);
  EXPECT_EQ(store().heal(100), 0U);
  EXPECT_EQ(row("a40").blocked, false);
  EXPECT_EQ(row("b40").blocked, true);
}

TEST_F(SqliteKeyed, HealingThatStoppedAtItsLimitGoesOnBehindIt) {
  for (auto const* id : {"a", "b", "c"}) put(id, id, "blocked = true");
  EXPECT_EQ(store().heal(1), 1U);
  EXPECT_EQ(row("a").blocked, false);
  run("UPDATE outbox_event SET blocked = true WHERE event_id = 'a'");
  EXPECT_EQ(store().heal(1), 1U);
  EXPECT_EQ(row("a").blocked, true);
  EXPECT_EQ(row("b").blocked, false);
  EXPECT_EQ(store().heal(10), 2U) << "c, and then a";
}

// The thread that heals renews leases too.
TEST_F(SqliteKeyed, HealingOfVeryManyKeysStopsAndTheNextCallGoesOn) {
  put_keys("e", 200'500);
  put("stray", "z", "blocked = true");
  auto healed = store().heal(10);
  EXPECT_EQ(healed, 0U) << "it looks at two hundred thousand keys";
  for (int i = 0; i < 250 && healed == 0; ++i) healed = store().heal(10);
  EXPECT_EQ(healed, 1U);
  EXPECT_EQ(row("stray").blocked, false);
}

TEST_F(SqliteKeyed, AHeadThatIsFinishedWhileHealingLooksIsNotTouched) {
  for (auto const* id : {"a", "b"}) put(id, "k", "blocked = true");
  handles.before_transaction = [&] { put("before", "k", "seq = 0"); };
  EXPECT_EQ(store().heal(10), 0U) << "a is not the first any more";
  EXPECT_EQ(row("a").blocked, true);
}

TEST_F(SqliteKeyed, RemovingTheMarkClearsNotesInSeveralTransactions) {
  put("a", "k");
  put_many("b", 1, 2500, "k");
  put("dead", "k", "status = 3");
  put("keyless", "");
  run("UPDATE outbox_event SET blocked = true WHERE event_id <> 'a'");
  handles.steps.clear();
  store().set_keyed(false);
  EXPECT_EQ(other.query_one<int>("SELECT count(*) FROM outbox_event WHERE blocked"), 0);
  EXPECT_EQ(other.query_one<int>("SELECT count(*) FROM outbox_event WHERE blocked IS NULL"), 0);
  EXPECT_FALSE(store().settings().keyed);
}

// ---- Costs

// The number of steps of SQLite's machine is that of the rows and index entries it visits.
TEST_F(SqliteKeyed, R8_NoStatementCostsMoreBecauseRowsAreDone) {
  auto const work = [&](std::string const& round, int done) {
    handles.steps.clear();
    for (auto const* id : {"a", "b", "c"}) {
      put_many("before-" + (id + round), 1, done, "k", 1);
      put(id + round, "k");
    }
    put_many("behind" + round, 1, done, "k", 1);
    for (auto const* id : {"x", "y"}) put(id + round, "l" + round);
    auto const first = claim("n/" + round, 1);
    EXPECT_EQ(claim("m/" + round).noted, 2U);
    EXPECT_EQ(deliver(first.rows).unblocked, 1U);
    auto const second = claim("o/" + round);
    EXPECT_THAT(ids(second), ElementsAre("b" + round, "c" + round));
    std::vector<std::string> const asked{"c" + round};
    static_cast<void>(store().places(asked));
    EXPECT_EQ(store().heal(10), 0U);
    {
      sqlite::transaction tx{other};
      auto const e = event::json("t", "1", {.id = "w" + round, .ordering_key = "k"});
      insertion const i{&e};
      auto const receipt = std::make_shared<insert_receipt>();
      store().insert(join(tx), std::span{&i, 1}, receipt);
      EXPECT_EQ(receipt->rows[0].before, "c" + round);
    }
    std::vector<settlement> skip;
    for (auto const& r : second.rows) skip.push_back({.row = r.handle, .outcome = outcome::dead});
    store().settle(skip);
    EXPECT_THAT(store().parked_keys(10), SizeIs(1));
    EXPECT_EQ(store().discard({}, 10), 2U);
    auto costs = std::exchange(handles.steps, {});
    run("DELETE FROM outbox_event WHERE status <> 1");
    return costs;
  };
  work("0", 2);  // prepares the statements
  auto const before = work("1", 2);
  auto const after = work("2", 1000);
  ASSERT_EQ(before.size(), after.size());
  for (auto const& [sql, steps] : before) EXPECT_LT(after.at(sql), steps + 50) << sql;
}

// Dead rows in line that stand behind others do not park their keys.
TEST_F(SqliteKeyed, ParkedKeysLooksAtTenThousandDeadRows) {
  auto const work = [&] {
    handles.steps.clear();
    EXPECT_THAT(store().parked_keys(10), SizeIs(1));
    int steps = 0;
    for (auto const& [sql, n] : handles.steps) steps += n;
    return steps;
  };
  put("parks", "z", "status = 3");
  put_keys("head", 10'500);
  put_keys("dead", 10'500, 3);
  auto const before = work();
  put_keys("more", 10'500, 3);
  EXPECT_LT(work(), before + before / 10);
}

// ---- The index

class SqliteKeyIndex : public ::testing::Test {
 protected:
  std::string refusal(sqlite::options o) {
    try {
      sqlite::open(path, std::move(o))->backend().set_keyed(true);
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::store_failure);
      return e.what();
    }
    return "accepted";
  }
  bool has_index() {
    return !sqlite::connection{path}.query<std::string>("SELECT name FROM sqlite_master WHERE name = ?", index).empty();
  }

  temporary_directory dir;
  std::string path = dir / "a.db";
  std::string index = "outbox_event_keyed";
};

TEST_F(SqliteKeyIndex, MarkingMakesIt) {
  auto const store = sqlite::open(path);
  EXPECT_FALSE(has_index()) << "tables of other modes do not pay for it";
  store->backend().set_keyed(true);
  EXPECT_TRUE(has_index());
  EXPECT_TRUE(store->backend().settings().keyed);
  store->backend().set_keyed(true);
  store->backend().set_keyed(false);
  EXPECT_TRUE(has_index()) << "it stays";
  EXPECT_FALSE(store->backend().settings().keyed);
}

TEST_F(SqliteKeyIndex, TheOptionMakesIt) {
  EXPECT_FALSE(sqlite::open(path, {.keyed = true})->backend().settings().keyed) << "it does not mark the table";
  EXPECT_TRUE(has_index());
  sqlite::options o;
  o.table = index = "other";
  index += "_keyed";
  o.keyed = true;
  sqlite::migrate(path, o);
  EXPECT_TRUE(has_index());
  sqlite::migrate(path, o);
}

TEST_F(SqliteKeyIndex, AStoreThatMayNotMakeItSaysHow) {
  sqlite::migrate(path);
  auto const text = refusal({.migrate = false});
  EXPECT_THAT(text, HasSubstr("outbox::sqlite::migrate()"));
  auto const statement = text.substr(text.find("CREATE INDEX"));
  EXPECT_FALSE(sqlite::open(path)->backend().settings().keyed);
  sqlite::connection{path}.execute(statement);
  EXPECT_EQ(refusal({.migrate = false}), "accepted");
  EXPECT_TRUE(sqlite::open(path)->backend().settings().keyed);
}

TEST_F(SqliteKeyIndex, AStoreThatOnlyReadsMarksNothing) {
  sqlite::migrate(path);
  EXPECT_THAT(refusal({.read_only = true}), HasSubstr("CREATE INDEX"));
  EXPECT_FALSE(has_index());
}

TEST_F(SqliteKeyIndex, TheTextOfTheSchemaHasIt) {
  EXPECT_THAT(sqlite::schema_of(path, {.keyed = true}).sql, HasSubstr("CREATE INDEX outbox_event_keyed"));
  EXPECT_THAT(sqlite::schema_of(path).sql, ::testing::Not(HasSubstr("outbox_event_keyed")));
}

}  // namespace
}  // namespace outbox
