// Which event runs next, and what its listener's answer means: the seeds' table of outcomes.
#include <set>

#include "core/base/text.hpp"
#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

using namespace spi;

class Work : public ::testing::Test {
 protected:
  void SetUp() override { n.open(); }
  row_view after(result r) {
    n.commit("a");
    n.deliver(std::move(r));
    n.settle();
    return db.row("a");
  }
  table db;
  stepper n{db};
};

TEST_F(Work, TwoOfThreeTurnsAreHot) {
  for (int i = 0; i < 6; ++i) db.put("cold" + std::to_string(i));
  n.poll_all();
  for (int i = 0; i < 6; ++i) n.commit("hot" + std::to_string(i));
  EXPECT_THAT(n.deliver_all(), ElementsAre("hot0", "hot1", "cold0", "hot2", "hot3", "cold1", "hot4", "hot5", "cold2",
                                           "cold3", "cold4", "cold5"));
}

TEST_F(Work, AnEmptyQueueGivesItsTurnAway) {
  for (int i = 0; i < 4; ++i) db.put("cold" + std::to_string(i));
  n.poll_all();
  EXPECT_THAT(n.deliver_all(), SizeIs(4)) << "no turn waits for a hot event";
}

TEST_F(Work, DoneDeliversTheEvent) {
  auto const r = after(done);
  EXPECT_EQ(r.status, event_status::delivered);
  EXPECT_EQ(r.attempts, 0);
  EXPECT_EQ(n.counters().delivered, 1U);
}

TEST_F(Work, DeferIsNotCountedAndWaitsAsItSays) {
  auto const r = after(defer{7s, "throttled"});
  EXPECT_EQ(r.status, event_status::created);
  EXPECT_EQ(r.attempts, 0);
  EXPECT_EQ(r.available_at, db.clock->now() + 7s);
  EXPECT_EQ(r.last_error, "throttled");
  EXPECT_EQ(n.counters().deferred, 1U);
}

TEST_F(Work, AWholeRouteMayWait) {
  for (auto const* id : {"a", "b"}) db.put(id);
  n.poll_all();
  EXPECT_EQ(n.deliver(defer{10s, "away", true}), "a");
  EXPECT_FALSE(n.start()) << "what waits in the node waits on";
  while (n.settle()) {
  }
  EXPECT_EQ(db.row("b").locked_by, "") << "it is given back, untouched";
  EXPECT_EQ(db.row("b").last_error, "");
  db.put("c");
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  n.commit("d");
  EXPECT_FALSE(n.start()) << "claims leave it out, and births go through the table";
  n.advance(10s);
  n.poll_all();
  EXPECT_THAT(n.deliver_all(), ::testing::UnorderedElementsAre("a", "b", "c", "d"));
}

TEST_F(Work, FailedIsCountedAndBacksOff) {
  auto const r = after(failed{"down"});
  EXPECT_EQ(r.status, event_status::retry);
  EXPECT_EQ(r.attempts, 1);
  EXPECT_GE(r.available_at, db.clock->now() + 100ms);
  EXPECT_LT(r.available_at, db.clock->now() + 300ms);
  EXPECT_EQ(r.last_error, "down");
  EXPECT_EQ(n.counters().failed, 1U);
}

TEST_F(Work, EventsThatFailTogetherDoNotComeBackTogether) {
  constexpr int events = 100;
  for (int i = 0; i < events; ++i) n.commit("e" + std::to_string(i));
  for (int i = 0; i < events; ++i) n.deliver(failed{"down"});
  n.settle();
  std::set<instant> due;
  for (int i = 0; i < events; ++i) due.insert(db.row("e" + std::to_string(i)).available_at);
  EXPECT_GT(due.size(), 50U) << "of 200 different waits";
  EXPECT_LT(*due.begin(), db.clock->now() + 150ms);
  EXPECT_GT(*due.rbegin(), db.clock->now() + 250ms);
}

TEST_F(Work, FailedMayBringItsOwnWait) {
  auto const r = after(failed{"down", 9s});
  EXPECT_EQ(r.attempts, 1);
  EXPECT_EQ(r.available_at, db.clock->now() + 9s);
}

TEST_F(Work, DeadIsAtOnceAndNotCounted) {
  auto const r = after(dead{"rejected"});
  EXPECT_EQ(r.status, event_status::dead);
  EXPECT_EQ(r.attempts, 0);
  EXPECT_EQ(r.last_error, "rejected");
  EXPECT_THAT(n.log, ElementsAre("error: event a (t) of route 't' is DEAD: rejected"));
}

