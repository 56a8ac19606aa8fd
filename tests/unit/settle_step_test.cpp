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

// Results of a busy node whose settlements are expensive.
class ExpensiveSettlements : public SettleStep {
 protected:
  void SetUp() override {
    SettleStep::SetUp();
    for (int i = 0; i < 40; ++i) settle_slowly(2ms);  // until the cost is known
  }
  void deliver_one(result r = done) {
    n.commit("e" + std::to_string(next_++));
    n.deliver(std::move(r));
  }
  void settle_slowly(std::chrono::milliseconds took) {
    deliver_one();
    auto const p = n.look([&](engine& e) { return e.plan_settle(n.now(), true); });
    auto const reply = n.core->ask(*p.request);
    n.advance(took);
    n.core->apply(*p.request, reply);
  }
  // Of a result that comes right after a settlement.
  std::chrono::milliseconds wait() {
    std::chrono::milliseconds waited{0};
    for (; !n.settle(false); waited += 1ms) n.advance(1ms);
    return waited;
  }
  int next_ = 0;
};

TEST_F(ExpensiveSettlements, R5_AreATwentiethOfTheTime) {
  deliver_one();
  EXPECT_EQ(wait(), 38ms) << "and 2 ms that the last one took";
}

TEST_F(ExpensiveSettlements, R5_DoNotDelayAResultForLongerThanALimit) {
  for (int i = 0; i < 40; ++i) settle_slowly(20ms);
  deliver_one();
  EXPECT_EQ(wait(), 30ms) << "50 ms after the last one was sent";
}

TEST_F(ExpensiveSettlements, R5_AreForgottenWhenTheyBecomeCheap) {
  for (int i = 0; i < 40; ++i) settle_slowly(0ms);
  deliver_one();
  EXPECT_EQ(wait(), 5ms);
}

TEST_F(ExpensiveSettlements, R5_DoNotDelayAResultThatIsAwaited) {
  for (result const& r : {result{failed{"no"}}, result{dead{"no"}}, result{defer{1s}}}) {
    deliver_one();
    deliver_one(r);
    EXPECT_LE(wait(), 5ms);
    deliver_one();
    EXPECT_GT(wait(), 5ms) << "the awaited one is settled";
  }
}

TEST_F(ExpensiveSettlements, R5_DoNotKeepSlotsThatOthersNeed) {
  for (int i = 0; i < 250; ++i) deliver_one();
  EXPECT_EQ(wait(), 3ms) << "a quarter of the slots holds results";
}

TEST_F(ExpensiveSettlements, R5_DoNotKeepBytesThatOthersNeed) {
  stepper large{db, "large", [](node_settings& s) { s.queue.bytes = 64U << 10U; }};
  large.open();
  auto const write = [&](std::string const& id) {
    memory::transaction tx{*db.store};
    auto const e = event::json("t", '"' + std::string(9000, 'x') + '"', {.id = id});
    large.core->write(join(tx), std::span{&e, 1});
    tx.commit();
    large.deliver();
  };
  write("l0");
  auto const first = large.look([&](engine& e) { return e.plan_settle(large.now(), true); });
  auto const reply = large.core->ask(*first.request);
  large.advance(8ms);
  large.core->apply(*first.request, reply);
  write("l1");
  EXPECT_FALSE(large.settle(false)) << "20 times a quarter of 8 ms";
  write("l2");
  EXPECT_TRUE(large.settle(false)) << "a quarter of the bytes are results";
}

TEST_F(ExpensiveSettlements, R5_DoNotDelayAStop) {
  deliver_one();
  n.look([&](engine& e) { e.close(n.now()); });
  EXPECT_LE(wait(), 5ms);
}

TEST_F(SettleStep, R5_TheSettlerIsWokenOncePerSettlement) {
  for (auto const* id : {"a", "b", "c", "d"}) n.commit(id);
  auto const wakes_settler = [&](result r = done) {
    auto const t = n.start();
    return n.core->with_engine_quietly([&](engine& e) {
      static_cast<void>(e.take_signals());
      e.finish(*t, {std::move(r), {}}, n.now());
      return (e.take_signals() & signal_settle) != 0;
    });
  };
  EXPECT_TRUE(wakes_settler()) << "it sleeps";
  EXPECT_TRUE(n.settle(false));
  EXPECT_TRUE(wakes_settler()) << "it sleeps again";
  EXPECT_FALSE(n.settle(false)) << "it gathers";
  EXPECT_FALSE(wakes_settler()) << "it will wake by itself";
  n.advance(5ms);
  EXPECT_TRUE(n.settle(false));
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
