// Rule 6: leases that are kept, calls that never end.
#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

using namespace spi;

using testing::fault;
using testing::operation;

class RenewStep : public ::testing::Test {
 protected:
  void SetUp() override { n.open(); }
  table db;
  stepper n{db};
};

TEST_F(RenewStep, R6_EverythingHeldIsRenewed) {
  n.renew();
  for (auto const* id : {"queued", "running", "finished"}) n.commit(id);
  n.deliver();  // "queued" has run and waits to be settled
  auto const t = n.start();
  n.advance(8s);
  EXPECT_TRUE(n.renew());
  for (auto const* id : {"queued", "running", "finished"})
    EXPECT_EQ(db.row(id).lease_until, db.clock->now() + 30s) << id;
}

TEST_F(RenewStep, R6_LeasesAreRenewedAtAQuarterOfTheLease) {
  EXPECT_TRUE(n.renew());
  n.advance(7s);
  EXPECT_FALSE(n.renew());
  n.advance(600ms);
  EXPECT_TRUE(n.renew());
}

TEST_F(RenewStep, R6_ACallPastItsTimeoutIsACountedFailureAndItsResultIsIgnored) {
  db.put("a", "quick");
  n.poll_all();
  auto const t = n.start();
  n.advance(1001ms);
  n.renew();
  EXPECT_TRUE(t->call.stop.stop_requested());
  n.settle();
  EXPECT_EQ(db.row("a").attempts, 1);
  EXPECT_EQ(db.row("a").last_error, "the listener did not answer within 1000 ms");
  n.finish(t, done);
  EXPECT_FALSE(n.settle());
  EXPECT_EQ(n.counters().timed_out, 1U);
  EXPECT_EQ(n.counters().late_results, 1U);
  EXPECT_EQ(db.row("a").status, event_status::retry);
}

// 0 is no limit, for the node or for one route.
TEST_F(RenewStep, R6_ACallWithoutATimeoutIsKeptForAsLongAsItTakes) {
  stepper patient{db, "patient", [](node_settings& s) {
                    listeners l;
                    l.on("t", [](delivery const&) {});
                    l.on("quick", [](delivery const&) {}, {.timeout = 1s});
                    l.on("narrow", [](delivery const&) {}, {.max_in_flight = 1});
                    s.routes = l.release();
                    s.listener_timeout = 0ms;
                  }};
  patient.open();
  for (auto const* id : {"running", "queued"}) db.put(id);
  db.put("narrow", "narrow");
  db.put("quick", "quick");
  patient.poll_all();
  auto const running = patient.start();
  ASSERT_EQ(running->event.id(), "running");
  EXPECT_EQ(running->limit, steady_time::max());
  for (int i = 0; i < 4000; ++i) {  // more than eight hours
    patient.advance(7500ms);
    patient.renew();
    patient.settle();
  }
  EXPECT_EQ(patient.counters().timed_out, 0U);
  EXPECT_FALSE(running->call.stop.stop_requested());
  for (auto const* id : {"running", "queued", "narrow"}) {
    EXPECT_EQ(db.row(id).lease_until, db.clock->now() + 30s) << id;
  }
  EXPECT_EQ(db.row("quick").locked_by, "") << "its route has a timeout, so it waits no longer than that";
  patient.finish(running, done);
  EXPECT_THAT(patient.deliver_all(), ElementsAre("queued", "narrow"));
  patient.settle();
  EXPECT_EQ(db.row("running").status, event_status::delivered);
  EXPECT_EQ(db.row("queued").attempts, 0);
}

TEST_F(RenewStep, R6_ARouteWithoutATimeoutIgnoresTheTimeoutOfTheNode) {
  std::vector<steady_time> deadlines;
  stepper m{db, "m", [&](node_settings& s) {
              listeners l;
              l.on("t", [&](delivery const& d) { deadlines.push_back(d.deadline); }, {.timeout = 0ms});
              l.on("u", [&](delivery const& d) { deadlines.push_back(d.deadline); });
              s.routes = l.release();
            }};
  m.open();
  db.put("a", "t");
  db.put("b", "u");
  m.poll_all();
  EXPECT_EQ(m.work(), "a");
  EXPECT_EQ(m.work(), "b");
  EXPECT_THAT(deadlines, ElementsAre(steady_time::max(), m.now() + 5min));
}

TEST_F(RenewStep, R6_TheRenewerIsWokenForAShortTimeout) {
  n.renew();
  db.put("a", "quick");
  n.poll_all();
  n.start();
  auto const p = n.look([&](engine& e) { return e.plan_renew(n.now()); });
  EXPECT_EQ(p.wake, n.now() + 1s);
}

TEST_F(RenewStep, R6_AQueuedEventIsReleasedUncountedAtItsTimeout) {
  stepper one{db, "one", [](node_settings& s) { s.listener_timeout = 60s; }};
  one.open();
  one.commit("a");
  for (int i = 0; i < 8; ++i) {
    one.advance(7600ms);
    one.renew();
  }
  one.settle();
  EXPECT_EQ(db.row("a").locked_by, "");
  EXPECT_EQ(db.row("a").attempts, 0);
  EXPECT_EQ(one.counters().released, 1U);
}

