// Rule 9: the modes in which one node works and the others stand by.
#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

using namespace spi;

void exclusive(node_settings& s) {
  s.exclusive = true;
  s.mode = node_mode::single_node;
}

class Standby : public ::testing::Test {
 protected:
  table db;
};

TEST_F(Standby, R9_TheSecondWaitsAndTakesOverAtOnce) {
  auto first = std::make_unique<stepper>(db, "first", exclusive);
  stepper second{db, "second", exclusive};
  first->open();
  second.open();
  first->poll_all();
  second.poll_all();
  EXPECT_TRUE(first->look([](engine& e) { return e.active(); }));
  EXPECT_FALSE(second.look([](engine& e) { return e.active(); }));
  EXPECT_THAT(second.log, ElementsAre(HasSubstr("standing by")));

  first->commit("a");
  first.reset();  // crashes with the event in its queue
  db.clock->advance(1001ms);
  second.poll_all();
  EXPECT_TRUE(second.look([](engine& e) { return e.active(); }));
  EXPECT_EQ(second.deliver(), "a") << "no lease was waited for";
}

TEST_F(Standby, R9_AStandbyOwnsNoBirths) {
  stepper first{db, "first", exclusive};
  stepper second{db, "second", exclusive};
  first.open();
  second.open();
  first.poll_all();
  second.poll_all();
  second.commit("a");
  EXPECT_EQ(db.row("a").locked_by, "");
  db.clock->advance(6s);
  first.poll_all();
  EXPECT_EQ(first.deliver(), "a");
}

TEST_F(Standby, R9_AHolderThatSaidFarewellDoesNotBlockTheSecond) {
  auto first = std::make_unique<stepper>(db, "first", exclusive);
  stepper second{db, "second", exclusive};
  first->open();
  first->poll_all();
  first->core->farewell();
  second.open();
  second.poll_all();
  EXPECT_TRUE(second.look([](engine& e) { return e.active(); }));
}

TEST_F(Standby, R9_NoBirthIsOwnedBeforeTheOldLeasesAreEnded) {
  stepper n{db, "n", exclusive};
  n.open();
  n.commit("a");
  EXPECT_EQ(db.row("a").locked_by, "");
  n.poll_all();
  n.commit("b");
  EXPECT_NE(db.row("b").locked_by, "");
}

// A dispatch lock that is a lease of 30 s, as the rows have.
class LeasedLock : public ::testing::Test {
 protected:
  bool active(stepper& n) {
    return n.look([](engine& e) { return e.active(); });
  }
  table db{.lock = lock_kind::lease};
  stepper first{db, "first", exclusive};
  stepper second{db, "second", exclusive};
};

TEST_F(LeasedLock, R9_TheRenewerKeepsIt) {
  first.open();
  first.poll_all();
  ASSERT_TRUE(active(first));
  for (int i = 0; i < 10; ++i) {
    db.clock->advance(8s);
    first.renew();
  }
  first.poll_all();
  EXPECT_TRUE(active(first));
  second.open();
  second.poll_all();
  EXPECT_FALSE(active(second));
}

TEST_F(LeasedLock, R9_ANodeThatDoesNotRenewItStandsBy) {
  first.open();
  first.poll_all();
  second.open();
  second.poll_all();
  db.clock->advance(31s);
  second.poll_all();
  EXPECT_TRUE(active(second));
  first.renew();
  EXPECT_FALSE(active(first)) << "its renewal has found the lock gone";
  first.poll_all();
  EXPECT_FALSE(active(first));
  EXPECT_TRUE(active(second));
}

// The answer is not known: the lock is kept for as long as its lease lasts, and the next renewal decides.
TEST_F(LeasedLock, R9_ARenewalThatFailsIsRepeated) {
  first.open();
  first.poll_all();
  db.clock->advance(8s);
  first.fail_next(testing::operation::renew_lock, testing::fault::before);
  first.renew();
  EXPECT_TRUE(active(first));
  db.clock->advance(8s);
  first.renew();
  db.clock->advance(20s);
  first.poll_all();
  EXPECT_TRUE(active(first)) << "renewed 20 s ago";
}

TEST_F(LeasedLock, R9_WithoutRenewalItIsOverInTime) {
  first.open();
  first.poll_all();
  for (int i = 0; i < 4; ++i) {
    first.fail_next(testing::operation::renew_lock, testing::fault::before);
    db.clock->advance(8s);
    first.renew();
  }
  EXPECT_FALSE(active(first));
  EXPECT_THAT(first.log, ::testing::Contains(HasSubstr("the dispatch lock was lost")));
}

