// Rule I5: the decisions of a node that delivers in order.
#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

using namespace spi;

void in_order(node_settings& s) {
  s.exclusive = true;
  s.in_order = true;
  s.hot_path = false;
  s.workers = 1;
  s.retry.max_attempts = 1;
  s.mode = node_mode::ordered;
}

class Ordered : public ::testing::Test {
 protected:
  Ordered() {
    n.open();
    n.poll_all();
  }
  table db;
  stepper n{db, "n", in_order};

  void put(std::initializer_list<char const*> ids) {
    for (auto const* id : ids) db.put(id);
    n.look([](engine& e) { e.wake(); });
    n.poll_all();
  }
};

TEST_F(Ordered, I5_TheNextStartsWhenTheLastIsSettled) {
  put({"a", "b"});
  EXPECT_EQ(n.deliver(), "a");
  EXPECT_FALSE(n.start()) << "its settlement may be lost yet";
  n.settle(/*flush=*/false);
  EXPECT_EQ(n.deliver(), "b");
  EXPECT_TRUE(n.settle(/*flush=*/false)) << "nothing is gained by gathering";
}

TEST_F(Ordered, I5_AFailureIsDeadAndTheNextFollows) {
  put({"a", "b"});
  EXPECT_EQ(n.deliver(failed{"no"}), "a");
  n.settle();
  EXPECT_EQ(db.row("a").status, event_status::dead);
  EXPECT_EQ(n.deliver(), "b");
}

TEST_F(Ordered, I5_ADeferralHoldsUpTheRest) {
  put({"a", "b", "c"});
  EXPECT_EQ(n.deliver(defer{10s}), "a");
  while (n.settle()) {
  }
  n.poll_all();
  EXPECT_FALSE(n.start());
  EXPECT_EQ(db.row("b").locked_by, "") << "what was claimed behind it is given back";
  EXPECT_EQ(db.row("b").attempts, 0);
  n.advance(10s);
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a");
  n.settle();
  EXPECT_EQ(n.deliver(), "b");
}

TEST_F(Ordered, I5_AnEventBornWithADelayIsPassedOver) {
  db.put("late", "t", {.deliver_after = 10s});
  put({"a"});
  EXPECT_EQ(n.deliver(), "a");
  n.settle();
  n.advance(10s);
  n.poll_all();
  EXPECT_EQ(n.deliver(), "late");
}

TEST_F(Ordered, I5_AnEventBornWithADelayWaitsInPlaceOnceItWasDeferred) {
  db.put("late", "t", {.deliver_after = 1s});
  n.advance(1s);
  put({"a"});
  EXPECT_EQ(n.deliver(defer{5s}), "late");
  while (n.settle()) {
  }
  n.poll_all();
  EXPECT_FALSE(n.start());
}

TEST_F(Ordered, I5_ATimeoutIsDeadAndTheNextWaitsForTheWorker) {
  put({"a", "b"});
  auto const t = n.start();
  n.advance(6min);
  n.renew();
  while (n.settle()) {
  }
  EXPECT_EQ(db.row("a").status, event_status::dead);
  n.poll_all();
  EXPECT_FALSE(n.start()) << "its listener still runs";
  n.finish(t, done);
  n.poll_all();
  EXPECT_EQ(n.deliver(), "b");
}

TEST_F(Ordered, I5_AfterALostRowTheNodeClaimsFromTheStart) {
  put({"a", "b"});
  auto const t = n.start();
  ASSERT_EQ(t->event.id(), "a");
  n.advance(31s);  // the lease was not renewed, and another node took the row
  auto const other = db.store->backend().claim({.token = "other/1", .limit = 1, .lease = 30s}).rows.at(0).handle;
  n.finish(t, done);
  while (n.settle()) {
  }
  n.renew();
  while (n.settle()) {
  }
  n.poll_all();
  EXPECT_FALSE(n.start()) << "b comes after a, which is another's";
  settlement const back{.row = other, .outcome = outcome::release};
  EXPECT_TRUE(db.store->backend().settle(std::span{&back, 1}).applied.at(0));
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(Ordered, I5_ARowThatWaitsTooLongInTheQueueIsReleasedWithTheRowsBehindIt) {
  db.put("a");
  db.put("slow", "t");
  db.put("quick", "quick");  // has a timeout of 1 s
  db.put("last");
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  auto const t = n.start();
  n.advance(2s);
  n.renew();
  EXPECT_EQ(n.look([](engine& e) { return e.cold_depth(); }), 0U);
  n.finish(t, done);
  while (n.settle()) {
  }
  n.poll_all();
  EXPECT_EQ(n.deliver(), "slow");
  n.settle();
  EXPECT_EQ(n.deliver(), "quick");
}

TEST_F(Ordered, I5_APauseThatEndsLetsNothingOvertake) {
  db.put("x");
  db.put("a", "quick");
  db.put("b");
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  auto const x = n.start();
  ASSERT_EQ(x->event.id(), "x");
  n.core->pause({"quick", ""});
  n.core->resume({"quick", ""});
  n.finish(x, done);
  while (n.settle()) {
  }
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(Ordered, I5_HasNoHotPath) {
  n.commit("a");
  EXPECT_EQ(db.row("a").locked_by, "");
  EXPECT_FALSE(n.start());
  n.poll_all();
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(Ordered, I5_AStandbyGoesOnWhereTheFirstStopped) {
  auto first = std::make_unique<stepper>(db, "first", in_order);
  n.core->farewell();
  first->open();
  first->poll_all();
  for (auto const* id : {"a", "b", "c"}) db.put(id);
  first->look([](engine& e) { e.wake(); });
  first->poll_all();
  EXPECT_EQ(first->deliver(), "a");
  first->settle();
  ASSERT_EQ(first->start()->event.id(), "b");
  stepper second{db, "second", in_order};
  second.open();
  second.poll_all();
  first.reset();  // in the middle of b, with c claimed
  db.clock->advance(1001ms);
  second.poll_all();
  EXPECT_EQ(second.deliver(), "b");
  second.settle();
  EXPECT_EQ(second.deliver(), "c");
}

}  // namespace
}  // namespace outbox::core
