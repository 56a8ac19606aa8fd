// Order, suspects and the dispatch lock on a server.
#include "server_fixture.hpp"

namespace outbox {
namespace {

class MysqlDispatch : public MysqlServer {
 protected:
  node single(std::string const& url) {
    single_node_options o{.store = mysql::open(url, db.options()), .log = nullptr};
    o.poll.every = 20ms;
    o.lease.duration = 8s;  // it reports at a quarter of that
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    return single_node(std::move(o));
  }
};

// A transaction that has locked the business row before it writes has its place in the order: the other one waits.
TEST_F(MysqlDispatch, I5_TransactionsThatLockTheirBusinessRowAreDeliveredInTheirOrder) {
  db.execute("CREATE TABLE " + db.table("orders") + " (id int PRIMARY KEY, n int)");
  db.execute("INSERT INTO " + db.table("orders") + " VALUES (1, 0)");
  auto const s = db.open();
  auto w = writer_only({.store = s, .log = nullptr});
  ordered_options o{.store = s, .log = nullptr};
  o.poll.every = 1ms;
  o.listeners.on("t", [this](delivery const& d) { seen.add(d.event.payload()); });
  auto n = ordered(std::move(o));
  n.start();
  constexpr int each = 50;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      mysql::connection c{db.url()};
      for (int j = 0; j < each; ++j) {
        mysql::transaction tx{c};
        tx.execute("UPDATE " + db.table("orders") + " SET n = n + 1 WHERE id = 1");
        auto const number = tx.query<std::int64_t>("SELECT n FROM " + db.table("orders") + " WHERE id = 1").at(0);
        w.writer().write(tx, "t", std::to_string(number), {.aggregate = {"order", "1"}});
        tx.commit();
      }
    });
  }
  threads.clear();
  ASSERT_TRUE(seen.reach(4 * each));
  std::vector<std::string> expected;
  for (int i = 1; i <= 4 * each; ++i) expected.push_back(std::to_string(i));
  EXPECT_EQ(seen.ids(), expected);
}

// What is done does not come again, and does not stand in the way.
TEST_F(MysqlDispatch, I5_OrderGoesOnBehindThousandsOfDoneRows) {
  auto const s = db.open();
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at, done_at) SELECT concat('d', i), 't', "
             "'1', 1, utc_timestamp(6), utc_timestamp(6), utc_timestamp(6) FROM " +
             numbers_to(5000));
  auto n = multi_node(options(s));
  for (int i = 0; i < 5; ++i) write(n, "e" + std::to_string(i));
  claim_request r{.token = "n/1", .limit = 3, .lease = 30s, .in_order = true};
  std::vector<std::string> ids;
  for (int i = 1; i <= 2; ++i) {
    r.token = "n/" + std::to_string(i);
    for (auto const& row : s->backend().claim(r).rows) {
      ids.push_back(row.handle.id);
      settlement const done{.row = row.handle};
      EXPECT_TRUE(s->backend().settle(std::span{&done, 1}).applied.at(0));
    }
  }
  EXPECT_THAT(ids, ElementsAre("e0", "e1", "e2", "e3", "e4"));
}

// Rows that a claim must leave do not hide the ones behind them, however many they are.
TEST_F(MysqlDispatch, SuspectsDoNotHideWhatIsBehindThem) {
  auto const s = db.open();
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at, crashes) SELECT concat('s', i), 't', "
             "'1', 0, utc_timestamp(6) - INTERVAL 1 HOUR, utc_timestamp(6), 3 FROM " +
             numbers_to(3000));
  db.execute("INSERT INTO " + db.table() +
             " (event_id, event_type, payload, status, available_at, created_at) VALUES ('good', 't', '1', 0, "
             "utc_timestamp(6), utc_timestamp(6))");
  auto const reply = s->backend().claim({.token = "n/1", .limit = 50, .lease = 30s, .max_crashes = 4});
  ASSERT_EQ(reply.rows.size(), 1U);
  EXPECT_EQ(reply.rows[0].handle.id, "good");
  EXPECT_TRUE(reply.suspects_waiting);
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE locked_by IS NOT NULL"), "1");
}

TEST_F(MysqlDispatch, ASecondNodeStandsByUntilTheFirstIsGone) {
  std::optional<node> first{single(db.url())};
  first->start();
  ASSERT_TRUE(eventually([&] { return first->health().active; }));
  auto second = single(db.url());
  second.start();
  write(*first, "a");
  ASSERT_TRUE(seen.reach(1));
  EXPECT_FALSE(second.health().active);
  EXPECT_TRUE(second.health().healthy) << second.health().reason;
  EXPECT_TRUE(eventually([&] {
    return db.ask("SELECT count(*) FROM " + db.table("outbox_node") +
                  " WHERE active = 1 AND is_used_lock(lock_key) IS NOT NULL") == "1";
  })) << "an operator finds out who has it";
  first.reset();
  EXPECT_TRUE(eventually([&] { return second.health().active; }));
  write(second, "b");
  ASSERT_TRUE(seen.reach(2));
  EXPECT_TRUE(settled());
}

