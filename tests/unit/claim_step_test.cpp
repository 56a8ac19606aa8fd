// Rule 3: when the poller claims, and what it does with what it gets.
#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

using namespace spi;

using testing::fault;
using testing::operation;

class ClaimStep : public ::testing::Test {
 protected:
  void SetUp() override { n.open(); }

  // Rows whose owner vanished: each claim of a node that dies counts a crash.
  void crash_holders(int times) {
    for (int i = 0; i < times; ++i) {
      stepper victim{db, "victim" + std::to_string(i)};
      victim.open();
      victim.poll_all();
      db.clock->advance(30001ms);
    }
  }

  table db;
  stepper n{db};
};

TEST_F(ClaimStep, R3_TheFirstPollIsAtOnceThenAtTheInterval) {
  EXPECT_TRUE(n.poll());
  EXPECT_FALSE(n.poll());
  n.advance(4400ms);
  EXPECT_FALSE(n.poll());
  n.advance(1200ms);
  EXPECT_TRUE(n.poll()) << "5 s, give or take a tenth";
}

TEST_F(ClaimStep, R3_AFullBatchIsFollowedAtOnce) {
  for (int i = 0; i < 170; ++i) db.put("e" + std::to_string(i));
  EXPECT_TRUE(n.poll());
  EXPECT_TRUE(n.poll());
  EXPECT_TRUE(n.poll());
  EXPECT_FALSE(n.poll());
  EXPECT_EQ(n.counters().cold_enqueued, 170U);
}

TEST_F(ClaimStep, R3_WithoutDrainingNewRowsComeOncePerRoundAndRetriesWhenTheyAreDue) {
  stepper calm{db, "c", [](node_settings& s) {
                 s.poll.batch = s.poll.max_batch = 2;
                 s.poll.drain = false;
               }};
  calm.open();
  for (auto const* const id : {"a", "b", "c", "d", "e"}) db.put(id);
  EXPECT_TRUE(calm.poll());
  EXPECT_FALSE(calm.poll()) << "a full claim is not followed by the next";
  EXPECT_EQ(calm.deliver(failed{"no", 200ms}), "a");
  EXPECT_EQ(calm.deliver(), "b");
  EXPECT_TRUE(calm.settle());
  calm.advance(300ms);
  calm.poll_all();
  EXPECT_THAT(calm.deliver_all(), ElementsAre("a")) << "the retry, and no new row";
  calm.commit("f");
  calm.poll_all();
  EXPECT_THAT(calm.deliver_all(), ::testing::IsSubsetOf({"f"})) << "a wake-up takes no new row either";
  calm.advance(5600ms);
  EXPECT_TRUE(calm.poll());
  EXPECT_THAT(calm.deliver_all(), ElementsAre("c", "d")) << "the next round";
}

// How many rows each claim returns until one finds nothing.
std::vector<std::size_t> claims_of(stepper& n) {
  std::vector<std::size_t> sizes;
  auto const claimed = [&] { return n.counters().cold_enqueued; };
  for (auto before = claimed(); n.poll() && claimed() > before; before = claimed()) sizes.push_back(claimed() - before);
  return sizes;
}

TEST_F(ClaimStep, R3_ClaimsGrowWhileTheyComeBackFull) {
  stepper growing{db, "g", [](node_settings& s) {
                    s.poll.batch = 4;
                    s.poll.max_batch = 20;
                  }};
  for (int i = 0; i < 75; ++i) db.put("e" + std::to_string(i));
  growing.open();
  EXPECT_THAT(claims_of(growing), ElementsAre(4, 8, 16, 20, 20, 7));
  for (int i = 0; i < 5; ++i) db.put("f" + std::to_string(i));
  growing.look([](engine& e) { e.wake(); });
  EXPECT_THAT(claims_of(growing), ElementsAre(4, 1)) << "a claim that left nothing behind has ended the growth";
}

// What is behind a run is blocked, so such a claim never says that there is more.
TEST(ClaimSize, OfAKeyedNodeGrowsWhileRunsFillItsClaims) {
  claim_size size{{.batch = 4, .max_batch = 20}, 100, false};
  auto const claim = [&](std::size_t rows, bool holds_rows) {
    spi::claim_reply reply;
    for (; rows > 0; --rows) reply.rows.push_back({.handle = {}, .event = event::json("t", "1")});
    size.note({.limit = size.next(), .keyed = true}, reply, holds_rows);
    return size.next();
  };
  EXPECT_EQ(claim(4, false), 8U);
  EXPECT_EQ(claim(0, true), 8U) << "what is due waits for rows that the node holds";
  EXPECT_EQ(claim(8, false), 16U);
  EXPECT_EQ(claim(9, false), 16U) << "the longest run that the claim could take";
  EXPECT_EQ(claim(16, false), 20U);
  EXPECT_EQ(claim(3, true), 4U) << "a claim that left nothing behind";
  EXPECT_EQ(claim(4, false), 8U);
  EXPECT_EQ(claim(0, false), 4U);
}