// A lock that is a session's may be lost while the node lives.
class LostLock : public ::testing::Test {
 protected:
  LostLock() {
    node.open();
    node.poll_all();
  }
  // A row that is there, claimed and under way.
  ticket_ptr run_one() {
    db.put("a");
    node.look([](engine& e) { e.ask_poll(); });
    node.poll_all();
    return node.start();
  }
  void lose() {
    node.look([&](engine& e) { e.lock_lost(node.now()); });
  }
  void regain() {
    node.look([&](engine& e) {
      e.apply_lock(true, node.now());
      e.apply_expired(0, node.now());
    });
  }

  table db;
  stepper node{db, "n", exclusive};
};

TEST_F(LostLock, R9_WhatIsQueuedIsGivenBack) {
  db.put("a");
  db.put("b");
  node.look([](engine& e) { e.ask_poll(); });
  node.poll_all();
  ASSERT_EQ(node.deliver(), "a");
  lose();
  EXPECT_FALSE(node.start()) << "the holder of the lock delivers it";
  node.settle();
  EXPECT_EQ(db.row("a").status, event_status::delivered) << "a finished event is settled as usual";
  EXPECT_EQ(db.row("b").locked_by, "");
}

TEST_F(LostLock, R9_WhatAClaimBringsAfterwardsIsGivenBack) {
  db.put("a");
  node.look([](engine& e) { e.ask_poll(); });
  auto const claim = node.core->plan_poll();
  ASSERT_TRUE(claim.request);
  auto reply = node.core->ask(*claim.request);
  lose();
  node.core->apply(*claim.request, std::move(reply));
  EXPECT_FALSE(node.start());
  node.settle();
  EXPECT_EQ(db.row("a").locked_by, "");
}

TEST_F(LostLock, R9_WhatIsCommittedAfterwardsIsThePollers) {
  memory::transaction tx{*db.store};
  node.write(tx, "a");
  lose();
  tx.commit();
  EXPECT_FALSE(node.start());
  EXPECT_EQ(node.counters().hot_enqueued, 0U);
}

TEST_F(LostLock, R9_NothingIsClaimedBeforeARenewalHasToldWhatIsStillHeld) {
  auto const running = run_one();
  ASSERT_TRUE(running);
  lose();
  regain();
  EXPECT_FALSE(node.core->plan_poll().request) << "another may have ended its lease meanwhile";
  EXPECT_TRUE(node.renew());
  EXPECT_TRUE(node.core->plan_poll().request);
}

TEST_F(LostLock, R9_ARenewalThatWasSentBeforeProvesNothing) {
  ASSERT_TRUE(run_one());
  node.advance(8s);
  auto const renewal = node.look([&](engine& e) { return e.plan_renew(node.now()); });
  ASSERT_TRUE(renewal.request);
  auto const reply = node.core->ask(*renewal.request);
  node.advance(1ms);
  lose();
  regain();
  node.core->apply(*renewal.request, reply);
  EXPECT_FALSE(node.core->plan_poll().request);
}

TEST_F(LostLock, R9_ARenewalFromBeforeTheLockCameBackProvesNothing) {
  ASSERT_TRUE(run_one());
  lose();
  ASSERT_TRUE(node.renew()) << "still ours";
  node.advance(1ms);
  regain();  // another node may have held it in between
  EXPECT_FALSE(node.core->plan_poll().request);
  EXPECT_TRUE(node.renew());
  EXPECT_TRUE(node.core->plan_poll().request);
}

// Its call goes on, because a call cannot be ended. Its row comes back from another node, which held it meanwhile.
TEST_F(LostLock, R9_ARowThatWasLostAndComesBackIsClaimedLikeAnyOther) {
  auto const running = run_one();
  ASSERT_TRUE(running);
  lose();
  node.advance(30001ms);
  auto const reply = db.store->backend().claim({.token = "other/1", .lease = 30s});
  ASSERT_THAT(reply.rows, SizeIs(1));
  settlement const retry{.row = reply.rows.front().handle, .outcome = outcome::retry, .counted = 1, .error = "no"};
  ASSERT_TRUE(db.store->backend().settle(std::span{&retry, 1}).applied.front());
  regain();
  ASSERT_TRUE(node.renew());
  node.poll_all();
  EXPECT_EQ(node.counters().own_rows_reclaimed, 0U);
  auto const again = node.start();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->attempts, 1) << "what the other one has counted";
  node.finish(running, done);
  node.finish(again, failed{"not yet"});
  node.settle();
  EXPECT_EQ(db.row("a").status, event_status::retry) << "the result of the lost call means nothing";
  EXPECT_EQ(db.row("a").attempts, 2);
}

TEST_F(Standby, R9_AFailedExpiryIsTriedAgain) {
  stepper n{db, "n", exclusive};
  n.open();
  n.fail_next(testing::operation::expire_others, testing::fault::before);
  n.poll_all();
  EXPECT_FALSE(n.look([](engine& e) { return e.active(); }));
  db.clock->advance(200ms);
  n.poll_all();
  EXPECT_TRUE(n.look([](engine& e) { return e.active(); }));
}

}  // namespace
}  // namespace outbox::core