TEST_F(Work, I3_TheLastAttemptIsCountedAndTheRowIsDead) {
  n.commit("a");
  for (int attempt = 1; attempt <= 3; ++attempt) {
    auto const t = n.start();
    ASSERT_TRUE(t) << attempt;
    EXPECT_EQ(t->attempts + 1, attempt);
    n.finish(t, failed{"no", 1ms});
    n.settle();
    n.advance(10ms);
    n.poll_all();
  }
  EXPECT_EQ(db.row("a").status, event_status::dead);
  EXPECT_EQ(db.row("a").attempts, 3);
  EXPECT_FALSE(n.start());
}

TEST_F(Work, DeferralsNeverUseTheAttemptsUp) {
  n.commit("a");
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(n.deliver(defer{1ms}), "a");
    n.settle();
    n.advance(10ms);
    n.poll_all();
  }
  EXPECT_EQ(db.row("a").attempts, 0);
}

TEST_F(Work, ARouteHasItsOwnRetryPolicy) {
  db.put("a", "quick");
  n.poll_all();
  n.deliver(failed{"no", 1ms});
  n.settle();
  n.advance(10ms);
  n.poll_all();
  n.deliver(failed{"no"});
  n.settle();
  EXPECT_EQ(db.row("a").status, event_status::dead) << "two attempts, not the node's three";
}

// A node whose policy has a delay of its own; the row after so many failures.
class OwnPolicy : public Work {
 protected:
  row_view failing(std::function<std::chrono::milliseconds(std::int32_t)> delay, int times, result const& r) {
    stepper m{db, "m", [&](node_settings& s) { s.retry.delay = std::move(delay); }};
    m.open();
    db.put("a");
    for (int i = 0; i < times; ++i) {
      m.advance(1h);
      m.renew();
      m.poll_all();
      EXPECT_EQ(m.deliver(r), "a") << i;
      m.settle();
    }
    return db.row("a");
  }
};

TEST_F(OwnPolicy, DecidesTheWait) {
  auto const r = failing([](std::int32_t failures) { return failures * 11s; }, 2, failed{"down"});
  EXPECT_EQ(r.attempts, 2);
  EXPECT_EQ(r.available_at, db.clock->now() + 22s) << "of the second failure, without jitter";
}

TEST_F(OwnPolicy, AWaitOfTheListenerComesFirst) {
  auto const r = failing([](std::int32_t) { return 11s; }, 1, failed{"down", 9s});
  EXPECT_EQ(r.available_at, db.clock->now() + 9s);
}

TEST_F(OwnPolicy, IfItThrowsTheBackoffDecides) {
  auto const r = failing([](std::int32_t) -> std::chrono::milliseconds { throw 42; }, 1, failed{"down"});
  EXPECT_EQ(r.attempts, 1);
  EXPECT_GE(r.available_at, db.clock->now() + 100ms);
  EXPECT_LT(r.available_at, db.clock->now() + 300ms);
}

TEST_F(OwnPolicy, ItsWaitIsBounded) {
  auto const at_once = failing([](std::int32_t) { return -1h; }, 1, failed{"down"});
  EXPECT_EQ(at_once.available_at, db.clock->now());
  ASSERT_EQ(n.poll(), true);
  ASSERT_EQ(n.deliver(), "a");
  n.settle();
  db.store->backend().purge({.retention = 0s});
  auto const endless = failing([](std::int32_t) { return std::chrono::milliseconds::max(); }, 1, failed{"down"});
  EXPECT_EQ(endless.available_at, db.clock->now() + 24h * 3650);
}

TEST_F(OwnPolicy, DoesNotSaveAnEventFromItsLastAttempt) {
  EXPECT_EQ(failing([](std::int32_t) { return 1s; }, 3, failed{"down"}).status, event_status::dead);
}

TEST_F(Work, ANegativeWaitIsNoWait) { EXPECT_EQ(after(failed{"x", -5s}).available_at, db.clock->now()); }

TEST_F(Work, AWaitIsAtMostTenYears) {
  EXPECT_EQ(after(defer{std::chrono::milliseconds::max()}).available_at, db.clock->now() + 24h * 3650);
}

TEST_F(Work, R5_AReasonIsMadeStorable) {
  auto const r = after(dead{std::string{"bad \xff and \0 long ", 18} + std::string(5000, 'x')});
  EXPECT_EQ(r.last_error.substr(0, 7), "bad \xEF\xBF\xBD");
  EXPECT_EQ(r.last_error.find('\0'), std::string::npos);
  EXPECT_EQ(utf8_length(r.last_error), 4000U);
  EXPECT_EQ(r.last_error.back(), 'x');
}