TEST_F(ClaimStep, R3_ClaimsDoNotGrowBeyondABatchThatIsTheLargestAllowed) {
  for (std::size_t const most : {4U, 1U}) {
    table fresh;
    stepper steady{fresh, "s", [&](node_settings& s) {
                     s.poll.batch = 4;
                     s.poll.max_batch = most;
                   }};
    for (int i = 0; i < 10; ++i) fresh.put("e" + std::to_string(i));
    steady.open();
    EXPECT_THAT(claims_of(steady), ElementsAre(4, 4, 2)) << most;
  }
}

TEST_F(ClaimStep, R3_AClaimThatTheNodeHadNoRoomForSaysNothingAboutTheNext) {
  stepper small{db, "s", [](node_settings& s) {
                  s.queue.cold = 14;
                  s.poll.batch = 4;
                  s.poll.max_batch = 100;
                }};
  for (int i = 0; i < 60; ++i) db.put("e" + std::to_string(i));
  small.open();
  EXPECT_THAT(claims_of(small), ElementsAre(4, 8)) << "14 would fit, and two slots are not worth a claim";
  small.deliver_all();
  small.settle();
  EXPECT_THAT(claims_of(small), ElementsAre(14));
  for (int i = 0; i < 4; ++i) small.deliver();
  small.settle();
  EXPECT_THAT(claims_of(small), ElementsAre(4)) << "a quarter of 14 and more; of 32 it would not be worth a claim";
}

TEST_F(ClaimStep, R3_WakeLooksNow) {
  n.poll();
  db.put("a");
  EXPECT_FALSE(n.poll());
  n.look([](engine& e) { e.wake(); });
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "a");
}

// A transaction that stays open makes claims slow: the database reads past all that was claimed since it began.
class SlowClaims : public ClaimStep {
 protected:
  // Writes now, and is visible at its end.
  struct late_row {
    late_row(table& db, std::string const& id) : tx{*db.store}, e{event::json("t", "1", {.id = id})} {
      insertion const i{&e};
      db.store->backend().insert(join(tx), std::span{&i, 1});
    }
    memory::transaction tx;
    event e;
  };
  void wake() {
    n.look([](engine& e) { e.wake(); });
  }
  // A row is written; so much later a claim takes another one and needs its time; then the row is committed.
  void commit_late(std::chrono::milliseconds after, std::chrono::milliseconds took) {
    late_row late{db, "late"};
    n.advance(after);
    db.put("a");
    EXPECT_TRUE(n.poll_slowly(took));
    EXPECT_EQ(n.deliver(), "a");
    late.tx.commit();
    wake();
  }
};

TEST_F(SlowClaims, R3_AfterASlowSweepClaimsLookOnlyAtRecentRowsUntilTheNextSweep) {
  commit_late(15s, 30ms);
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "") << "it begins ten seconds ago";
  n.advance(298ms);
  EXPECT_FALSE(n.poll());
  n.advance(2ms);
  EXPECT_TRUE(n.poll()) << "ten times 30 ms after the slow one, whatever the interval";
  EXPECT_EQ(n.deliver(), "late");
}

TEST_F(SlowClaims, R3_RecentRowsAreAlwaysSeen) {
  commit_late(9s, 30ms);
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "late");
}

TEST_F(SlowClaims, R3_AQuickSweepIsFollowedByAnother) {
  commit_late(15s, 10ms);
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "late");
}

TEST_F(SlowClaims, R3_AClaimOfABacklogBeginsWhereTheLastOneEnded) {
  for (int i = 0; i < 170; ++i) db.put("e" + std::to_string(i));  // a millisecond apart
  n.advance(15s);
  EXPECT_TRUE(n.poll_slowly(30ms));
  auto const second = n.core->plan_poll();
  ASSERT_TRUE(second.request);
  EXPECT_EQ(std::get<claim_request>(second.request->request).floor, db.row("e50").available_at)
      << "the first that was left";
  n.core->carry(*second.request);
  EXPECT_TRUE(n.poll_slowly(30ms));
  EXPECT_EQ(n.counters().cold_enqueued, 170U);
}

