// Claims: which rows a claim takes, and when.
#pragma once

#include <atomic>
#include <set>
#include <thread>

#include <outbox/testing/contract/suite.hpp>

namespace outbox::contract {

class Claim : public StoreContract {};

OUTBOX_CONTRACT_CASE(Claim, EmptyTableGivesNothing) {
  auto const reply = this->claim("n/1");
  EXPECT_THAT(reply.rows, IsEmpty());
  EXPECT_THAT(reply.dead, IsEmpty());
  EXPECT_FALSE(reply.more);
  EXPECT_FALSE(reply.suspects_waiting);
  EXPECT_FALSE(reply.next_due);
  EXPECT_EQ(reply.oldest_lag, 0ms);
}

OUTBOX_CONTRACT_CASE(Claim, OldestDueFirst) {
  event_options late;
  late.deliver_after = 10s;
  this->put(json_event("delayed", late));
  this->advance(5s);
  this->put({"b", "a"});
  this->advance(10s);
  this->put({"c"});
  EXPECT_THAT(this->ids(this->claim("n/1")), ElementsAre("b", "a", "delayed", "c"));
}

OUTBOX_CONTRACT_CASE(Claim, StopsAtTheLimitAndSaysThereIsMore) {
  this->put({"a", "b", "c"});
  auto r = this->request("n/1");
  r.limit = 2;
  auto const first = this->s().claim(r);
  EXPECT_THAT(this->ids(first), ElementsAre("a", "b"));
  EXPECT_TRUE(first.more);
  r.token = "n/2";
  auto const second = this->s().claim(r);
  EXPECT_THAT(this->ids(second), ElementsAre("c"));
  EXPECT_FALSE(second.more);
}

OUTBOX_CONTRACT_CASE(Claim, TheFloorIsTheFirstRowThatWasLeftOrTheLastTaken) {
  EXPECT_FALSE(this->claim("n/0").floor);
  for (auto const* const id : {"a", "b", "c"}) {
    this->put({id});
    this->advance(1s);
  }
  auto const due_at = [&](char const* id) { return this->s().inspect().find(id)->available_at; };
  auto r = this->request("n/1");
  r.limit = 1;
  EXPECT_EQ(this->s().claim(r).floor, due_at("b"));
  r.token = "n/2";
  r.limit = 2;
  EXPECT_EQ(this->s().claim(r).floor, due_at("c"));
}

OUTBOX_CONTRACT_CASE(Claim, NoRowAfterTheFloorIsLeftOut) {
  this->put({"before"});
  this->advance(10s);
  this->put({"at"});
  this->advance(10s);
  this->put({"after"});
  auto r = this->request("n/1");
  r.floor = this->s().inspect().find("at")->available_at;
  auto const found = this->ids(this->s().claim(r));
  EXPECT_THAT(found, ::testing::IsSupersetOf({"at", "after"}));
  // What a claim may leave out, a claim without a floor finds.
  r.floor.reset();
  r.token = "n/2";
  auto const rest = this->ids(this->s().claim(r));
  EXPECT_EQ(found.size() + rest.size(), 3U);
}

OUTBOX_CONTRACT_CASE(Claim, I8_StopsBeforeTooManyBytes) {
  std::string const text = '"' + std::string(998, 'x') + '"';
  for (int i = 0; i < 5; ++i) this->put(event::json("t", text));
  auto r = this->request("n/1");
  r.max_bytes = 2500;
  auto const reply = this->s().claim(r);
  EXPECT_THAT(reply.rows, SizeIs(2));
  EXPECT_TRUE(reply.more);
}

OUTBOX_CONTRACT_CASE(Claim, I8_TakesOneRowHoweverLarge) {
  this->put(event::json("t", '"' + std::string(5000, 'x') + '"'));
  auto r = this->request("n/1");
  r.max_bytes = 10;
  EXPECT_THAT(this->s().claim(r).rows, SizeIs(1));
}

OUTBOX_CONTRACT_CASE(Claim, I6_AClaimedRowIsNotClaimedAgain) {
  this->put({"a"});
  EXPECT_THAT(this->claim("n/1").rows, SizeIs(1));
  EXPECT_THAT(this->claim("m/1").rows, IsEmpty());
}

OUTBOX_CONTRACT_CASE(Claim, I6_NotEvenTheNodesOwnLiveLeaseIsTaken) {
  this->put({"a"});
  EXPECT_THAT(this->claim("n/1").rows, SizeIs(1));
  EXPECT_THAT(this->claim("n/2").rows, IsEmpty());
}

OUTBOX_CONTRACT_CASE(Claim, I10_AnExpiredLeaseIsTakenAndACrashCounted) {
  this->put({"a"});
  this->claim_one("n/1");
  this->advance(lease - 5s);
  EXPECT_THAT(this->claim("m/1").rows, IsEmpty());
  this->advance(5s);
  auto const reply = this->claim("m/2");
  ASSERT_THAT(reply.rows, SizeIs(1));
  EXPECT_EQ(reply.rows[0].crashes, 1);
  EXPECT_EQ(this->row("a").locked_by, "m/2");
}

OUTBOX_CONTRACT_CASE(Claim, ARowWithoutAnOwnerHasNoCrash) {
  this->put({"a"});
  this->expire();
  auto const reply = this->claim("n/1");
  ASSERT_THAT(reply.rows, SizeIs(1));
  EXPECT_EQ(reply.rows[0].crashes, 0);
}

OUTBOX_CONTRACT_CASE(Claim, TheLeaseEndsByTheStoresClock) {
  this->put({"a"});
  this->claim_one("n/1");
  auto const r = this->row("a");
  ASSERT_TRUE(r.lease_until);
  EXPECT_GT(*r.lease_until, this->s().now() + lease - 5s);
  EXPECT_LE(*r.lease_until, this->s().now() + lease);
}

OUTBOX_CONTRACT_CASE(Claim, I3_CrashesAddUpUntilTheRowIsDead) {
  this->crash({"a"}, 4);  // four owners vanished
  auto r = this->request("n/9");
  r.max_crashes = 4;
  auto const reply = this->s().claim(r);
  EXPECT_THAT(reply.rows, IsEmpty());
  ASSERT_THAT(reply.dead, SizeIs(1));
  EXPECT_EQ(reply.dead[0].id, "a");
  EXPECT_EQ(reply.dead[0].type, "order.placed");
  EXPECT_EQ(reply.dead[0].crashes, 4);
  auto const dead = this->row("a");
  EXPECT_EQ(dead.status, event_status::dead);
  EXPECT_EQ(dead.crashes, 4);
  EXPECT_TRUE(dead.done_at);
  EXPECT_EQ(dead.locked_by, "");
  EXPECT_NE(dead.last_error, "");
}

OUTBOX_CONTRACT_CASE(Claim, I3_ARowWithOneCrashLeftIsLeftForLater) {
  this->crash({"suspect"}, 3);
  this->put({"good"});
  auto r = this->request("n/9");
  r.max_crashes = 4;
  auto const reply = this->s().claim(r);
  EXPECT_THAT(this->ids(reply), ElementsAre("good"));
  EXPECT_TRUE(reply.suspects_waiting);
  EXPECT_EQ(this->row("suspect").crashes, 2) << "a row that was left is as it was";
}

OUTBOX_CONTRACT_CASE(Claim, I3_ASuspectIsTakenAlone) {
  this->crash({"s1", "s2"}, 3);
  this->put({"good"});
  auto r = this->request("n/9");
  r.max_crashes = 4;
  r.suspects = suspects::take_one;
  auto const reply = this->s().claim(r);
  EXPECT_THAT(this->ids(reply), ElementsAre("s1"));
  EXPECT_EQ(reply.rows[0].crashes, 3);
}

OUTBOX_CONTRACT_CASE(Claim, I3_AReleasedSuspectIsStillASuspect) {
  this->crash({"a"}, 3);
  auto r = this->request("n/9");
  r.max_crashes = 4;
  r.suspects = suspects::take_one;
  auto const taken = this->s().claim(r);
  ASSERT_THAT(taken.rows, SizeIs(1));
  EXPECT_TRUE(this->settle(taken.rows[0].handle, outcome::release));
  r.token = "n/10";
  r.suspects = suspects::skip;
  EXPECT_TRUE(this->s().claim(r).suspects_waiting);
}

OUTBOX_CONTRACT_CASE(Claim, UnownedOnlyLeavesRowsThatTheirOwnerMayStillSettle) {
  this->put({"a"});
  this->claim_one("n/1");
  this->expire();
  this->put({"b"});
  auto r = this->request("m/1");
  r.unowned_only = true;
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("b"));
  EXPECT_THAT(this->ids(this->claim("m/2")), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Claim, SkipRecentLeavesYoungRows) {
  this->put({"old"});
  this->advance(10s);
  this->put({"young"});
  auto r = this->request("n/1");
  r.skip_recent = 5s;
  auto const reply = this->s().claim(r);
  EXPECT_THAT(this->ids(reply), ElementsAre("old"));
  ASSERT_TRUE(reply.next_due) << "the young one grows old";
  EXPECT_LE(*reply.next_due - reply.now, 5s);
  this->advance(5s);
  r.token = "n/2";
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("young"));
}