TEST_F(MysqlDispatch, ALostDispatchLockIsNoticedAndTakenOver) {
  mysql_account one{db, "one"};
  mysql_account two{db, "two"};
  auto first = single(one.url());
  first.start();
  ASSERT_TRUE(eventually([&] { return first.health().active; }));
  auto second = single(two.url());
  second.start();
  // Either may be the quicker one to ask for the lock again.
  ASSERT_TRUE(eventually([&] {
    one.end_sessions();
    return second.health().active;
  }));
  EXPECT_TRUE(eventually([&] { return !first.health().active; })) << "it has noticed";
  write(second, "a");
  ASSERT_TRUE(seen.reach(1));
  EXPECT_TRUE(settled());
}

TEST_F(MysqlDispatch, ALockWhoseSessionWasEndedIsNotHeld) {
  mysql_account user{db};
  auto const s = mysql::open(user.url(), db.options());
  auto const other = db.open();
  auto const lock = s->backend().try_dispatch_lock("n", 30s);
  ASSERT_TRUE(lock);
  EXPECT_TRUE(lock->held());
  EXPECT_FALSE(other->backend().try_dispatch_lock("m", 30s));
  db.execute("KILL " + db.ask("SELECT is_used_lock(?)", lock->key()));
  EXPECT_TRUE(eventually([&] { return !lock->held(); }));
  EXPECT_THROW(lock->expire_others(), error) << "it never ends the leases of the next holder";
  auto const next = other->backend().try_dispatch_lock("m", 30s);
  EXPECT_TRUE(next);
}

// The next holder need not wait for the leases of the one that is gone. Its own it keeps.
TEST_F(MysqlDispatch, TheHolderEndsTheLeasesOfOthers) {
  auto const s = db.open();
  auto n = multi_node(options(s));
  for (auto const* const id : {"a", "b", "c"}) write(n, id);
  for (auto const* const token : {"gone/1", "new/1"}) {
    ASSERT_EQ(s->backend().claim({.token = token, .limit = 1, .lease = 1h}).rows.size(), 1U);
  }
  auto const lock = s->backend().try_dispatch_lock("new", 30s);
  ASSERT_TRUE(lock);
  EXPECT_EQ(lock->expire_others(), 1U);
  EXPECT_EQ(s->backend().claim({.token = "new/2", .lease = 30s}).rows.size(), 2U);
}

// An application may keep a transaction open for as long as it likes. What it has written is nobody's yet.
TEST_F(MysqlDispatch, NothingWaitsForATransactionOfACaller) {
  auto const first = db.open();
  auto w = writer_only({.store = first, .log = nullptr});
  for (auto const* const id : {"a", "b", "c", "d", "e"}) write(w, id, {.aggregate = {"order", "1"}});
  auto with_index = db.options();
  with_index.keyed = true;  // only making it waits
  mysql::migrate(db.url(), with_index);
  mysql::transaction open_one{caller};
  auto const mine = event::json("t", "1", {.id = "mine", .aggregate = {"order", "1"}});
  auto const other = event::json("t", "1", {.id = "other", .aggregate = {"order", "1"}});
  for (auto const& row : {insertion{.event = &mine, .token = "n/9", .lease = 20s}, insertion{.event = &other}}) {
    first->backend().insert(join(open_one), std::span{&row, 1});
  }
  auto o = db.options();
  o.timeout = 1s;
  auto const s = mysql::open(db.url(), o);
  auto& b = s->backend();
  auto const rows = b.claim({.token = "n/1", .limit = 3, .lease = 30s, .keyed = true}).rows;
  ASSERT_EQ(rows.size(), 3U);
  std::vector<row_handle> const handles{rows[0].handle, rows[1].handle};
  EXPECT_NO_THROW(EXPECT_THAT(b.renew(handles, 30s), ElementsAre(true, true)));
  EXPECT_NO_THROW(b.set_keyed(true));
  EXPECT_NO_THROW(EXPECT_EQ(b.claim({.token = "n/3", .lease = 30s, .keyed = true}).noted, 2U));
  EXPECT_NO_THROW(EXPECT_THAT(b.places(std::vector<std::string>{"b"}).at(0).before, "a"));
  settlement const delivered{.row = rows[0].handle, .key = rows[0].key, .seq = rows[0].seq};
  EXPECT_NO_THROW(EXPECT_TRUE(b.settle(std::span{&delivered, 1}).applied.at(0)));
  settlement const dead{.row = rows[1].handle, .outcome = outcome::dead};
  EXPECT_NO_THROW(EXPECT_TRUE(b.settle(std::span{&dead, 1}).applied.at(0)));
  EXPECT_NO_THROW(EXPECT_EQ(b.release(std::vector<owner_token>{"n/1"}, 30s), 1U));
  auto const lock = b.try_dispatch_lock("m", 30s);
  ASSERT_TRUE(lock);
  EXPECT_NO_THROW(lock->expire_others());
  EXPECT_NO_THROW(EXPECT_EQ(b.replay({.ids = {"b"}}, 10), 1U));
  EXPECT_NO_THROW(EXPECT_EQ(b.cancel({.event_type = "t"}, "enough", 10), 4U));
  EXPECT_NO_THROW(EXPECT_EQ(b.replay({.key = rows[0].key}, 1), 1U));
  EXPECT_NO_THROW(EXPECT_EQ(b.discard({.ids = {"e"}}, 1), 1U));
  EXPECT_NO_THROW(b.heal(10));
  EXPECT_NO_THROW(b.set_keyed(false));
  EXPECT_NO_THROW(EXPECT_EQ(b.purge({.ids = {"e"}}, 10), 1U));
  EXPECT_NO_THROW(EXPECT_EQ(b.purge({.retention = 0s}), 3U));
  EXPECT_NO_THROW(EXPECT_EQ(b.claim({.token = "n/2", .lease = 30s, .in_order = true}).rows.size(), 1U));
  EXPECT_NO_THROW(EXPECT_EQ(b.purge_by_age({.age = 0s}), 1U));
  EXPECT_NO_THROW(b.heartbeat({.incarnation = "m", .lease = 1min}));
  EXPECT_NO_THROW(b.pause({.event_type = "x"}));
  EXPECT_NO_THROW(b.set_keyed(true));
  EXPECT_EQ(s->inspect().counts().pending(), 0U);
  open_one.commit();
  EXPECT_EQ(s->inspect().counts().pending(), 2U);
}