// What a route gives back has its old due instant, far below the floor that others have moved on.
TEST_F(SlowClaims, R3_APauseAndItsEndLookEverywhere) {
  db.put("a");
  n.advance(15s);
  EXPECT_TRUE(n.poll_slowly(1s));
  n.advance(1s);
  n.look([](engine& e) { e.set_pauses({{"t", ""}}); });  // gives it back
  n.settle();
  ASSERT_EQ(db.row("a").locked_by, "");
  n.poll_slowly(1s);  // sees nothing of it
  n.look([](engine& e) { e.set_pauses({}); });
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(SlowClaims, R3_AClaimThatLeavesARouteIsNoSweep) {
  late_row late{db, "late"};
  n.advance(15s);
  db.put("a");
  EXPECT_TRUE(n.poll_slowly(30ms));  // the floor is ten seconds ago
  n.look([](engine& e) { e.set_pauses({{"quick", ""}}); });
  late.tx.commit();
  EXPECT_TRUE(n.poll_slowly(30ms));
  EXPECT_EQ(n.deliver_all(), (std::vector<std::string>{"a", "late"})) << "it began at the beginning";
}

TEST_F(SlowClaims, R3_AFailedSweepIsFollowedByClaimsFromTheFloor) {
  db.put("a");
  n.advance(15s);
  EXPECT_TRUE(n.poll_slowly(30ms));
  n.advance(1s);
  n.look([](engine& e) { e.wake(); });
  n.fail_next(operation::claim, fault::before);
  EXPECT_TRUE(n.poll_slowly(10s)) << "until some limit";
  n.advance(100ms);
  n.poll();  // what it may have claimed is released
  auto const next = n.core->plan_poll();
  ASSERT_TRUE(next.request);
  EXPECT_TRUE(std::get<claim_request>(next.request->request).floor);
}

TEST_F(SlowClaims, R3_RowsOfAPausedRouteAreNotBehindTheFloor) {
  db.put("a");
  n.advance(15s);
  n.look([](engine& e) { e.set_pauses({{"t", ""}}); });
  EXPECT_TRUE(n.poll_slowly(30ms));
  EXPECT_EQ(n.deliver(), "");
  n.look([](engine& e) { e.set_pauses({}); });
  wake();
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(ClaimStep, I8_OnlyWhatFitsIsClaimed) {
  stepper small{db, "s", [](node_settings& s) {
                  s.queue.cold = 10;
                  s.poll.batch = 4;
                }};
  for (int i = 0; i < 20; ++i) db.put("e" + std::to_string(i));
  small.open();
  small.poll_all();
  EXPECT_EQ(small.look([](engine& e) { return e.used().cold_used(); }), 10U) << "four, and the six that still fit";
  for (int i = 0; i < 2; ++i) small.deliver();
  EXPECT_FALSE(small.poll()) << "a slot is free when the settlement is durable, not before";
  small.settle();
  EXPECT_TRUE(small.poll());
}

TEST_F(ClaimStep, R3_NoClaimWhileALeaseIsInItsLastThird) {
  db.put("a");
  n.poll_all();
  auto const running = n.start();
  n.advance(21s);
  db.put("b");
  n.look([](engine& e) { e.wake(); });
  EXPECT_FALSE(n.poll());
  EXPECT_TRUE(n.renew());
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "b");
}

TEST_F(ClaimStep, I7_AClaimWhoseReplyWasLostIsReleasedBeforeTheNext) {
  db.put("a");
  n.fail_next(operation::claim, fault::after);
  EXPECT_TRUE(n.poll());
  EXPECT_THAT(db.row("a").locked_by, ::testing::StartsWith("n/"));
  EXPECT_EQ(n.deliver(), "");
  EXPECT_FALSE(n.poll()) << "backs off";
  n.advance(100ms);
  n.asked.clear();
  n.poll_all();
  EXPECT_THAT(n.asked, ElementsAre(operation::release, operation::claim));
  EXPECT_EQ(n.deliver(), "a");
  EXPECT_EQ(db.row("a").crashes, 0) << "no node crashed";
}

TEST_F(ClaimStep, I7_AClaimThatTakesEffectLateIsReleasedAtTheNextRenewal) {
  db.put("a");
  n.fail_next(operation::claim, fault::later);
  n.poll();
  n.advance(100ms);
  n.fail_next(operation::claim, fault::before);
  n.poll_all();
  static_cast<testing::faulty_store&>(n.core->store()).run_late();
  ASSERT_NE(db.row("a").locked_by, "");
  n.advance(7501ms);
  n.renew();
  EXPECT_EQ(db.row("a").locked_by, "");
}

TEST_F(ClaimStep, R3_AnExpiredOwnerCountsACrash) {
  db.put("a");
  crash_holders(1);
  n.poll_all();
  auto const t = n.start();
  ASSERT_TRUE(t);
  EXPECT_EQ(t->crashes, 1);
}

TEST_F(ClaimStep, I3_ASuspectIsClaimedAloneOnADrainedNode) {
  db.put("suspect");
  crash_holders(2);  // of three: one more and it is dead
  db.put("good");
  n.poll();
  EXPECT_EQ(n.look([](engine& e) { return e.cold_depth(); }), 1U);
  auto const good = n.start();
  ASSERT_EQ(good->event.id(), "good");
  EXPECT_FALSE(n.poll()) << "the node is not drained";
  n.finish(good, done);
  n.settle();
  EXPECT_TRUE(n.poll());
  auto const suspect = n.start();
  ASSERT_TRUE(suspect);
  EXPECT_EQ(suspect->event.id(), "suspect");

  db.put("later");
  n.look([](engine& e) { e.wake(); });
  EXPECT_FALSE(n.poll()) << "nothing joins a suspect";
  n.commit("born");
  EXPECT_EQ(db.row("born").locked_by, "") << "not even a birth";

  n.finish(suspect, done);
  n.settle();
  n.poll_all();
  EXPECT_THAT(n.deliver_all(), ::testing::UnorderedElementsAre("later", "born"));
}

TEST_F(ClaimStep, I3_NoSuspectIsClaimedWhileATransactionIsOpen) {
  db.put("suspect");
  crash_holders(2);
  memory::transaction tx{*db.store};
  n.write(tx, "born");
  n.poll_all();
  EXPECT_THAT(db.row("suspect").locked_by, ::testing::StartsWith("victim"));
  tx.commit();
  EXPECT_EQ(n.deliver(), "born");
  n.settle();
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "suspect");
}