TEST_F(Work, R5_AReasonIsCutByCharactersNotBytes) {
  std::string reason;
  for (int i = 0; i < 5000; ++i) reason += "é";
  auto const r = after(failed{reason});
  EXPECT_EQ(r.last_error, reason.substr(0, 8000)) << "4000 characters of two bytes";
}

TEST_F(Work, AReasonIsNeverEmpty) { EXPECT_NE(after(dead{}).last_error, ""); }

TEST_F(Work, R7_NothingStartsInTheLastThirdOfALease) {
  n.commit("a");
  n.advance(20s);
  EXPECT_FALSE(n.start());
  n.renew();
  EXPECT_TRUE(n.start());
}

TEST_F(Work, ABatchThatHangsIsOneWorkerThatHangs) {
  stepper b{db, "b", [](node_settings& s) {
              listeners l;
              l.on_batch("t", [](std::span<delivery const> batch) { return std::vector<result>(batch.size(), done); });
              s.routes = l.release();
              s.workers = 4;
            }};
  b.open();
  for (int i = 0; i < 10; ++i) b.commit("e" + std::to_string(i));
  auto const job = b.look([&](engine& e) { return e.start_next(b.now()); });
  ASSERT_EQ(job.rest.size(), 9U);
  b.advance(6min);
  b.renew();
  EXPECT_EQ(b.counters().timed_out, 10U);
  EXPECT_EQ(b.look([](engine& e) { return e.unhealthy(); }), "");
  b.finish(job.first, done);
  for (auto const& t : job.rest) b.finish(t, done);
  EXPECT_EQ(b.counters().late_results, 10U);
}

TEST_F(Work, AnExceptionOfAListenerIsAnAnswer) {
  auto const thrown = [&](std::function<void()> f) {
    node_settings s = step_settings(db.store, db.clock);
    listeners l;
    l.on("t", [f](delivery const&) { f(); });
    s.routes = l.release();
    auto const core = std::make_shared<node_core>(std::move(s));
    auto const* const r = core->settings().routes->find("", "t");
    auto const t = std::make_shared<ticket>(event::json("t", "1"), row_handle{}, r, path::hot);
    return core->deliver(t).value().answer;
  };
  auto const plain = thrown([] { throw std::runtime_error{"oops"}; });
  ASSERT_TRUE(std::holds_alternative<failed>(plain.value()));
  EXPECT_EQ(std::get<failed>(plain.value()).reason, "oops");
  EXPECT_FALSE(std::get<failed>(plain.value()).after);
  auto const waiting = thrown([] { throw failure{"later", 3s}; });
  EXPECT_EQ(std::get<failed>(waiting.value()).after, 3s);
  EXPECT_TRUE(std::holds_alternative<dead>(thrown([] { throw permanent_failure{"never"}; }).value()));
  struct rejected : permanent_failure {
    using permanent_failure::permanent_failure;
  };
  auto const derived = thrown([] { throw rejected{"no such order"}; });
  ASSERT_TRUE(std::holds_alternative<dead>(derived.value()));
  EXPECT_EQ(std::get<dead>(derived.value()).reason, "no such order");
  struct throttled : failure {
    throttled() : failure{"throttled", 4s} {}
  };
  EXPECT_EQ(std::get<failed>(thrown([] { throw throttled{}; }).value()).after, 4s);
  EXPECT_TRUE(std::holds_alternative<failed>(thrown([] { throw 42; }).value()));
}

TEST_F(Work, ADeferralWithoutADelayWaitsForTheBaseOfTheBackoff) {
  for (auto const delay : {0ms, -5000ms}) {
    n.commit("a" + std::to_string(delay.count()));
    n.deliver(defer{delay});
    n.settle();
    auto const r = db.row("a" + std::to_string(delay.count()));
    EXPECT_EQ(r.available_at, db.store->now() + 200ms);
    EXPECT_EQ(r.attempts, 0);
  }
  n.commit("b");
  n.deliver(defer{1ms});
  n.settle();
  EXPECT_EQ(db.row("b").available_at, db.store->now() + 1ms) << "one that is asked for is kept";
}

TEST_F(Work, TheLogOfAnUnroutableEventNamesTheOptionThatKeepsIt) {
  db.put("a", "nobody.listens");
  n.look([](engine& e) { e.wake(); });
  n.poll_all();
  n.work();
  n.settle();
  EXPECT_THAT(n.log, ::testing::Contains(HasSubstr("unroutable::defer")));
}

}  // namespace
}  // namespace outbox::core
