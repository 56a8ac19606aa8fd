// Order, suspects and the dispatch lock on a server.
#include "server_fixture.hpp"

namespace outbox {
namespace {

// What came first may still be under way: nothing that was written after it overtakes it.
TEST_F(PostgresServer, I5_OrderWaitsForATransactionThatBeganEarlier) {
  auto const s = db.open();
  auto n = multi_node(options(s));
  postgres::connection slow{db.connection()};
  postgres::transaction first{slow};
  n.writer().write(first, "t", "1", {.id = "first"});
  first.flush();
  write(n, "second");
  claim_request r{.token = "n/1", .lease = 30s, .in_order = true};
  auto const waiting = s->backend().claim(r);
  EXPECT_THAT(waiting.rows, IsEmpty());
  ASSERT_TRUE(waiting.next_due);
  EXPECT_LT(*waiting.next_due - waiting.now, 1s) << "it asks again soon";
  first.commit();
  ASSERT_TRUE(earlier_transactions_end());
  r.token = "n/2";
  auto const reply = s->backend().claim(r);
  ASSERT_EQ(reply.rows.size(), 2U);
  EXPECT_EQ(reply.rows[0].handle.id, "first");
  EXPECT_EQ(reply.rows[1].handle.id, "second");
}

// A number from another server, which a dump or a replica brought along: it says nothing here.
TEST_F(PostgresServer, I1_OrderDoesNotWaitForATransactionOfAnotherServer) {
  auto const s = db.open();
  auto n = multi_node(options(s));
  write(n, "a");
  ASSERT_TRUE(earlier_transactions_end());
  db.execute("UPDATE " + db.table() + " SET written_by = '9000000000000'");
  EXPECT_EQ(s->backend().claim({.token = "n/1", .lease = 30s, .in_order = true}).rows.size(), 1U);
}

// Rows that a claim must leave do not hide the ones behind them, however many they are.
TEST_F(PostgresServer, SuspectsDoNotHideWhatIsBehindThem) {
  auto const s = db.open();
  db.execute(
      "INSERT INTO " + db.table() +
      " (event_id, event_type, payload, status, available_at, created_at, crashes) SELECT 's' || i, 't', '1', 0, "
      "now() - interval '1 h', now(), 3 FROM generate_series(1, 3000) i");
  db.execute(
      "INSERT INTO " + db.table() +
      " (event_id, event_type, payload, status, available_at, created_at) VALUES ('good', 't', '1', 0, now(), now())");
  auto const reply = s->backend().claim({.token = "n/1", .limit = 50, .lease = 30s, .max_crashes = 4});
  ASSERT_EQ(reply.rows.size(), 1U);
  EXPECT_EQ(reply.rows[0].handle.id, "good");
  EXPECT_TRUE(reply.suspects_waiting);
  EXPECT_EQ(db.ask("SELECT count(*) FROM " + db.table() + " WHERE locked_by IS NOT NULL"), "1");
}

TEST_F(PostgresServer, ALostDispatchLockIsNoticedAndTakenOver) {
  auto const named = [&](std::string const& name) {
    return postgres::open(db.connection() + " application_name=" + name, db.options());
  };
  auto const make = [&](std::string const& name) {
    single_node_options o{.store = named(name), .log = nullptr};
    o.poll.every = 20ms;
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    return single_node(std::move(o));
  };
  auto first = make("first_node");
  first.start();
  ASSERT_TRUE(eventually([&] { return first.health().active; }));
  auto second = make("second_node");
  second.start();
  // Either may be the quicker one to ask for the lock again.
  ASSERT_TRUE(eventually([&] {
    end_sessions("first_node");
    return second.health().active;
  }));
  EXPECT_TRUE(eventually([&] { return !first.health().active; })) << "it has noticed";
  write(second, "a");
  ASSERT_TRUE(seen.reach(1));
  EXPECT_TRUE(settled());
}

// As a schema per tenant is made: by copying a template, with all that is in it.
class PostgresCopies : public PostgresServer {
 protected:
  void make_copy(std::string const& schema, std::string const& of) {
    static_cast<void>(postgres::open(db.connection(), options_in(schema)));
    db.execute("UPDATE " + schema + ".outbox_meta SET value = (SELECT value FROM " + of +
               ".outbox_meta WHERE name = 'table_id') WHERE name = 'table_id'");
  }
  postgres::options options_in(std::string const& schema) {
    auto o = db.options();
    o.schema = schema;
    o.log = [this](log_line const& line) {
      std::lock_guard const lock{mutex};
      said.push_back(line.text());
    };
    return o;
  }
  std::shared_ptr<outbox::store> open_in(std::string const& schema) {
    return postgres::open(db.connection(), options_in(schema));
  }
  std::vector<std::string> about_older() {
    std::lock_guard const lock{mutex};
    std::vector<std::string> lines;
    std::ranges::copy_if(said, std::back_inserter(lines),
                         [](auto const& line) { return line.find("earlier version") != std::string::npos; });
    return lines;
  }
  // What earlier versions ask for.
  std::string older_key(std::string const& schema) {
    return "hashtextextended('outbox dispatch ' || (SELECT value FROM " + schema +
           ".outbox_meta WHERE name = 'table_id') || '/' || (SELECT oid FROM pg_database WHERE datname = "
           "current_database()), 0)";
  }