OUTBOX_CONTRACT_CASE(Claim, DeliverAfterCountsFromTheInsert) {
  event_options o;
  o.deliver_after = 60s;
  this->put(json_event("a", o));
  this->advance(30s);
  EXPECT_THAT(this->claim("n/1").rows, IsEmpty());
  this->advance(30s);
  EXPECT_THAT(this->ids(this->claim("n/2")), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Claim, AvailableAtIsAnInstant) {
  event_options o;
  o.occurred_at = this->s().now();
  o.available_at = this->s().now() + 60s;
  this->put(json_event("a", o));
  EXPECT_EQ(this->row("a").available_at, *o.available_at);
  EXPECT_THAT(this->claim("n/1").rows, IsEmpty());
  this->advance(61s);
  EXPECT_THAT(this->ids(this->claim("n/2")), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Claim, SaysWhenTheNextDelayedRowIsDue) {
  event_options o;
  o.deliver_after = 60s;
  this->put(json_event("a", o));
  o.deliver_after = 20s;
  this->put(json_event("b", o));
  auto const reply = this->claim("n/1");
  ASSERT_TRUE(reply.next_due);
  EXPECT_GT(*reply.next_due - reply.now, 10s);
  EXPECT_LE(*reply.next_due - reply.now, 20s);
}

OUTBOX_CONTRACT_CASE(Claim, SaysWhenTheNextLeaseEnds) {
  this->put({"a"});
  this->claim_one("n/1");
  auto const reply = this->claim("m/1");
  ASSERT_TRUE(reply.next_due);
  EXPECT_GT(*reply.next_due - reply.now, lease - 5s);
  EXPECT_LE(*reply.next_due - reply.now, lease);
}

OUTBOX_CONTRACT_CASE(Claim, SaysWhenTheNextRetryIsDue) {
  this->put({"a"});
  this->settle(this->claim_one("n/1"), outcome::retry, {.counted = 1, .delay = 20s});
  auto const reply = this->claim("n/2");
  EXPECT_THAT(reply.rows, IsEmpty());
  ASSERT_TRUE(reply.next_due);
  EXPECT_LE(*reply.next_due - reply.now, 20s);
}

OUTBOX_CONTRACT_CASE(Claim, SaysHowLongTheOldestHasBeenDue) {
  this->put({"a"});
  this->advance(10s);
  auto const lag = this->claim("n/1").oldest_lag;
  EXPECT_GE(lag, 10s);
  EXPECT_LT(lag, 15s);
}

OUTBOX_CONTRACT_CASE(Claim, TerminalRowsAreNotClaimed) {
  this->put({"a", "b"});
  auto const reply = this->claim("n/1");
  this->settle(reply.rows[0].handle, outcome::delivered);
  this->settle(reply.rows[1].handle, outcome::dead, {.error = "no"});
  this->expire();
  EXPECT_THAT(this->claim("n/2").rows, IsEmpty());
}

OUTBOX_CONTRACT_CASE(Claim, BringsAttemptsAndProgress) {
  this->put({"a"});
  this->settle(this->claim_one("n/1"), outcome::retry, {.counted = 1, .progress = "half"});
  auto const reply = this->claim("n/2");
  ASSERT_THAT(reply.rows, SizeIs(1));
  EXPECT_EQ(reply.rows[0].attempts, 1);
  EXPECT_EQ(reply.rows[0].progress, "half");
}

OUTBOX_CONTRACT_CASE(Claim, EachRowOfADeepBacklogIsClaimedOnce) {
  constexpr std::size_t rows = 3000;
  std::vector<event> events;
  std::vector<insertion> inserts;
  for (std::size_t i = 0; i < rows; ++i) events.push_back(json_event("id-" + std::to_string(i)));
  for (auto const& e : events) inserts.push_back({&e});
  auto tx = this->backend().begin();
  this->s().insert(tx->ref(), inserts);
  tx->commit();
  std::set<std::string> seen;
  for (int n = 0; n < 100; ++n) {
    auto const reply = this->claim("n/" + std::to_string(n));
    if (reply.rows.empty()) break;
    for (auto const& r : reply.rows) EXPECT_TRUE(seen.insert(r.handle.id).second) << r.handle.id << " twice";
  }
  EXPECT_EQ(seen.size(), rows);
}

OUTBOX_CONTRACT_CASE(Claim, DelayedAndLeasedRowsDoNotDelayOthers) {
  event_options o;
  o.deliver_after = 1h;
  for (int i = 0; i < 200; ++i) this->put(json_event("delayed-" + std::to_string(i), o));
  for (int i = 0; i < 200; ++i) this->put_owned(json_event("leased-" + std::to_string(i)), "other/1");
  this->put({"due"});
  auto const reply = this->claim("n/1");
  EXPECT_THAT(this->ids(reply), ElementsAre("due"));
  EXPECT_FALSE(reply.more);
}

OUTBOX_CONTRACT_CASE(Claim, I6_SeveralThreadsNeverGetTheSameRow) {
  constexpr int rows = 400;
  for (int i = 0; i < rows; ++i) this->put(json_event("id-" + std::to_string(i)));
  std::mutex mutex;
  std::multiset<std::string> seen;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      int empty = 0;
      for (int n = 0; empty < 3; ++n) {
        auto r = this->request("t" + std::to_string(t) + "/" + std::to_string(n));
        r.limit = 7;
        auto const reply = this->s().claim(r);
        empty = reply.rows.empty() ? empty + 1 : 0;
        std::lock_guard const lock{mutex};
        for (auto const& row : reply.rows) seen.insert(row.handle.id);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(rows));
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), static_cast<std::size_t>(rows));
}

