// The sentence that `outbox status` begins with.
#include "verdict.hpp"

#include <gmock/gmock.h>

namespace outbox_tool {
namespace {

using namespace std::chrono_literals;
using level = verdict::level;
using ::testing::HasSubstr;
using ::testing::Not;

struct Verdict : ::testing::Test {
  Verdict() {
    facts.table.at = outbox::instant{std::chrono::sys_days{std::chrono::year{2030} / 1 / 31}} + 3h;
    facts.table.limit = 100'000;
    facts.table.growth = 0;
    facts.nodes.push_back({.incarnation = "h:1:x", .name = "shop", .active = true});
  }
  [[nodiscard]] verdict judged() const { return judge(facts, {}); }
  void wait(std::uint64_t rows, std::chrono::milliseconds age) {
    facts.table.pending = facts.table.due = rows;
    facts.table.due_since = facts.table.waiting_since = facts.table.at - age;
  }

  evidence facts;
};

TEST_F(Verdict, AnEmptyTableIsHealthyWithAndWithoutNodes) {
  EXPECT_EQ(judged().what, level::healthy);
  EXPECT_EQ(judged().sentence, "HEALTHY: nothing waits; 0 delivered in the last minute.");
  facts.nodes.clear();
  EXPECT_EQ(judged().what, level::healthy) << "nothing is to be delivered";
}

TEST_F(Verdict, AParkedKeyIsWrongHoweverManyDeadEventsAreAllowed) {
  facts.keyed = true;
  EXPECT_EQ(judged().what, level::healthy);
  auto const at = facts.table.at;
  facts.parked = {{"=young", "2", at - 1min, 3}, {"=old", "1", at - 10min, 1}, {"=unknown", "3", {}, 1}};
  auto const v = judge(facts, {.dead = 100});
  EXPECT_EQ(v.what, level::degraded);
  EXPECT_EQ(v.sentence, "DEGRADED since 2030-01-31 02:50:00Z: 3 keys are parked behind dead events.");
  EXPECT_EQ(first_parked(facts.parked).id, "1");
}

TEST_F(Verdict, WorkUnderWayIsHealthy) {
  wait(12, 300ms);
  facts.table.done_in_a_minute = 1204;
  EXPECT_EQ(judged().sentence,
            "HEALTHY: 12 events wait, the oldest for 0.3 s, steady; 1,204 delivered in the last minute.");
}

TEST_F(Verdict, WithoutANodeThatDeliversNothingMoves) {
  wait(12'431, 19min + 4s);
  facts.table.growth = 210;
  facts.table.last_ended = facts.table.at - 10min;
  facts.nodes.front().active = false;
  auto const v = judged();
  EXPECT_EQ(v.what, level::stalled);
  EXPECT_EQ(v.sentence,
            "STALLED since 2030-01-31 02:50:00Z: no live node delivers from this table; 12,431 events wait, the oldest "
            "for 19 min 04 s, growing by 210 a minute.");
  EXPECT_FALSE(v.time_to_drain);
  facts.nodes.front() = {.incarnation = "w", .mode = outbox::node_mode::writer_only, .active = true};
  EXPECT_EQ(judged().what, level::stalled) << "a node that only writes delivers nothing";
}

TEST_F(Verdict, DueForLongIsStalledIfNothingEndsAndDegradedIfSomethingDoes) {
  wait(5, 2min);
  EXPECT_EQ(judged().what, level::stalled);
  facts.table.done_in_a_minute = 1;
  EXPECT_EQ(judged().what, level::degraded);
  EXPECT_EQ(judge(facts, {.lag = 5min}).what, level::healthy);
}

TEST_F(Verdict, FailingEventsAreToldWithTheirAge) {
  facts.table.pending = facts.table.retrying = 3;
  facts.table.waiting_since = facts.table.at - 1h;
  EXPECT_EQ(judged().what, level::degraded);
  EXPECT_THAT(judged().sentence, HasSubstr("3 events fail and are tried again; 3 events wait, the oldest for 1 h"));
  facts.table.waiting_since = facts.table.at - 5s;
  EXPECT_EQ(judged().what, level::healthy) << "a retry is nothing special";
}

// Their head is deferred, or its listener hangs: nothing is due, fails or is DEAD.
TEST_F(Verdict, EventsThatWaitForLongBehindOthersOfTheirKeyAreTold) {
  facts.keyed = true;
  facts.table.pending = 41;
  facts.table.delayed = 1;
  facts.table.blocked = 40;
  facts.table.done_in_a_minute = 100;
  facts.table.waiting_since = facts.table.at - 3h;
  auto const v = judged();
  EXPECT_EQ(v.what, level::degraded);
  EXPECT_EQ(v.since, facts.table.waiting_since);
  EXPECT_EQ(
      v.sentence,
      "DEGRADED since 2030-01-31 00:00:00Z: 40 events wait behind others of their key; 41 events wait, the oldest "
      "for 3 h, steady.");
  facts.table.retrying = 1;
  EXPECT_THAT(judged().sentence,
              HasSubstr("1 event fails and is tried again; 40 events wait behind others of their key; 41 events wait"));
  facts.table.retrying = 0;
  facts.table.blocked = 1;
  EXPECT_THAT(judged().sentence, HasSubstr("1 event waits behind another of its key; "));
  facts.table.waiting_since = facts.table.at - 5s;
  EXPECT_EQ(judged().what, level::healthy) << "each waits for its turn";
}

TEST_F(Verdict, DeadEventsCountUpToTheLimitThatIsGiven) {
  facts.table.dead = 1;
  facts.table.last_dead = facts.table.at - 30s;
  EXPECT_EQ(judged().what, level::degraded);
  EXPECT_EQ(judged().sentence,
            "DEGRADED since 2030-01-31 02:59:30Z: 1 event is DEAD, the last since 2030-01-31 02:59:30Z.");
  EXPECT_EQ(judge(facts, {.dead = 1}).what, level::healthy);
}

TEST_F(Verdict, WhatNodesSayIsSaidOnceAndCannotHarmATerminal) {
  facts.nodes.front().reason = "no \033[31mroute";
  facts.nodes.push_back(facts.nodes.front());
  auto const v = judged();
  EXPECT_EQ(v.what, level::degraded);
  EXPECT_EQ(v.sentence, "DEGRADED: shop: no \\u{1b}[31mroute.");
}

TEST_F(Verdict, PausesAreMentioned) {
  facts.pauses = {{"a", ""}, {"b", ""}};
  EXPECT_THAT(judged().sentence, HasSubstr("2 routes are paused."));
}

TEST_F(Verdict, TheTimeToDrainFollowsTheTrend) {
  wait(600, 1s);
  facts.table.growth = -300;
  EXPECT_EQ(judged().time_to_drain, 2min);
  facts.table.growth = 10;
  EXPECT_FALSE(judged().time_to_drain) << "it gets more";
  facts.table.delayed = 600;
  facts.table.growth = -300;
  EXPECT_FALSE(judged().time_to_drain) << "what is delayed is not to be drained";
}

TEST_F(Verdict, WithoutDoneRowsTheRateIsThatOfTheNodes) {
  facts.keeps_done_rows = false;
  facts.table.growth.reset();
  facts.nodes.front().started_at = facts.table.at - 10min;
  facts.nodes.front().done = 6000;
  wait(1200, 1s);
  auto const v = judged();
  EXPECT_EQ(v.rate.per_minute, 600);
  EXPECT_TRUE(v.rate.average);
  EXPECT_EQ(v.time_to_drain, 2min);
  EXPECT_THAT(v.sentence, HasSubstr("600 delivered in an average minute"));
  EXPECT_THAT(v.sentence, Not(HasSubstr("growing")));
}

TEST_F(Verdict, ACountAtItsLimitIsALeast) {
  wait(100'000, 300ms);
  facts.table.growth.reset();
  EXPECT_THAT(judged().sentence, HasSubstr("at least 100,000 events wait"));
}

}  // namespace
}  // namespace outbox_tool