TEST_F(ClaimStep, I3_AtMaxCrashesTheRowIsDeadAndLogged) {
  db.put("poison");
  for (int i = 0; i < 3; ++i) {
    stepper victim{db, "victim" + std::to_string(i)};
    victim.open();
    victim.poll_all();
    EXPECT_TRUE(victim.start()) << i;
    db.clock->advance(30001ms);
  }
  n.poll_all();
  EXPECT_EQ(db.row("poison").status, event_status::dead);
  EXPECT_EQ(n.counters().claimed_dead, 1U);
  EXPECT_THAT(n.log, ::testing::Contains(HasSubstr("error: event poison (t) is DEAD: 3 processes ended")));
}

TEST_F(ClaimStep, R3_AfterAnOutageOnlyUnownedRowsAreClaimedAtFirst) {
  db.put("theirs");
  stepper other{db, "other"};
  other.open();
  other.poll_all();
  n.poll_all();
  // The store is away for more than a third of a lease, for everybody.
  n.away = true;
  for (int i = 0; i < 8; ++i) {
    n.advance(4s);
    n.look([](engine& e) { e.wake(); });
    n.poll();
  }
  db.put("free");
  n.away = false;
  n.advance(3s);
  n.poll_all();
  EXPECT_THAT(n.deliver_all(), ElementsAre("free")) << "the other node may yet settle what it had";
  n.settle();
  n.advance(11s);
  n.renew();
  n.poll_all();
  EXPECT_THAT(n.deliver_all(), ElementsAre("theirs"));
}

