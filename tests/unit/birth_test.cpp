// Rules 1 and 2: events that are born with an owner, and when they are handed over at commit.
#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

class Birth : public ::testing::Test {
 protected:
  void SetUp() override { n.open(); }
  table db;
  stepper n{db};
};

TEST_F(Birth, R1_ACommittedEventIsHandedOverWithoutATouchOfTheStore) {
  n.commit("a");
  EXPECT_THAT(n.asked, IsEmpty());
  EXPECT_EQ(n.counters().hot_enqueued, 1U);
  EXPECT_EQ(n.deliver(), "a");
  EXPECT_TRUE(n.settle());
  EXPECT_EQ(db.row("a").status, event_status::delivered);
}

TEST_F(Birth, R1_TheRowCarriesATokenAndALease) {
  n.commit("a");
  EXPECT_THAT(db.row("a").locked_by, ::testing::StartsWith("n/"));
  EXPECT_EQ(db.row("a").lease_until, db.clock->now() + 30s);
}

TEST_F(Birth, R1_EachWriteHasATokenOfItsOwn) {
  n.commit("a");
  n.commit("b");
  EXPECT_NE(db.row("a").locked_by, db.row("b").locked_by);
}

TEST_F(Birth, R1_TheSlotIsTakenBeforeTheCommit) {
  memory::transaction tx{*db.store};
  n.write(tx, "a");
  EXPECT_EQ(n.look([](engine& e) { return e.used().hot_used(); }), 1U);
  EXPECT_EQ(n.deliver(), "") << "but nothing is handed over";
  tx.rollback();
  EXPECT_EQ(n.look([](engine& e) { return e.used().hot_used(); }), 0U);
}

TEST_F(Birth, I2_ARolledBackEventIsNeverHandedOver) {
  {
    memory::transaction tx{*db.store};
    n.write(tx, "a");
  }
  EXPECT_EQ(n.deliver(), "");
  n.poll_all();
  EXPECT_EQ(n.deliver(), "");
}

TEST_F(Birth, I8_WithoutASlotTheEventIsLeftToThePoller) {
  stepper small{db, "s", [](node_settings& s) { s.queue.hot = 2; }};
  small.open();
  small.poll_all();
  memory::transaction tx{*db.store};
  for (auto const* id : {"a", "b", "c"}) small.write(tx, id);
  tx.commit();
  EXPECT_EQ(small.counters().hot_dropped, 1U);
  EXPECT_EQ(db.row("c").locked_by, "");
  EXPECT_THAT(small.log, ElementsAre(HasSubstr("warning: the hot path is full")));
  EXPECT_TRUE(small.poll()) << "the commit woke the poller";
  EXPECT_THAT(small.deliver_all(), ::testing::UnorderedElementsAre("a", "b", "c"));
}

TEST_F(Birth, I8_BytesCountToo) {
  stepper small{db, "s", [](node_settings& s) { s.queue.bytes = 64 << 10; }};
  small.open();
  memory::transaction tx{*db.store};
  auto const large = event::json("t", '"' + std::string(20 << 10, 'x') + '"', {.id = "a"});
  auto const second = event::json("t", '"' + std::string(20 << 10, 'x') + '"', {.id = "b"});
  small.core->write(join(tx), std::span{&large, 1});
  small.core->write(join(tx), std::span{&second, 1});
  tx.commit();
  EXPECT_EQ(small.counters().hot_dropped, 1U) << "half of the bytes are the hot path's";
}

TEST_F(Birth, R1_AFullHotPathIsLoggedOnce) {
  stepper small{db, "s", [](node_settings& s) { s.queue.hot = 1; }};
  small.open();
  for (auto const* id : {"a", "b", "c"}) small.commit(id);
  EXPECT_EQ(small.counters().hot_dropped, 2U);
  EXPECT_THAT(small.log, SizeIs(1));
}