TEST_F(RenewStep, R6_ANodeWhoseWorkersAllHangTakesNothingMore) {
  stepper two{db, "two", [](node_settings& s) { s.workers = 2; }};
  two.open();
  for (auto const* id : {"a", "b", "c"}) db.put(id, "quick");
  two.poll_all();
  auto const first = two.start();
  auto const second = two.start();
  two.advance(1001ms);
  two.renew();
  EXPECT_NE(two.look([](engine& e) { return e.unhealthy(); }), "");
  two.commit("born");
  EXPECT_EQ(db.row("born").locked_by, "");
  two.look([](engine& e) { e.wake(); });
  EXPECT_FALSE(two.poll());
  two.finish(first, done);
  EXPECT_EQ(two.look([](engine& e) { return e.unhealthy(); }), "");
  EXPECT_TRUE(two.poll());
}

TEST_F(RenewStep, I6_ALostLeaseStopsTheCallAndItsResultCountsForNothing) {
  n.commit("a");
  auto const t = n.start();
  n.advance(31s);
  stepper other{db, "other"};
  other.open();
  other.poll_all();
  n.renew();
  EXPECT_TRUE(t->call.stop.stop_requested());
  n.finish(t, done);
  EXPECT_FALSE(n.settle()) << "nothing to send";
  EXPECT_EQ(n.counters().lost, 1U);
  EXPECT_EQ(n.counters().held, 0U);
}

TEST_F(RenewStep, R3_ALostLeaseDoesNotStopTheClaims) {
  n.commit("a");
  auto const t = n.start();
  n.advance(31s);
  stepper other{db, "other"};
  other.open();
  other.poll_all();
  n.renew();
  db.put("b");
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  EXPECT_EQ(n.deliver(), "b") << "although the lost call still runs";
}

TEST_F(RenewStep, R10_ARegistryThatFailsCostsNoLease) {
  n.commit("a");
  n.renew();
  n.advance(8s);
  n.fail_next(operation::heartbeat, fault::before);
  n.renew();
  EXPECT_EQ(db.row("a").lease_until, db.clock->now() + 30s);
  n.advance(15s);
  EXPECT_EQ(n.deliver(), "a") << "the node knows that it was renewed";
}

TEST_F(RenewStep, R10_ARegistryThatFailsDoesNotHideAPause) {
  db.store->backend().pause({"t", ""});
  n.advance(7500ms);
  n.fail_next(operation::heartbeat, fault::before);
  EXPECT_TRUE(n.renew());
  EXPECT_EQ(n.look([](engine& e) { return e.pauses().size(); }), 1U);
}

TEST_F(RenewStep, I6_AQueuedEventWhoseLeaseIsLostIsDropped) {
  n.commit("a");
  n.advance(31s);
  stepper other{db, "other"};
  other.open();
  other.poll_all();
  EXPECT_FALSE(n.start());
  n.renew();
  EXPECT_FALSE(n.start());
  EXPECT_EQ(n.counters().lost, 1U);
}

TEST_F(RenewStep, R6_AnExpiredLeaseThatWasNotTakenIsRenewed) {
  n.commit("a");
  n.advance(40s);
  EXPECT_FALSE(n.start());
  n.renew();
  EXPECT_EQ(n.deliver(), "a");
  n.settle();
  EXPECT_EQ(db.row("a").status, event_status::delivered);
}

TEST_F(RenewStep, R6_AFailedRenewalIsTriedAgainSoon) {
  n.commit("a");
  n.renew();
  n.advance(8s);
  n.fail_next(operation::renew, fault::before);
  n.renew();
  n.advance(100ms);
  EXPECT_TRUE(n.renew());
  EXPECT_EQ(db.row("a").lease_until, db.clock->now() + 30s);
}

TEST_F(RenewStep, R4_ARenewalDoesNotJudgeWhatTheSettlerHasTaken) {
  n.commit("a");
  n.deliver();
  auto const renewal = n.look([&](engine& e) { return e.plan_renew(n.now()); });
  auto const settlement = n.look([&](engine& e) { return e.plan_settle(n.now(), true); });
  ASSERT_TRUE(renewal.request && settlement.request);
  auto const settled = n.core->ask(*settlement.request);
  auto const renewed = n.core->ask(*renewal.request);
  n.core->apply(*renewal.request, renewed);
  n.core->apply(*settlement.request, settled);
  EXPECT_EQ(n.counters().delivered, 1U);
  EXPECT_EQ(n.counters().lost, 0U);
}

TEST_F(RenewStep, R10_TheNodeIsInTheRegistryWhileItLives) {
  n.renew();
  ASSERT_THAT(db.store->inspect().nodes(), SizeIs(1));
  EXPECT_EQ(db.store->inspect().nodes()[0].incarnation, "n");
  n.core->farewell();
  EXPECT_THAT(db.store->inspect().nodes(), IsEmpty());
}

TEST_F(RenewStep, I10_WhatACrashedNodeHeldIsDeliveredWithinLeaseAndPollInterval) {
  stepper survivor{db, "survivor"};
  survivor.open();
  {
    stepper victim{db, "victim"};
    victim.open();
    for (auto const* id : {"a", "b", "c"}) victim.commit(id);
    victim.start();
  }
  auto const crashed = db.clock->now();
  std::vector<std::string> delivered;
  while (delivered.size() < 3 && db.clock->now() < crashed + 120s) {
    db.clock->advance(50ms);
    survivor.renew();
    survivor.poll();
    for (auto& id : survivor.deliver_all()) delivered.push_back(id);
    survivor.settle();
  }
  EXPECT_THAT(delivered, SizeIs(3));
  EXPECT_LE(db.clock->now() - crashed, 30s + 5500ms);
}

}  // namespace
}  // namespace outbox::core