  postgres_database second;
  std::mutex mutex;
  std::vector<std::string> said;
};

TEST_F(PostgresCopies, EachHasItsOwnDispatchLock) {
  auto const a = open_in(db.schema());
  make_copy(second.schema(), db.schema());
  auto const b = open_in(second.schema());
  auto const first = a->backend().try_dispatch_lock("a", 30s);
  ASSERT_TRUE(first);
  EXPECT_TRUE(b->backend().try_dispatch_lock("b", 30s));
  EXPECT_FALSE(a->backend().try_dispatch_lock("c", 30s)) << "one each";
  EXPECT_THAT(about_older(), IsEmpty());
}

TEST_F(PostgresCopies, EachHasItsOwnChannel) {
  auto const a = open_in(db.schema());
  make_copy(second.schema(), db.schema());
  auto with_notify = [&](std::string const& schema) {
    auto o = options_in(schema);
    o.notify = true;
    return postgres::open(db.connection(), o);
  };
  auto const heard = with_notify(db.schema());
  auto const other = with_notify(second.schema());
  change_counter heard_changes{*heard};
  change_counter other_changes{*other};
  heard->backend().hint();
  ASSERT_TRUE(eventually([&] { return heard_changes.count() > 0; }));
  other->backend().hint();
  ASSERT_TRUE(eventually([&] { return other_changes.count() > 0; }));
  EXPECT_EQ(other_changes.count(), 1U) << "the hint of the first store is not its own";
  // Programs that know the channel of earlier versions.
  auto const now = heard_changes.count();
  db.execute(
      "SELECT pg_notify('outbox_' || replace(value, '-', '') || (SELECT oid FROM pg_database WHERE datname = "
      "current_database()), '') FROM " +
      db.table("outbox_meta") + " WHERE name = 'table_id'");
  EXPECT_TRUE(eventually([&] { return heard_changes.count() != now; }));
}

TEST_F(PostgresCopies, ANodeOfTheOlderVersionAndANewOneExcludeEachOther) {
  auto const s = open_in(db.schema());
  make_copy(second.schema(), db.schema());
  auto const copy = open_in(second.schema());
  postgres_database older;  // its session is the older node's
  auto const take = "SELECT pg_try_advisory_lock(" + older_key(db.schema()) + ")";
  ASSERT_EQ(older.ask(take), "t");
  EXPECT_FALSE(s->backend().try_dispatch_lock("n", 30s));
  EXPECT_FALSE(s->backend().try_dispatch_lock("n", 30s));
  EXPECT_THAT(about_older(), ElementsAre(HasSubstr("stands by"))) << "once";
  EXPECT_FALSE(copy->backend().try_dispatch_lock("n", 30s)) << "it is unknown which copy the older node works on";
  older.execute("SELECT pg_advisory_unlock_all()");
  auto lock = s->backend().try_dispatch_lock("n", 30s);
  ASSERT_TRUE(lock);
  EXPECT_EQ(older.ask(take), "f");
  lock.reset();
  EXPECT_TRUE(eventually([&] { return older.ask(take) == "t"; }));
}

// The registry of nodes does not grow: a heartbeat deletes rows of the day before, except the node's own, which is old
// if the machine has slept.
TEST_F(PostgresServer, AHeartbeatForgetsTheNodesOfYesterday) {
  auto const s = db.open();
  for (auto const* incarnation : {"yesterday", "mine", "live"}) s->backend().heartbeat({.incarnation = incarnation});
  db.execute("UPDATE " + db.table("outbox_node") +
             " SET lease_until = now() - interval '25 hours' WHERE incarnation <> 'live'");
  s->backend().heartbeat({.incarnation = "mine", .lease = 1min});
  EXPECT_EQ(db.ask("SELECT string_agg(incarnation, ' ' ORDER BY incarnation) FROM " + db.table("outbox_node")),
            "live mine");
  EXPECT_EQ(db.ask("SELECT lease_until > now() FROM " + db.table("outbox_node") + " WHERE incarnation = 'mine'"), "t");
}

}  // namespace
}  // namespace outbox