TEST_F(Birth, R1_ADelayedEventWaitsInTheTable) {
  n.poll_all();
  n.commit("a", {.deliver_after = 1s});
  EXPECT_EQ(n.counters().hot_skipped_delayed, 1U);
  EXPECT_EQ(db.row("a").locked_by, "");
  EXPECT_FALSE(n.poll()) << "nothing is due";
  n.advance(1001ms);
  EXPECT_TRUE(n.poll()) << "the poller knows when, long before its interval is over";
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(Birth, R1_WithoutARouteTheEventIsLeftToThePoller) {
  memory::transaction tx{*db.store};
  n.write(tx, "a", {}, "nobody.listens");
  tx.commit();
  EXPECT_EQ(db.row("a").locked_by, "");
}

TEST_F(Birth, R1_ANodeThatDoesNotRunOwnsNothing) {
  stepper idle{db, "idle"};
  idle.commit("a");
  EXPECT_EQ(db.row("a").locked_by, "");
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(Birth, R1_TheHotPathCanBeOff) {
  stepper cold{db, "cold", [](node_settings& s) {
                 s.hot_path = false;
                 s.queue.hot = 1;
               }};
  cold.open();
  cold.poll_all();
  for (auto const* id : {"a", "b"}) cold.commit(id);
  EXPECT_EQ(db.row("a").locked_by, "");
  EXPECT_TRUE(cold.poll());
  EXPECT_EQ(cold.deliver(), "a");
  EXPECT_EQ(cold.counters().hot_dropped, 0U);
  EXPECT_THAT(cold.log, IsEmpty()) << "what is off cannot be full";
}

TEST_F(Birth, R1_AFailedInsertEndsTheRegistration) {
  db.put("a");
  memory::transaction tx{*db.store};
  EXPECT_THROW(n.write(tx, "a"), error);
  EXPECT_EQ(n.look([](engine& e) { return e.used().hot_used(); }), 0U);
  n.write(tx, "b");
  tx.commit();
  EXPECT_EQ(n.deliver(), "b");
  EXPECT_EQ(n.deliver(), "");
}

TEST_F(Birth, I2_ACommitInDoubtHandsNothingOver) {
  db.next_commit = memory::commit_fate::lost_applied;
  memory::transaction tx{*db.store};
  n.write(tx, "a");
  try {
    tx.commit();
    FAIL() << "committed";
  } catch (error const& e) {
    EXPECT_TRUE(e.in_doubt());
  }
  EXPECT_EQ(n.deliver(), "");
  EXPECT_TRUE(n.poll());
  EXPECT_THAT(n.asked, ElementsAre(testing::operation::release)) << "given back at once";
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a") << "the poller decides";
  EXPECT_EQ(db.row("a").crashes, 0);
}

TEST_F(Birth, R1_WhatIsInDoubtIsReleasedAtEachRenewalUntilItsLeaseIsOver) {
  db.next_commit = memory::commit_fate::lost_undone;
  memory::transaction tx{*db.store};
  n.write(tx, "a");
  EXPECT_THROW(tx.commit(), error);
  n.poll_all();
  std::size_t releases = 0;
  for (int i = 0; i < 20; ++i) {
    n.advance(7500ms);
    n.asked.clear();
    n.renew();
    releases += static_cast<std::size_t>(std::ranges::count(n.asked, testing::operation::release));
  }
  EXPECT_GE(releases, 4U);
  EXPECT_LE(releases, 9U);
}

TEST_F(Birth, R1_WhatSurelyCommittedIsReleasedOnce) {
  memory::transaction tx{*db.store};
  n.write(tx, "a");
  n.advance(16s);
  tx.commit();  // too late to keep it
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a");
  n.settle();
  n.asked.clear();
  for (int i = 0; i < 5; ++i) {
    n.advance(7500ms);
    n.renew();
  }
  EXPECT_THAT(n.asked, ::testing::Not(::testing::Contains(testing::operation::release)));
}

TEST_F(Birth, R1_TheRowOfATransactionThatTookHalfALeaseIsReleased) {
  memory::transaction tx{*db.store};
  n.write(tx, "a");
  n.advance(16s);
  tx.commit();
  EXPECT_EQ(n.deliver(), "") << "no longer surely ours";
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(db.row("a").locked_by, "") << "released";
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "a");
  EXPECT_EQ(db.row("a").crashes, 0);
}

TEST_F(Birth, R1_TheRenewerTakesTheSlotOfALongTransactionBack) {
  memory::transaction tx{*db.store};
  n.write(tx, "a");
  n.advance(16s);
  n.renew();
  EXPECT_EQ(n.look([](engine& e) { return e.used().hot_used(); }), 0U);
  tx.commit();
  EXPECT_EQ(n.deliver(), "");
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(Birth, I2_ASavepointThatWasRolledBackIsNotHandedOver) {
  memory::transaction tx{*db.store};
  n.write(tx, "a");
  tx.savepoint("s");
  n.write(tx, "b");
  tx.rollback_to("s");
  n.write(tx, "c");
  tx.commit();
  EXPECT_THAT(n.deliver_all(), ElementsAre("a", "c"));
  EXPECT_EQ(n.look([](engine& e) { return e.used().hot_used(); }), 2U) << "b's slot is free";
}

TEST_F(Birth, I2_AnIdThatIsWrittenAgainAfterASavepointIsDeliveredAsItWasCommitted) {
  memory::transaction tx{*db.store};
  tx.savepoint("s");
  auto const first = event::json("t", "\"undone\"", {.id = "a"});
  n.core->write(join(tx), std::span{&first, 1});
  tx.rollback_to("s");
  auto const second = event::json("t", "\"kept\"", {.id = "a"});
  n.core->write(join(tx), std::span{&second, 1});
  tx.commit();
  n.poll_all();
  auto const t = n.start();
  ASSERT_TRUE(t);
  EXPECT_EQ(t->event.payload(), "\"kept\"");
  EXPECT_FALSE(n.start());
}

TEST_F(Birth, R2_ATransactionThatCannotReportItsEndMakesNoHotEvents) {
  memory::transaction tx{*db.store};
  auto const real = join(tx);
  static transaction_ref const* inner = nullptr;
  inner = &real;
  static constexpr transaction_operations silent{
      .kind = "memory",
      .active = [](void const*) noexcept { return inner->active(); },
      .enlist = [](void*, std::shared_ptr<transaction_observer>) { return false; },
      .run = [](void* t, void (*use)(void*, void*), void* what) { use(what, t); }};
  auto const e = event::json("t", "1", {.id = "a"});
  n.core->write(transaction_ref{&tx, silent}, std::span{&e, 1});
  EXPECT_EQ(n.look([](engine& g) { return g.used().hot_used(); }), 0U);
  tx.commit();
  EXPECT_EQ(db.row("a").locked_by, "");
  EXPECT_EQ(n.deliver(), "");
}

TEST_F(Birth, I9_WritingOutsideATransactionIsRefusedBeforeAnything) {
  memory::transaction tx{*db.store};
  tx.commit();
  try {
    n.write(tx, "a");
    FAIL() << "written";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::no_transaction);
  }
  EXPECT_FALSE(db.store->inspect().find("a"));
  EXPECT_EQ(n.look([](engine& g) { return g.used().hot_used(); }), 0U);
}

TEST_F(Birth, I11_TheNodesOwnLimitsAreChecked) {
  stepper strict{db, "s", [](node_settings& s) { s.limits.payload_bytes = 10; }};
  strict.open();
  memory::transaction tx{*db.store};
  auto const e = event::json("t", "\"more than ten\"", {.id = "a"});
  try {
    strict.core->write(join(tx), std::span{&e, 1});
    FAIL() << "written";
  } catch (error const& err) {
    EXPECT_EQ(err.field(), "payload");
  }
}

TEST_F(Birth, R1_WriteAllIsOneBirth) {
  std::vector<event> events;
  for (auto const* id : {"a", "b", "c"}) events.push_back(event::json("t", "1", {.id = id}));
  memory::transaction tx{*db.store};
  auto const ids = n.core->write(join(tx), events);
  tx.commit();
  ASSERT_THAT(ids, SizeIs(3));
  EXPECT_EQ(ids[1].str(), "b");
  EXPECT_EQ(db.row("a").locked_by, db.row("c").locked_by);
  EXPECT_THAT(n.deliver_all(), ElementsAre("a", "b", "c"));
}

TEST_F(Birth, I9_ATransactionMayOutliveItsNode) {
  memory::transaction tx{*db.store};
  {
    stepper gone{db, "gone"};
    gone.open();
    gone.write(tx, "a");
  }
  tx.commit();
  EXPECT_THAT(db.row("a").locked_by, ::testing::StartsWith("gone/"));
  n.advance(30001ms);
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a") << "the lease of the node that is gone ran out";
}

// What a transaction writes that is open when its node stops.
class Stopping : public Birth {
 protected:
  void SetUp() override {
    Birth::SetUp();
    n.write(tx, "a");
  }
  memory::transaction tx{*db.store};
};

TEST_F(Stopping, I1_WhatIsCommittedWhileTheNodeDrainsIsDelivered) {
  n.look([&](engine& e) { e.close(n.now()); });
  EXPECT_EQ(n.look([](engine& e) { return e.open_births(); }), 1U) << "the stop waits for it";
  tx.commit();
  EXPECT_EQ(n.deliver(), "a");
  n.settle();
  EXPECT_EQ(n.look([](engine& e) { return e.open_births(); }), 0U);
  EXPECT_EQ(db.row("a").status, event_status::delivered);
}

TEST_F(Stopping, I10_WhatIsCommittedAfterTheDeadlineIsGivenBackAtOnce) {
  n.look([&](engine& e) {
    e.close(n.now());
    e.release_queued(n.now());
  });
  tx.commit();
  EXPECT_EQ(n.deliver(), "");
  EXPECT_TRUE(n.renew()) << "without waiting for its turn";
  EXPECT_EQ(db.row("a").locked_by, "");
  EXPECT_EQ(db.row("a").crashes, 0);
}

TEST_F(Stopping, I10_AnEventCommittedDuringAStopIsReleasedIfQueuedEventsAre) {
  n.look([&](engine& e) { e.close(n.now(), stop_queued::release); });
  tx.commit();
  EXPECT_EQ(n.deliver(), "");
  EXPECT_TRUE(n.renew());
  EXPECT_EQ(db.row("a").locked_by, "");
}

TEST_F(Birth, AStopMayReleaseWhatIsQueuedAtOnce) {
  n.commit("runs");
  n.commit("waits");
  auto const running = n.start();
  n.look([&](engine& e) { e.close(n.now(), stop_queued::release); });
  EXPECT_EQ(n.deliver(), "") << "nothing new begins";
  n.finish(running, done);
  n.settle();
  EXPECT_EQ(db.row("runs").status, event_status::delivered);
  EXPECT_EQ(db.row("waits").locked_by, "");
}

// The same event again, in another transaction, while the node has not seen how the first one ended: on PostgreSQL a
// ROLLBACK looks like a ROLLBACK TO, and a lost connection like nothing at all.
class WrittenAgain : public Birth {
 protected:
  void SetUp() override {
    Birth::SetUp();
    n.write(first, "a");
    memory::transaction second{*db.store};
    n.write(second, "a");
    second.commit();
    n.poll_all();
  }
  memory::transaction first{*db.store};
};

TEST_F(WrittenAgain, I10_TheClaimedRowIsDeliveredAtOnce) {
  EXPECT_EQ(n.deliver(), "a");
  n.settle();
  EXPECT_EQ(db.row("a").status, event_status::delivered);
  EXPECT_EQ(db.row("a").crashes, 0);
}

TEST_F(WrittenAgain, I7_TheEndOfTheFirstTransactionChangesNothing) {
  auto const running = n.start();
  ASSERT_TRUE(running);
  first.rollback();
  EXPECT_EQ(n.deliver(), "");
  n.finish(running, done);
  n.settle();
  EXPECT_EQ(db.row("a").status, event_status::delivered);
  EXPECT_EQ(n.counters().lost, 0U);
}

TEST_F(WrittenAgain, I7_AFailedCommitOfTheFirstTransactionChangesNothing) {
  EXPECT_THROW(first.commit(), error);
  EXPECT_EQ(n.deliver(), "a");
  EXPECT_EQ(n.deliver(), "");
}

TEST_F(Birth, I10_ACommitWhoseIdWasClaimedMeanwhileIsDeliveredFromTheTable) {
  memory::transaction first{*db.store};
  event const both[] = {event::json("t", "1", {.id = "a"}), event::json("t", "1", {.id = "b"})};
  n.core->write(join(first), both);
  db.put("a");
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a");
  n.settle();
  n.advance(1ms);
  ASSERT_EQ(db.store->backend().purge({.limit = 10}), 1U) << "so that the other row can be committed";
  first.commit();
  EXPECT_EQ(n.deliver(), "") << "what is in doubt goes through the table";
  n.poll_all();
  EXPECT_THAT(n.deliver_all(), ::testing::UnorderedElementsAre("a", "b"));
}

}  // namespace
}  // namespace outbox::core