// As a database per tenant is made: by copying a template, with all that is in it.
TEST_F(MysqlDispatch, CopiesOfADatabaseHaveEachTheirOwnDispatchLock) {
  mysql_database second;
  auto const a = db.open();
  static_cast<void>(second.open());
  second.execute("UPDATE " + second.table("outbox_meta") + " SET value = ? WHERE name = 'table_id'",
                 db.ask("SELECT value FROM " + db.table("outbox_meta") + " WHERE name = 'table_id'"));
  auto const b = second.open();
  auto const first = a->backend().try_dispatch_lock("a", 30s);
  ASSERT_TRUE(first);
  EXPECT_TRUE(b->backend().try_dispatch_lock("b", 30s));
  EXPECT_FALSE(a->backend().try_dispatch_lock("c", 30s)) << "one each";
}

TEST_F(MysqlDispatch, TwoTablesOfADatabaseHaveEachTheirOwnDispatchLock) {
  auto o = db.options();
  auto const a = mysql::open(db.url(), o);
  o.table = "mine";
  auto const b = mysql::open(db.url(), o);
  auto const first = a->backend().try_dispatch_lock("a", 30s);
  ASSERT_TRUE(first);
  EXPECT_TRUE(b->backend().try_dispatch_lock("b", 30s));
}

// The registry of nodes does not grow: a heartbeat deletes rows of the day before, except the node's own, which is old
// if the machine has slept.
TEST_F(MysqlDispatch, AHeartbeatForgetsTheNodesOfYesterday) {
  auto const s = db.open();
  for (auto const* incarnation : {"yesterday", "mine", "live"}) s->backend().heartbeat({.incarnation = incarnation});
  db.execute("UPDATE " + db.table("outbox_node") +
             " SET lease_until = utc_timestamp(6) - INTERVAL 25 HOUR WHERE incarnation <> 'live'");
  s->backend().heartbeat({.incarnation = "mine", .lease = 1min});
  EXPECT_EQ(
      db.ask("SELECT group_concat(incarnation ORDER BY incarnation SEPARATOR ' ') FROM " + db.table("outbox_node")),
      "live mine");
  EXPECT_EQ(
      db.ask("SELECT lease_until > utc_timestamp(6) FROM " + db.table("outbox_node") + " WHERE incarnation = 'mine'"),
      "1");
}

TEST_F(MysqlDispatch, AHeartbeatDoesNotWaitForThatOfAnotherNode) {
  auto o = db.options();
  o.timeout = 1s;
  auto const s = mysql::open(db.url(), o);
  for (auto const* incarnation : {"one", "two"}) s->backend().heartbeat({.incarnation = incarnation, .lease = 1min});
  mysql::transaction of_two{caller};
  of_two.execute("UPDATE " + db.table("outbox_node") + " SET held = 5 WHERE incarnation = 'two'");
  EXPECT_NO_THROW(s->backend().heartbeat({.incarnation = "one", .lease = 1min}));
}

}  // namespace
}  // namespace outbox