OUTBOX_CONTRACT_CASE(Claim, RowsInTheListToLeaveAreNotTaken) {
  this->put({"a", "b", "c"});
  auto r = this->request("n/1");
  r.leave = {"a", "c", "not there"};
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("b"));
}

OUTBOX_CONTRACT_CASE(Claim, WithAFloorItTakesEveryDueRowFromThereOn) {
  this->put({"a"});
  this->advance(1min);
  this->put({"b", "c"});
  auto r = this->request("n/1");
  r.floor = this->row("b").available_at;
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("b", "c")) << "and looks no further back";
  r.token = "n/2";
  r.floor.reset();
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Claim, WithinItsReachItTakesEverything) {
  this->put({"a"});
  this->advance(1min);
  this->put({"b"});
  auto r = this->request("n/1");
  r.reach = 30s;
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("b")) << "and looks no further back";
  r.token = "n/2";
  r.reach = 10min;
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("a"));
}

OUTBOX_CONTRACT_CASE(Claim, TheFloorIsAfterTheRowsTakenAndBeforeTheRowsLeft) {
  this->put({"a", "b", "c"});
  auto r = this->request("n/1");
  r.limit = 1;
  auto const first = this->s().claim(r);
  ASSERT_TRUE(first.floor);
  EXPECT_LE(*first.floor, this->row("b").available_at);
  r.token = "n/2";
  r.floor = first.floor;
  r.limit = 10;
  EXPECT_THAT(this->ids(this->s().claim(r)), ElementsAre("b", "c"));
}

}  // namespace outbox::contract