TEST_F(ClaimStep, R8_ARetryIsPolledWhenItIsDue) {
  n.commit("a");
  n.poll_all();
  n.deliver(failed{"no"});
  n.settle();
  EXPECT_FALSE(n.poll());
  n.advance(301ms);  // 200 ms, give or take a half
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(ClaimStep, R8_TheClaimSaysWhenTheNextRowIsDue) {
  db.put("a", "t", {.deliver_after = 700ms});
  n.poll_all();
  n.advance(650ms);
  EXPECT_FALSE(n.poll());
  n.advance(60ms);
  EXPECT_TRUE(n.poll());
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(ClaimStep, R8_ARetryThatIsScheduledDuringAClaimIsNotForgotten) {
  n.commit("a");
  n.deliver(failed{"no", 200ms});
  auto const p = n.core->plan_poll();
  ASSERT_TRUE(p.request);
  auto reply = n.core->ask(*p.request);  // has not seen the retry
  n.settle();
  n.core->apply(*p.request, std::move(reply));
  n.advance(201ms);
  EXPECT_TRUE(n.poll()) << "not an interval later";
  EXPECT_EQ(n.deliver(), "a");
}

TEST_F(ClaimStep, R8_ARowThatIsDueInADistantFutureDoesNotMakeThePollerSpin) {
  db.put("a", "t",
         {.occurred_at = instant{}, .available_at = instant{std::chrono::sys_days{std::chrono::year{9999} / 1 / 1}}});
  n.poll_all();
  EXPECT_FALSE(n.poll());
  n.advance(4s);
  EXPECT_FALSE(n.poll());
  n.commit("b",
           {.occurred_at = instant{}, .available_at = instant{std::chrono::sys_days{std::chrono::year{9000} / 1 / 1}}});
  n.poll_all();
  EXPECT_FALSE(n.poll());
}

TEST_F(ClaimStep, I8_OneSlowEventDoesNotStopTheClaims) {
  stepper small{db, "s", [](node_settings& s) {
                  s.queue.cold = 50;
                  s.poll.batch = 50;
                }};
  small.open();
  db.put("slow");
  small.poll_all();
  auto const slow = small.start();
  for (int i = 0; i < 10; ++i) db.put("e" + std::to_string(i));
  small.look([](engine& e) { e.wake(); });
  EXPECT_TRUE(small.poll());
  EXPECT_THAT(small.deliver_all(), SizeIs(10));
}

TEST_F(ClaimStep, I3_NoSuspectIsClaimedBesideACallThatHangs) {
  db.put("suspect");
  crash_holders(2);
  stepper two{db, "two", [](node_settings& s) { s.workers = 2; }};
  two.open();
  db.put("hangs", "quick");
  two.poll();
  auto const hanging = two.start();
  ASSERT_EQ(hanging->event.id(), "hangs");
  two.advance(1001ms);
  two.renew();  // timed out, and still running
  two.settle();
  two.advance(5s);
  db.put("good");
  two.poll_all();
  EXPECT_THAT(two.deliver_all(), ::testing::Contains("good"));
  EXPECT_EQ(db.row("suspect").crashes, 1) << "left alone";
  two.finish(hanging, done);
  two.settle();
  for (int i = 0; i < 4; ++i) {
    two.advance(6s);
    two.renew();
    two.poll_all();
    if (auto const ids = two.deliver_all(); std::ranges::find(ids, "suspect") != ids.end()) return;
    two.settle();
  }
  FAIL() << "the suspect was never tried";
}

TEST_F(ClaimStep, R13_AReadThatSucceedsDoesNotHideWritesThatFail) {
  n.poll_all();
  n.advance(8s);
  n.fail_next(operation::renew, fault::before);
  n.commit("a");
  n.renew();
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  EXPECT_NE(n.look([](engine& e) { return e.unhealthy(); }), "");
  n.advance(1s);
  n.renew();
  EXPECT_EQ(n.look([](engine& e) { return e.unhealthy(); }), "");
}

TEST_F(ClaimStep, R12_WithoutAListenerTheEventIsDead) {
  db.put("a", "nobody.listens");
  n.poll_all();
  EXPECT_EQ(n.work(), "a");
  n.settle();
  auto const r = db.row("a");
  EXPECT_EQ(r.status, event_status::dead);
  EXPECT_EQ(r.attempts, 0) << "not counted";
  EXPECT_EQ(r.last_error, "no listener for event type 'nobody.listens' of aggregate type '__GLOBAL__'");
}

TEST_F(ClaimStep, R12_OnRequestAnUnroutableEventIsDeferred) {
  stepper patient{db, "p", [](node_settings& s) { s.unroutable = unroutable::defer; }};
  patient.open();
  db.put("a", "nobody.listens");
  patient.poll_all();
  EXPECT_EQ(patient.work(), "a");
  patient.settle();
  EXPECT_EQ(db.row("a").status, event_status::created);
  EXPECT_EQ(db.row("a").attempts, 0);
  EXPECT_EQ(db.row("a").available_at, db.clock->now() + 30s);
}

TEST_F(ClaimStep, I7_ARowThatFellDueAgainBeforeItsSettlementWasConfirmedIsANewClaim) {
  db.put("a");
  n.poll_all();
  n.deliver(failed{"no", 0ms});
  n.fail_next(operation::settle, fault::after);
  n.settle();  // it took effect, and the node does not know
  n.look([](engine& e) { e.wake(); });
  EXPECT_TRUE(n.poll());
  auto const t = n.start();
  ASSERT_TRUE(t);
  EXPECT_EQ(t->attempts, 1);
  n.finish(t, done);
  n.advance(100ms);
  n.settle();
  EXPECT_EQ(db.row("a").status, event_status::delivered);
  auto const c = n.counters();
  EXPECT_EQ(c.unconfirmed, 1U);
  EXPECT_EQ(c.delivered, 1U);
  EXPECT_EQ(c.held, 0U);
  EXPECT_EQ(c.own_rows_reclaimed, 0U);
}

TEST_F(ClaimStep, I7_AfterAJumpOfTheStoresClockTheNodeGoesOnWithItsOwnRow) {
  db.put("queued");
  db.put("running");
  n.poll_all();
  auto const first = n.start();
  db.clock->jump(1h);
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  EXPECT_EQ(n.counters().own_rows_reclaimed, 2U);
  EXPECT_EQ(n.look([](engine& e) { return e.cold_depth(); }), 1U) << "not queued twice";
  n.finish(first, done);
  n.deliver();
  n.settle();
  EXPECT_EQ(db.row("queued").status, event_status::delivered);
  EXPECT_EQ(db.row("running").status, event_status::delivered);
  EXPECT_EQ(n.counters().lost, 0U);
}

TEST_F(ClaimStep, R13_TheBeginningAndTheEndOfAnOutageAreLoggedOnce) {
  n.away = true;
  for (int i = 0; i < 5; ++i) {
    n.poll_all();
    n.advance(5s);
  }
  n.away = false;
  n.poll_all();
  EXPECT_THAT(n.log, ElementsAre(HasSubstr("warning: the store does not answer"),
                                 HasSubstr("warning: the store answers again")));
  EXPECT_GE(n.counters().store_errors, 5U);
}

TEST_F(ClaimStep, R3_AClosedNodeReleasesAClaimThatComesTooLate) {
  db.put("a");
  auto const p = n.core->plan_poll();
  ASSERT_TRUE(p.request);
  auto reply = n.core->ask(*p.request);
  n.look([&](engine& e) { e.close(n.now()); });
  n.core->apply(*p.request, std::move(reply));
  EXPECT_EQ(n.deliver(), "");
  n.settle();
  EXPECT_EQ(db.row("a").locked_by, "");
  EXPECT_EQ(n.counters().released, 1U);
}

// Routes that claims leave out: paused, or with enough events in the node.
class LeftOut : public ClaimStep {
 protected:
  // What the next claim asks for; it is carried out, and takes so long.
  claim_request next_claim(std::chrono::milliseconds took = 0ms) {
    n.look([](engine& e) { e.wake(); });
    auto const p = n.core->plan_poll();
    if (!p.request) {
      ADD_FAILURE() << "there is no claim";
      return {};
    }
    auto reply = n.core->ask(*p.request);
    n.advance(took);
    n.core->apply(*p.request, std::move(reply));
    return std::get<claim_request>(p.request->request);
  }
};

TEST_F(LeftOut, R3_AClaimBeginsBehindTheBacklogOfAPausedRoute) {
  for (int i = 0; i < 20; ++i) db.put("paused" + std::to_string(i), "quick");
  n.look([](engine& e) { e.set_pauses({{"quick", ""}}); });
  n.advance(1h);
  EXPECT_EQ(next_claim(5ms).floor, std::nullopt) << "the first one looks at everything";
  auto const second = next_claim();
  ASSERT_TRUE(second.floor);
  EXPECT_GT(*second.floor, db.row("paused19").available_at);
  db.put("a");
  n.look([](engine& e) { e.wake(); });
  n.poll();
  EXPECT_EQ(n.deliver(), "a");
  n.advance(1s);
  EXPECT_EQ(next_claim().floor, std::nullopt) << "after thirty times as long it looks at everything again";
}

TEST_F(LeftOut, R3_ARouteThatIsTakenAgainIsLookedForWhereItWasLeft) {
  db.put("q", "quick");
  db.put("t");
  n.look([](engine& e) { e.set_pauses({{"quick", ""}}); });
  n.advance(1h);
  next_claim(5ms);
  next_claim();
  n.look([](engine& e) { e.set_pauses({}); });
  n.poll();
  EXPECT_THAT(n.deliver_all(), ::testing::UnorderedElementsAre("t", "q"));
}

TEST_F(LeftOut, R3_AClaimThatTakesTooLongIsFollowedByOneThatLooksLessFar) {
  for (auto const reach : {10s, 20s, 40s}) {  // further each time that it succeeds
    n.fail_next(operation::claim, fault::before);
    n.look([](engine& e) { e.wake(); });
    EXPECT_TRUE(n.poll_slowly(10s)) << "until some limit";
    n.advance(3s);
    n.poll();  // what it may have claimed is released
    auto const next = next_claim();
    EXPECT_FALSE(next.floor) << "nothing was ever seen";
    EXPECT_EQ(next.reach, reach);
    n.advance(2min);
  }
  n.look([](engine& e) { e.wake(); });
  n.fail_next(operation::claim, fault::before);
  n.poll_slowly(10s);  // a sweep
  n.advance(3s);
  n.poll();
  n.look([](engine& e) { e.wake(); });
  n.fail_next(operation::claim, fault::before);
  n.poll_slowly(10s);  // a claim that looks 80 s back
  n.advance(3s);
  n.poll();
  EXPECT_EQ(next_claim().reach, 20s) << "and less far if it fails";
}

TEST(ClaimFloors, EachRouteKeepsItsOwn) {
  claim_floors f;
  instant const t0{};
  auto const at = [&](int s) { return t0 + std::chrono::seconds{s}; };
  std::vector<route_pause> const none, slow{{"slow", ""}};
  EXPECT_EQ(f.of(none), std::nullopt);
  f.note(none, at(10), true);  // fifty of the slow ones, up to 10
  EXPECT_EQ(f.of(none), at(10));
  f.note(slow, at(100), false);  // everything else
  EXPECT_EQ(f.of(slow), at(100));
  EXPECT_EQ(f.of(none), at(10)) << "there are more slow ones";
  f.note(none, at(11), false);
  EXPECT_EQ(f.of(none), at(11));
  EXPECT_EQ(f.of(slow), at(100)) << "the others are still as far as they were";
  f.note(none, at(120), false);
  f.note(slow, at(130), false);
  EXPECT_EQ(f.of(none), at(120));
  f.note(none, at(5), true);
  EXPECT_EQ(f.of(slow), at(5)) << "a sweep that stopped early has not seen the rest";
  f.reset();
  EXPECT_EQ(f.of(slow), std::nullopt);
}

TEST(ClaimFloors, ARouteThatWasNeverSeenIsLookedForFromTheBeginning) {
  claim_floors f;
  std::vector<route_pause> const none, slow{{"slow", ""}};
  f.note(slow, instant{} + 10s, true);
  EXPECT_EQ(f.of(slow), instant{} + 10s);
  EXPECT_EQ(f.of(none), std::nullopt);
}

TEST_F(ClaimStep, R13_AClaimThatFailsBacksOffAlthoughItsTokenIsReleased) {
  int claims = 0;
  for (int i = 0; i < 10'000; ++i) {  // ten seconds
    n.fail_next(operation::claim, fault::refused);
    if (n.poll()) claims += n.asked.back() == operation::claim ? 1 : 0;
    n.advance(1ms);
  }
  EXPECT_GE(claims, 3);
  EXPECT_LE(claims, 20) << "a wait that doubles to two seconds";
  EXPECT_THAT(n.log, ElementsAre(HasSubstr("error: the store refuses (cannot claim): refused on purpose")));
  EXPECT_THAT(n.look([](engine& e) { return e.unhealthy(); }), HasSubstr("refused on purpose"));
}

// A row that the store cannot claim.
class Isolated : public ClaimStep {
 protected:
  claim_request claim(std::vector<refused_row> refused) {
    n.look([](engine& e) { e.wake(); });
    auto const p = n.core->plan_poll();
    if (!p.request) return {};
    auto reply = n.core->ask(*p.request);
    std::get<claim_reply>(reply.value).refused = std::move(refused);
    n.core->apply(*p.request, std::move(reply));
    return std::get<claim_request>(p.request->request);
  }
  std::vector<std::string> isolated() {
    return n.look([](engine& e) { return e.isolated(); });
  }
};

TEST_F(Isolated, R13_AnIsolatedRowIsLeftForAWhileCountedAndNamed) {
  EXPECT_THAT(claim({{"bad", "t", "a trigger raises"}}).leave, IsEmpty());
  EXPECT_THAT(isolated(), ElementsAre("bad"));
  EXPECT_EQ(n.counters().isolated, 1U);
  EXPECT_EQ(n.look([](engine& e) { return e.unhealthy(); }), "") << "everything else is delivered";
  EXPECT_THAT(n.log,
              ElementsAre("error: event bad (t) cannot be claimed, the node goes on without it: a trigger raises"));
  EXPECT_THAT(claim({}).leave, ElementsAre("bad"));
  EXPECT_THAT(isolated(), ElementsAre("bad"));

  n.advance(60s);
  EXPECT_THAT(claim({{"bad", "t", "a trigger raises"}}).leave, IsEmpty()) << "it is tried again";
  n.advance(100s);
  EXPECT_THAT(claim({}).leave, ElementsAre("bad")) << "and left for twice as long";
  EXPECT_EQ(n.counters().isolated, 1U);
  EXPECT_THAT(n.log, SizeIs(1)) << "the same error is said once";

  n.advance(21s);
  EXPECT_THAT(claim({}).leave, IsEmpty());
  EXPECT_THAT(isolated(), IsEmpty()) << "it could be claimed, or is gone";
}

TEST_F(Isolated, R13_AClaimThatDidNotLookForAnIsolatedRowDoesNotForgetIt) {
  claim({{"bad", "t", "a trigger raises"}});
  n.advance(60s);
  for (int i = 0; i < 60; ++i) db.put("e" + std::to_string(i));  // more than a claim takes
  EXPECT_THAT(claim({}).leave, IsEmpty());
  EXPECT_THAT(isolated(), ElementsAre("bad"));
}

TEST_F(Isolated, R3_AClaimThatWasRefusedSomethingIsFollowedByOneThatLooksEverywhere) {
  n.look([](engine& e) { e.set_pauses({{"quick", ""}}); });
  n.poll_slowly(5ms);  // the next ones would begin at a floor for a while
  n.advance(1ms);
  EXPECT_TRUE(claim({{"bad", "t", "a trigger raises"}}).floor);
  EXPECT_FALSE(claim({}).floor) << "it may have stopped before rows that could be claimed";
}

TEST_F(ClaimStep, R13_TheEndOfAnOutageIsLoggedAtTheLevelOfItsBeginning) {
  n.fail_next(operation::claim, fault::refused);
  n.poll();
  n.advance(1s);
  n.poll_all();
  EXPECT_THAT(n.log, ElementsAre(HasSubstr("error: the store refuses"), "error: the store answers again"));
}

TEST_F(ClaimStep, R13_ARenewalThatReleasesWhatIsInDoubtEndsAnOutageToo) {
  n.fail_next(operation::claim, fault::before);
  n.poll();
  n.advance(1s);
  n.fail_next(operation::release, fault::before);
  n.poll();
  EXPECT_THAT(n.look([](engine& e) { return e.unhealthy(); }), HasSubstr("does not answer"));
  n.advance(8s);
  n.renew();  // before the poller tries again
  n.poll_all();
  EXPECT_EQ(n.look([](engine& e) { return e.unhealthy(); }), "");
}

TEST_F(ClaimStep, IgnoredPausesAreLoggedOnce) {
  for (auto const entries : {0U, 2U, 2U}) n.look([&](engine& e) { e.note_ignored_pauses(entries); });
  EXPECT_THAT(n.log, ElementsAre(HasSubstr("warning: what is paused has 2 entries that no event can match")));
}

// A suspect waits for what is under way; everything else goes on meanwhile.
class Suspect : public ClaimStep {
 protected:
  void SetUp() override {
    ClaimStep::SetUp();
    db.put("suspect");
    crash_holders(2);
    n.commit("long");
    long_call = n.start();
    n.poll();
  }
  ticket_ptr long_call;
};

TEST_F(Suspect, I10_OthersGoOnWhileALongCallRuns) {
  n.commit("hot");
  EXPECT_EQ(n.deliver(), "hot");
  db.put("cold");
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  EXPECT_EQ(n.deliver(), "cold");
  n.settle();
  n.finish(long_call, done);
  n.settle();
  n.poll_all();
  EXPECT_EQ(n.deliver(), "suspect");
}

TEST_F(Suspect, I10_TheNodeStandsStillForASecondThenGoesOnAndTriesAgain) {
  db.put("second");
  n.look([](engine& e) { e.wake(); });
  n.poll();
  auto const second = n.start();
  ASSERT_TRUE(second);
  n.finish(long_call, done);
  n.settle();
  n.poll_all();
  n.commit("during");
  EXPECT_EQ(db.row("during").locked_by, "") << "it waits for the second call";
  n.advance(1001ms);
  n.poll_all();
  EXPECT_EQ(n.deliver(), "during") << "not longer than a second";
  n.settle();
  n.finish(second, done);
  n.settle();
  n.poll_all();
  EXPECT_EQ(n.deliver(), "suspect");
}

TEST_F(Suspect, I10_AfterAnotherNodeTookTheSuspectTheNodeClaimsAtOnce) {
  stepper other{db, "other"};
  other.open();
  other.poll_all();
  EXPECT_EQ(other.deliver(), "suspect");
  other.settle();
  n.finish(long_call, done);
  n.settle();
  db.put("waits");
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  EXPECT_EQ(n.deliver(), "waits") << "without waiting for the interval";
}

TEST_F(ClaimStep, ALimitedRouteTakesAtMostHalfOfTheSlots) {
  stepper wide{db, "wide", [](node_settings& s) {
                 listeners l;
                 l.on("slow", [](delivery const&) {}, {.max_in_flight = 400});
                 l.on("t", [](delivery const&) {});
                 s.routes = l.release();
                 s.workers = 1000;
                 s.queue.cold = 1000;
               }};
  wide.open();
  for (int i = 0; i < 2000; ++i) db.put("s" + std::to_string(i), "slow");
  std::vector<ticket_ptr> running;
  for (int round = 0; round < 60; ++round) {
    wide.look([](engine& e) { e.wake(); });
    wide.poll();
    while (auto t = wide.start()) running.push_back(std::move(t));
  }
  EXPECT_THAT(running, SizeIs(400));
  EXPECT_LE(wide.counters().held, 750U) << "half of the thousand slots, and the last claim: a quarter of them at most";
  db.put("other");
  wide.look([](engine& e) { e.wake(); });
  wide.poll_all();
  EXPECT_EQ(wide.deliver(), "other");
  // And the rest follows.
  while (!running.empty()) {
    for (auto const& t : std::exchange(running, {})) wide.finish(t, done);
    wide.settle();
    wide.poll_all();
    while (auto t = wide.start()) running.push_back(std::move(t));
  }
  wide.settle();
  EXPECT_EQ(db.store->inspect().counts().pending(), 0U);
}

TEST_F(ClaimStep, ALockOfAnotherProgramIsLoggedOnce) {
  for (int i = 0; i < 2; ++i) {
    n.look([](engine& e) { e.wake(); });
    auto const p = n.core->plan_poll();
    ASSERT_TRUE(p.request);
    auto reply = n.core->ask(*p.request);
    std::get<claim_reply>(reply.value).foreign_owner = "java-1";
    n.core->apply(*p.request, std::move(reply));
  }
  EXPECT_THAT(n.log, ElementsAre(HasSubstr("warning: another program, 'java-1', dispatches from this table too")));
}

}  // namespace
}  // namespace outbox::core
