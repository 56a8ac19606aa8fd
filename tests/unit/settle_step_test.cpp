// Rules 4 and 5: many results in one commit, and replies that are lost.
#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

using testing::fault;
using testing::operation;

class SettleStep : public ::testing::Test {
 protected:
  void SetUp() override { n.open(); }
  table db;
  stepper n{db};
};

TEST_F(SettleStep, R5_ALoneEventSettlesAtOnce) {
  n.commit("a");
  n.deliver();
  EXPECT_TRUE(n.settle(false));
}

TEST_F(SettleStep, R5_ABusyNodeSettlesManyInOneStatement) {
  for (auto const* id : {"a", "b", "c"}) n.commit(id);
  n.deliver();
  EXPECT_TRUE(n.settle(false));
  n.deliver();
  n.advance(2ms);
  EXPECT_FALSE(n.settle(false)) << "5 ms are not over";
  n.deliver();
  n.advance(3ms);
  n.asked.clear();
  EXPECT_TRUE(n.settle(false));
  EXPECT_THAT(n.asked, SizeIs(1));
  EXPECT_EQ(n.counters().delivered, 3U);
}

TEST_F(SettleStep, R5_AFlushDoesNotWait) {
  for (auto const* id : {"a", "b"}) n.commit(id);
  n.deliver();
  n.settle(false);
  n.deliver();
  EXPECT_TRUE(n.settle(true));
}

TEST_F(SettleStep, R4_AFailedSettlementIsSentAgain) {
  n.commit("a");
  n.deliver();
  n.fail_next(operation::settle, fault::before);
  n.settle();
  EXPECT_EQ(db.row("a").status, event_status::created);
  EXPECT_EQ(n.counters().held, 1U) << "its slot is kept";
  EXPECT_FALSE(n.settle()) << "backs off";
  n.advance(100ms);
  EXPECT_TRUE(n.settle());
  EXPECT_EQ(db.row("a").status, event_status::delivered);
  EXPECT_EQ(n.counters().delivered, 1U);
}

TEST_F(SettleStep, R4_ALostReplyIsCountedAsUnconfirmed) {
  n.commit("a");
  n.deliver();
  n.fail_next(operation::settle, fault::after);
  n.settle();
  EXPECT_EQ(db.row("a").status, event_status::delivered);
  n.advance(100ms);
  n.settle();
  EXPECT_EQ(n.counters().unconfirmed, 1U);
  EXPECT_EQ(n.counters().lost, 0U);
  EXPECT_EQ(n.counters().held, 0U);
}

TEST_F(SettleStep, I6_ASettlementAfterATakeoverIsLost) {
  n.commit("a");
  auto const t = n.start();
  n.advance(31s);
  stepper other{db, "other"};
  other.open();
  other.poll_all();
  n.finish(t, done);
  n.settle();
  EXPECT_EQ(n.counters().lost, 1U);
  EXPECT_EQ(db.row("a").status, event_status::created);
  EXPECT_EQ(other.deliver(), "a");
  other.settle();
  EXPECT_EQ(db.row("a").status, event_status::delivered);
}

TEST_F(SettleStep, R5_ARefusedBatchIsSettledOneByOne) {
  for (auto const* id : {"a", "b"}) n.commit(id);
  n.deliver();
  n.deliver();
  n.fail_next(operation::settle, fault::refused);
  n.settle();
  n.advance(100ms);
  n.asked.clear();
  EXPECT_TRUE(n.settle());
  EXPECT_TRUE(n.settle());
  EXPECT_FALSE(n.settle());
  EXPECT_THAT(n.asked, SizeIs(2)) << "one statement each";
  EXPECT_EQ(n.counters().delivered, 2U);
  EXPECT_EQ(n.counters().unconfirmed, 0U) << "refused means: no effect";
}

TEST_F(SettleStep, R5_ARowThatIsRefusedAloneIsSettledWithAFixedText) {
  n.commit("a");
  n.deliver(dead{"something the store cannot keep"});
  for (int i = 0; i < 2; ++i) {
    n.fail_next(operation::settle, fault::refused);
    n.settle();
    n.advance(3s);
    n.renew();
  }
  n.settle();
  EXPECT_EQ(db.row("a").status, event_status::dead);
  EXPECT_EQ(db.row("a").last_error, "the reason could not be stored");
}

TEST_F(SettleStep, I13_CountersAddUp) {
  for (int i = 0; i < 8; ++i) db.put("c" + std::to_string(i));
  n.poll_all();
  for (int i = 0; i < 4; ++i) n.commit("h" + std::to_string(i));
  n.deliver();
  n.deliver(failed{"x"});
  n.deliver(defer{1s});
  n.deliver(dead{"y"});
  n.settle();
  n.look([&](engine& e) { e.release_queued(n.now()); });
  n.settle();
  auto const c = n.counters();
  EXPECT_EQ(c.hot_enqueued, 4U);
  EXPECT_EQ(c.cold_enqueued, 8U);
  EXPECT_EQ(c.settled, 4U);
  EXPECT_EQ(c.released, 8U);
  EXPECT_EQ(c.held, 0U);
  EXPECT_EQ(c.hot_enqueued + c.cold_enqueued, c.settled + c.released + c.lost + c.unconfirmed + c.held);
}

TEST_F(SettleStep, I7_WhatIsReleasedAtAStopIsDeliveredByAnotherWithoutACrash) {
  n.commit("a");
  n.look([&](engine& e) {
    e.close(n.now());
    e.release_queued(n.now());
  });
  n.settle();
  stepper other{db, "other"};
  other.open();
  other.poll_all();
  EXPECT_EQ(other.deliver(), "a");
  EXPECT_EQ(db.row("a").crashes, 0);
}

}  // namespace
}  // namespace outbox::core
