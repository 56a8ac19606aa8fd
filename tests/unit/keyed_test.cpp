// Rule I5, per key: what a keyed node does with rows that it claims.
#include <map>

#include "unit/keyed_stepper.hpp"

namespace outbox::core {
namespace {

using namespace spi;

class Keyed : public keyed_fixture {};

class KeyedInFewSlots : public keyed_fixture {
 protected:
  KeyedInFewSlots() : keyed_fixture{on_dead::park, 40} {}
};

TEST_F(Keyed, I5_OneEventOfAKeyAtATimeAndKeysBesideEachOther) {
  claim("k", {"a", "b", "c"});
  claim("l", {"x", "y"});
  EXPECT_EQ(begin(), "a");
  EXPECT_EQ(begin(), "x");
  EXPECT_EQ(begin(), "") << "each key has one under way";
  end("x");
  EXPECT_EQ(begin(), "y");
  end("a");
  EXPECT_EQ(begin(), "b") << "before a is durable";
  EXPECT_EQ(begin(), "");
  end("b");
  end("y");
  EXPECT_THAT(rest(), ElementsAre("c"));
  EXPECT_EQ(n.counters().chains_broken, 0U);
}

TEST_F(Keyed, I5_EventsWithoutAKeyAndDelayedOnesRunBesideTheOrder) {
  put("k", {"a", "b"});
  db.put("late", "t", {.deliver_after = 5s, .ordering_key = "k"});
  db.put("none");
  look_again();
  EXPECT_EQ(begin(), "a");
  EXPECT_EQ(begin(), "none");
  EXPECT_EQ(begin(), "");
  n.advance(5s);
  put("k", {"c"});
  look_again();
  EXPECT_EQ(begin(), "late") << "its delay takes it out of the order";
  EXPECT_EQ(begin(), "");
  for (auto const* id : {"none", "late", "a"}) end(id);
  EXPECT_THAT(rest(), ElementsAre("b", "c"));
}

TEST_F(Keyed, I5_TheAggregateIsTheKeyOfAnEventWithoutAnOrderingKey) {
  db.put("a", "t", {.aggregate = {"order", "1"}});
  db.put("b", "t", {.aggregate = {"order", "1"}});
  db.put("x", "t", {.aggregate = {"order", "2"}});
  look_again();
  EXPECT_EQ(begin(), "a");
  EXPECT_EQ(begin(), "x");
  EXPECT_EQ(begin(), "");
  end("a");
  end("x");
  EXPECT_THAT(rest(), ElementsAre("b"));
}

// Durability: a later event is DONE in the same request as the earlier one, or after it.

TEST_F(Keyed, I5_ALaterEventWaitsForTheReplyToTheSettlementBeforeIt) {
  claim("k", {"a", "b"});
  n.deliver();
  auto const first = n.look([&](engine& e) { return e.plan_settle(n.now(), true); });
  ASSERT_TRUE(first.request);
  n.deliver();
  EXPECT_FALSE(n.settle()) << "there is one request at a time";
  auto lost = n.core->ask(*first.request);
  lost.failure = error{errc::unavailable, "no reply"};
  n.core->apply(*first.request, lost);
  n.advance(5s);
  auto const second = n.look([&](engine& e) { return e.plan_settle(n.now(), true); });
  ASSERT_TRUE(second.request);
  EXPECT_EQ(second.request->items.at(0).row.id, "a") << "b finished first in the list, but comes after a";
  n.core->carry(*second.request);
  settle_all();
  EXPECT_EQ(status("b"), event_status::delivered);
  EXPECT_EQ(n.counters().unconfirmed, 1U) << "a";
}

TEST_F(Keyed, I5_OneRequestSettlesAKeyInOrder) {
  claim("k", {"a", "b", "c"});
  EXPECT_THAT(n.deliver_all(), ElementsAre("a", "b", "c"));
  auto const all = n.look([&](engine& e) { return e.plan_settle(n.now(), true); });
  ASSERT_TRUE(all.request);
  std::vector<std::string> ids;
  for (auto const& item : all.request->items) ids.push_back(item.row.id);
  EXPECT_THAT(ids, ElementsAre("a", "b", "c"));
  n.core->carry(*all.request);
  EXPECT_TRUE(empty());
}

TEST_F(Keyed, I5_ASettlementThatIsRefusedAloneHoldsUpThoseBehindIt) {
  claim("k", {"a", "b"});
  claim("l", {"x"});
  n.deliver_all();
  n.fail_next(testing::operation::settle, testing::fault::refused);
  n.settle();
  n.advance(5s);
  std::vector<std::string> order;
  n.fail_next(testing::operation::settle, testing::fault::refused);  // a alone
  for (std::size_t i = 0; i < 8; ++i) {
    n.settle();
    n.advance(5s);
    for (auto const* id : {"a", "b", "x"}) {
      if (status(id) == event_status::delivered && std::ranges::find(order, id) == order.end()) order.push_back(id);
    }
    if (status("b") != event_status::delivered) continue;
    EXPECT_EQ(status("a"), event_status::delivered);
  }
  EXPECT_THAT(order, ::testing::UnorderedElementsAre("a", "b", "x"));
}

// What breaks a chain.

TEST_F(Keyed, I5_AFailureHoldsUpItsKeyOnly) {
  claim("k", {"a", "b", "c"});
  claim("l", {"x", "y"});
  EXPECT_EQ(begin(), "a");
  end("a", failed{"no"});
  EXPECT_THAT(n.deliver_all(), ElementsAre("x", "y"));
  settle_all();
  look_again();
  EXPECT_EQ(begin(), "");
  for (auto const* id : {"b", "c"}) {
    EXPECT_TRUE(free(id)) << id;
    EXPECT_EQ(db.row(id).attempts, 0) << id;
    EXPECT_EQ(db.row(id).crashes, 0) << id;
  }
  EXPECT_EQ(n.counters().released, 2U);
  EXPECT_EQ(n.counters().chains_broken, 1U);
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
}

TEST_F(Keyed, I5_ADeferralHoldsUpItsKeyAsLongAsItLasts) {
  claim("k", {"a", "b"});
  EXPECT_EQ(n.deliver(defer{10s}), "a");
  settle_all();
  n.advance(9s);
  look_again();
  EXPECT_EQ(begin(), "");
  EXPECT_EQ(db.row("a").last_error, "deferred") << "what says that it is in the order";
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

TEST_F(Keyed, I5_ATimeoutGivesTheRestBack) {
  claim("k", {"a", "b"}, "quick");
  EXPECT_EQ(begin(), "a");
  n.advance(2s);
  n.renew();
  settle_all();
  EXPECT_TRUE(free("b"));
  n.poll_all();
  n.advance(100ms);
  look_again();
  end("a");  // its result comes too late
  EXPECT_EQ(db.row("a").attempts, 1);
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
  EXPECT_EQ(n.counters().late_results, 1U);
}

TEST_F(Keyed, I5_ALeaseThatIsLostDuringTheCallGivesTheRestBackAtOnce) {
  claim("k", {"a", "b"});
  EXPECT_EQ(begin(), "a");
  n.advance(20s);
  // The node does not hear of its renewals; another node takes the first row when its lease is over.
  n.advance(11s);
  auto const theirs = steal(1);
  ASSERT_THAT(theirs, SizeIs(1));
  ASSERT_EQ(theirs[0].handle.id, "a");
  n.renew();
  settle_all();
  EXPECT_TRUE(free("b")) << "the call for a may run for hours";
  end("a");
  settle_all();
  EXPECT_EQ(n.counters().lost, 1U);
  EXPECT_EQ(status("a"), event_status::created) << "the other node answers for it";
  settlement const theirs_done{.row = theirs[0].handle, .key = theirs[0].key, .seq = theirs[0].seq};
  db.store->backend().settle(std::span{&theirs_done, 1});
  EXPECT_THAT(rest(), ElementsAre("b"));
}

TEST_F(Keyed, I5_ALostRowInTheMiddleDoesNotStopWhatStandsBeforeIt) {
  claim("k", {"a", "b", "c", "d"});
  EXPECT_EQ(begin(), "a");
  EXPECT_EQ(db.store->backend().cancel({.ids = {"c"}}, "not this one", 1), 1U);
  EXPECT_EQ(db.store->backend().discard({.ids = {"c"}}, 1), 1U);
  n.advance(10s);
  n.renew();
  settle_all();
  EXPECT_TRUE(free("d"));
  end("a");
  EXPECT_EQ(begin(), "b") << "it stands before the gap";
  end("b");
  EXPECT_THAT(rest(), ElementsAre("d"));
}

TEST_F(Keyed, I5_APauseOfTheFirstGivesAllBackAndAPauseOfALaterOneWaitsForIt) {
  put("k", {"a", "b"});
  put("k", {"q"}, "quick");
  claim("k", {"c"});
  EXPECT_EQ(begin(), "a");
  n.core->pause({"quick", ""});
  end("a");
  EXPECT_EQ(begin(), "b");
  end("b");
  EXPECT_EQ(begin(), "") << "q is paused";
  settle_all();
  EXPECT_TRUE(free("q"));
  EXPECT_TRUE(free("c"));
  look_again();
  EXPECT_EQ(begin(), "") << "a paused first one holds up its key";
  n.core->resume({"quick", ""});
  EXPECT_THAT(rest(), ElementsAre("q", "c"));
}

TEST_F(Keyed, I5_AFullRouteHoldsUpItsKey) {
  put("k", {"f1"}, "few");
  put("l", {"f2"}, "few");
  put("l", {"b"});
  claim("m", {"x"});
  EXPECT_EQ(begin(), "f1");
  EXPECT_EQ(begin(), "x");
  EXPECT_EQ(begin(), "") << "b waits for f2, which waits for room";
  end("f1");
  EXPECT_EQ(begin(), "f2");
  end("f2");
  EXPECT_EQ(begin(), "b");
  for (auto const* id : {"x", "b"}) end(id);
  EXPECT_THAT(rest(), IsEmpty());
}

TEST_F(Keyed, I5_AnEventThatWaitedTooLongForAWorkerIsGivenBackWithThoseBehindIt) {
  put("k", {"a"}, "quick");
  put("k", {"b"});
  look_again();
  n.advance(2s);
  n.renew();
  settle_all();
  EXPECT_TRUE(free("a"));
  EXPECT_TRUE(free("b"));
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

TEST_F(Keyed, I5_WhatWaitsBehindACallWithoutALimitWaitsWithoutALimit) {
  put("k", {"a"}, "endless");
  put("k", {"b"}, "quick");
  look_again();
  EXPECT_EQ(begin(), "a");
  for (int i = 0; i < 20; ++i) {
    n.advance(7s);
    n.renew();
  }
  EXPECT_FALSE(free("b"));
  EXPECT_EQ(db.row("b").crashes, 0);
  end("a");
  EXPECT_EQ(begin(), "b") << "its patience begins when it is the first";
  end("b");
  EXPECT_THAT(rest(), IsEmpty());
}

TEST_F(Keyed, I5_AStopThatDeliversGoesThroughTheChain) {
  claim("k", {"a", "b", "c"});
  EXPECT_EQ(begin(), "a");
  n.look([&](engine& e) { e.close(n.now()); });
  end("a");
  EXPECT_FALSE(n.look([](engine& e) { return e.drained(); }));
  EXPECT_THAT(n.deliver_all(), ElementsAre("b", "c"));
  settle_all();
  EXPECT_TRUE(empty());
}

TEST_F(Keyed, I5_AStopThatReleasesLetsNothingBehindTheCallBegin) {
  claim("k", {"a", "b", "c"});
  EXPECT_EQ(begin(), "a");
  n.look([&](engine& e) { e.close(n.now(), stop_queued::release); });
  end("a");
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_TRUE(empty());
  EXPECT_EQ(status("a"), event_status::delivered);
  EXPECT_TRUE(free("b"));
  stepper other{db, "other", [](node_settings& s) { s.keyed = true; }};
  other.open();
  other.poll_all();
  EXPECT_THAT(other.deliver_all(), ElementsAre("b", "c"));
}

TEST_F(Keyed, I5_ALostReplyToAClaimIsReleasedAndClaimedAgain) {
  put("k", {"a", "b"});
  n.fail_next(testing::operation::claim, testing::fault::after);
  n.look([](engine& e) { e.wake(); });
  ASSERT_TRUE(n.poll());
  EXPECT_FALSE(free("a"));
  EXPECT_EQ(begin(), "");
  n.advance(5s);
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

// What a claim brings that cannot be delivered.

TEST_F(Keyed, I5_ARowThatCannotBeReadParksItsKey) {
  odd->unreadable = {"b"};
  put("k", {"a", "b", "c"});
  claim("l", {"x"});
  EXPECT_THAT(n.deliver_all(), ::testing::UnorderedElementsAre("a", "x"));
  settle_all();
  EXPECT_EQ(status("b"), event_status::dead);
  EXPECT_TRUE(free("c")) << "it must not begin";
  look_again();
  EXPECT_EQ(begin(), "");
  EXPECT_THAT(db.store->backend().parked_keys(10), SizeIs(1));
  EXPECT_EQ(db.store->backend().discard({}, 10), 1U);
  EXPECT_THAT(rest(), ElementsAre("c"));
}

TEST_F(Keyed, I5_AFirstRowWhoseCrashesAreUsedUpParksItsKey) {
  put("k", {"a"});
  crash("a", 3);
  put("k", {"b", "c"});
  look_again();
  EXPECT_EQ(n.counters().cold_enqueued, 1U) << "b and c are not claimed before a is over";
  EXPECT_THAT(n.deliver_all(), IsEmpty());
  settle_all();
  EXPECT_EQ(status("a"), event_status::dead);
  EXPECT_THAT(db.row("a").last_error, HasSubstr("crash budget exhausted"));
  EXPECT_TRUE(free("b"));
  EXPECT_EQ(n.counters().dead, 1U);
  look_again();
  EXPECT_EQ(begin(), "");
  EXPECT_EQ(db.store->backend().replay({}, 10), 1U);
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
}

TEST_F(Keyed, I5_ASuspectIsTakenAloneAndItsKeyGoesOn) {
  put("k", {"a", "b"});
  crash("a", 2);
  claim("l", {"x"});
  EXPECT_EQ(begin(), "x");
  EXPECT_EQ(begin(), "");
  end("x");
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

// Else the node would stand still until each of them was delivered, one after the other.
TEST_F(Keyed, I5_WhatWaitsForItsTurnIsGivenBackWhenTheNodeStandsStillForASuspect) {
  put("k", {"a", "b", "c"});
  claim("l", {"x", "y"});
  EXPECT_EQ(begin(), "a");
  put("s", {"suspect"});
  crash("suspect", 2);
  look_again();
  EXPECT_EQ(begin(), "x") << "nothing stands still while a runs";
  end("a");
  n.poll_all();
  settle_all();
  for (auto const* id : {"b", "c", "y"}) EXPECT_TRUE(free(id)) << id;
  EXPECT_EQ(begin(), "") << "b would keep the node standing still, and then c";
  end("x");
  settle_all();
  n.poll_all();
  EXPECT_EQ(begin(), "suspect");
  EXPECT_EQ(begin(), "");
  end("suspect");
  EXPECT_THAT(rest(), ::testing::UnorderedElementsAre("b", "c", "y"));
  EXPECT_EQ(n.counters().healed, 0U);
}

TEST_F(Keyed, I5_UnroutableEventsHoldUpTheirKey) {
  put("k", {"u"}, "nobody.listens");
  claim("k", {"b"});
  auto const t = n.start();
  ASSERT_TRUE(t);
  EXPECT_EQ(t->event.id(), "u");
  n.core->carry_out({t, {}});
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_EQ(status("u"), event_status::created);
  EXPECT_THAT(db.row("u").last_error, HasSubstr("no listener"));
  EXPECT_TRUE(free("b"));
  EXPECT_THAT(rest(), ElementsAre("u", "b")) << "the test delivers what no listener serves";
}

// Dead events.

TEST_F(Keyed, I5_ADeadEventParksItsKeyUntilItIsReplayed) {
  claim("k", {"a", "b"});
  EXPECT_EQ(n.deliver(dead{"no"}), "a");
  settle_all();
  look_again();
  EXPECT_EQ(begin(), "");
  EXPECT_TRUE(free("b"));
  EXPECT_TRUE(db.row("a").blocked.has_value()) << "it stays in line";
  EXPECT_THAT(n.log, ::testing::Contains(HasSubstr("is DEAD: no; its key waits until it is replayed or discarded")));
  EXPECT_THAT(n.fields, ::testing::Contains(HasSubstr("key=\"=k\"")));
  n.advance(10min);
  look_again();
  EXPECT_EQ(begin(), "");
  EXPECT_EQ(db.store->backend().replay({}, 10), 1U);
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

TEST_F(Keyed, I5_ADeadEventThatIsDiscardedLetsItsKeyGoOn) {
  claim("k", {"a", "b"});
  EXPECT_EQ(n.deliver(dead{"no"}), "a");
  settle_all();
  look_again();
  EXPECT_EQ(db.row("b").blocked, true);
  EXPECT_EQ(db.store->backend().discard({}, 10), 1U);
  EXPECT_THAT(rest(), ElementsAre("b"));
  EXPECT_EQ(db.store->backend().replay({}, 10), 1U);
  EXPECT_THAT(rest(), ElementsAre("a")) << "beside the order";
}

class KeyedSkip : public keyed_fixture {
 protected:
  KeyedSkip() : keyed_fixture{outbox::v0::on_dead::skip} {}
};

TEST_F(KeyedSkip, I5_TheNextBeginsBehindADeadEvent) {
  claim("k", {"a", "b", "c"});
  EXPECT_EQ(n.deliver(dead{"no"}), "a");
  settle_all();
  EXPECT_EQ(n.deliver(), "b");
  settle_all();
  EXPECT_EQ(status("a"), event_status::dead);
  EXPECT_FALSE(db.row("a").blocked.has_value()) << "out of line";
  EXPECT_THAT(n.log, ::testing::Not(::testing::Contains(HasSubstr("its key waits"))));
  EXPECT_THAT(rest(), ElementsAre("c"));
  EXPECT_EQ(n.counters().chains_broken, 0U);
  EXPECT_EQ(db.store->backend().replay({}, 10), 1U);
  claim("k", {"d"});
  EXPECT_EQ(begin(), "a");
  EXPECT_EQ(begin(), "d") << "beside each other";
  for (auto const* id : {"a", "d"}) end(id);
  settle_all();
}

TEST_F(KeyedSkip, I5_WhatCannotBeReadIsSkipped) {
  odd->unreadable = {"a", "c"};
  claim("k", {"a", "b", "c", "d"});
  EXPECT_THAT(rest(), ElementsAre("b", "d"));
  EXPECT_EQ(status("c"), event_status::dead);
  EXPECT_TRUE(empty());
}

TEST_F(KeyedSkip, I5_ARowWhoseCrashesAreUsedUpIsSkipped) {
  put("k", {"a"});
  crash("a", 3);
  put("k", {"b"});
  look_again();
  EXPECT_THAT(rest(), ElementsAre("b"));
  EXPECT_EQ(status("a"), event_status::dead);
  EXPECT_EQ(db.row("a").blocked, std::nullopt);
}

TEST_F(KeyedSkip, I5_AnEventThatTimesOutForTheLastTimeIsSkipped) {
  claim("k", {"a", "b"}, "quick");
  EXPECT_EQ(begin(), "a");
  n.advance(2s);
  n.renew();
  EXPECT_EQ(begin(), "") << "one attempt is left";
  end("a");
  settle_all();
  n.advance(60s);
  look_again();
  EXPECT_EQ(begin(), "a");
  n.advance(2s);
  n.renew();
  end("a");
  settle_all();
  EXPECT_EQ(status("a"), event_status::dead);
  EXPECT_THAT(rest(), ElementsAre("b"));
}

// Claims of one key.

TEST_F(Keyed, TheRunGrowsWhileWholeRunsAreDelivered) {
  auto const claimed = [&] {
    look_again();
    return n.counters().held;
  };
  auto const deliver = [&] {
    n.deliver_all();
    settle_all();
  };
  claim("l", {"x"});
  deliver();
  for (int i = 0; i < 300; ++i) put("k", {("e" + std::to_string(1000 + i)).c_str()});
  EXPECT_EQ(claimed(), 64U) << "the one event of another key was no run";
  deliver();
  EXPECT_EQ(claimed(), 128U);
  deliver();
  EXPECT_EQ(claimed(), 108U) << "all that were left";
  ASSERT_EQ(n.deliver(failed{"no"}), "e1192");
  settle_all();
  n.advance(1min);
  EXPECT_EQ(claimed(), 1U) << "behind an event that failed nothing is claimed";
  deliver();
  EXPECT_EQ(claimed(), 64U);
  deliver();
  EXPECT_THAT(rest(), SizeIs(43));
}

// Slow events of a few keys would otherwise hold every slot for as long as they take.
TEST_F(KeyedInFewSlots, WhatWaitsBehindSlowEventsIsGivenBackIfItLeavesNoRoom) {
  std::vector<std::string> const keys{"k", "l", "m", "o"};
  std::map<std::string, std::vector<std::string>> ids;
  for (auto const& key : keys) {
    for (int i = 0; i < 20; ++i) {
      ids[key].push_back(key + std::to_string(100 + i));
      put(key, {ids[key].back().c_str()});
    }
    look_again();
  }
  EXPECT_EQ(n.counters().held, 40U);
  for (auto const& key : keys) ASSERT_EQ(begin(), ids[key][0]);
  put("quick", {"x"});
  look_again();
  EXPECT_EQ(begin(), "") << "there is no slot for it";
  n.advance(1s);
  look_again();
  settle_all();
  EXPECT_LE(n.counters().held, 32U);
  look_again();
  EXPECT_EQ(begin(), "x");
  end("x");
  for (auto const& key : keys) end(ids[key][0]);
  std::map<std::string, std::vector<std::string>> seen;
  for (auto const& id : rest()) seen[id.substr(0, 1)].push_back(id);
  for (auto const& key : keys) {
    seen[key].insert(seen[key].begin(), ids[key][0]);
    EXPECT_EQ(seen[key], ids[key]) << "none is lost, and the order is kept";
  }
  EXPECT_EQ(n.counters().healed, 0U);
}

TEST_F(KeyedInFewSlots, ARunThatIsDeliveredInTimeIsNotShortened) {
  for (int i = 0; i < 40; ++i) put("k", {("e" + std::to_string(100 + i)).c_str()});
  look_again();
  put("quick", {"x"});
  for (int i = 0; i < 10; ++i) {
    n.deliver();
    settle_all();
    look_again();
    n.advance(300ms);
  }
  EXPECT_EQ(n.counters().released, 0U);
}

// Four keys fill all slots with runs of 40, and what frees a slot is one of their events. Others wait in the table.
class KeyedWithFullRuns : public keyed_fixture {
 protected:
  KeyedWithFullRuns() : keyed_fixture{on_dead::park, 160} {}
  void SetUp() override {
    keyed_fixture::SetUp();
    for (auto const& key : keys) {
      for (int i = 0; i < 40; ++i) {
        ids[key].push_back(key + std::to_string(100 + i));
        put(key, {ids[key].back().c_str()});
      }
      look_again();
    }
    ASSERT_EQ(n.counters().held, 160U);
    for (auto const& key : keys) ASSERT_EQ(begin(), ids[key][0]);
    for (int i = 0; i < 300; ++i) db.put("x" + std::to_string(100 + i));
  }
  /// The key's event is delivered, and the next one begins. A worker takes what a claim finds besides, and keeps it.
  void deliver(std::string const& key) {
    auto& at = delivered[key];
    end(ids[key][at]);
    if (++at < ids[key].size() && begin() != ids[key][at]) at = ids[key].size();  // it was given back
    settle_all();
    look_again();
    settle_all();
    for (auto id = begin(); !id.empty(); id = begin()) ++others;
  }

  std::vector<std::string> const keys{"k", "l", "m", "o"};
  std::map<std::string, std::vector<std::string>> ids;
  std::map<std::string, std::size_t> delivered;  ///< Of each key.
  std::size_t others = 0;
};

TEST_F(KeyedWithFullRuns, ASlotThatIsTakenAtOnceIsNoRoomForOthers) {
  for (std::size_t i = 0; i < 8; ++i) {
    n.advance(500ms);
    deliver(keys[i % 4]);
  }
  EXPECT_GT(n.counters().released, 100U);
  EXPECT_GT(others, 100U) << "and not one for each slow event";
  while (!running.empty()) end(running.front()->event.id());
  std::map<std::string, std::vector<std::string>> seen;
  for (auto const& id : rest()) seen[id.substr(0, 1)].push_back(id);
  for (auto const& key : keys) {
    std::vector<std::string> const left{ids[key].begin() + 3, ids[key].end()};
    EXPECT_EQ(seen[key], left) << "none is lost, and the order is kept";
  }
  EXPECT_EQ(n.counters().healed, 0U);
}

TEST_F(KeyedWithFullRuns, ARunKeepsAsMuchAsItDeliversInTheTime) {
  for (std::size_t i = 0; i < 100; ++i) {
    n.advance(11ms);
    deliver(keys[i % 4]);
  }
  EXPECT_EQ(n.counters().released, 0U);
  EXPECT_EQ(others, 100U) << "they get the slots that come free, which are many in a second";
}

TEST_F(Keyed, ASettlementWhoseAnswerWasLostMayHaveUnblockedARow) {
  claim("k", {"a"});
  claim("k", {"b"});
  ASSERT_TRUE(free("b"));
  n.deliver();
  n.fail_next(testing::operation::settle, testing::fault::after);
  n.settle();
  EXPECT_EQ(status("a"), event_status::delivered);
  n.advance(1s);
  n.poll_all();
  ASSERT_TRUE(n.settle());
  EXPECT_EQ(n.counters().unconfirmed, 1U);
  n.poll_all();
  EXPECT_EQ(begin(), "b") << "before the next round of the poller";
}

TEST_F(Keyed, WhatWasNotedAndUnblockedIsCounted) {
  auto const theirs = (put("k", {"a", "b", "c"}), steal(1));
  ASSERT_THAT(theirs, SizeIs(1));
  look_again();
  EXPECT_EQ(n.counters().noted, 2U);
  EXPECT_EQ(n.counters().unblocked, 0U);
  settlement const back{.row = theirs[0].handle, .outcome = outcome::release};
  db.store->backend().settle(std::span{&back, 1});
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(n.counters().unblocked, 0U) << "the run took them all";
  claim("k", {"d"});
  EXPECT_EQ(begin(), "d");
  claim("k", {"e"});
  EXPECT_EQ(db.row("e").blocked, true);
  end("d");
  settle_all();
  EXPECT_EQ(n.counters().unblocked, 1U);
  n.poll_all();
  EXPECT_EQ(begin(), "e") << "the settlement asked for a claim";
  end("e");
  settle_all();
}

TEST_F(Keyed, I5_AClaimThatReturnsTheNodesOwnRowsGoesOnWithThem) {
  claim("k", {"a", "b", "c"});
  EXPECT_EQ(begin(), "a");
  db.clock->advance(31s);  // the node would not claim now: the claim is sent by hand
  auto const p = claim_request{.token = "n/again", .limit = 10, .lease = 30s, .keyed = true};
  auto reply = db.store->backend().claim(p);
  ASSERT_THAT(reply.rows, SizeIs(3));
  n.look([&](engine& e) { e.apply_claim(p, n.now(), std::move(reply), n.now()); });
  EXPECT_EQ(n.counters().own_rows_reclaimed, 3U);
  EXPECT_EQ(begin(), "") << "a runs";
  end("a");
  EXPECT_THAT(rest(), ElementsAre("b", "c"));
  EXPECT_EQ(n.counters().delivered, 3U);
  EXPECT_EQ(n.counters().lost, 0U);
}

TEST_F(Keyed, I5_OwnRowsOfABrokenChainAreGivenBackWithWhatTheClaimBroughtBesides) {
  claim("k", {"a", "b"});
  EXPECT_EQ(n.deliver(failed{"no"}), "a");
  db.clock->advance(31s);  // before the settlement is sent
  put("k", {"c"});
  auto const p = claim_request{.token = "n/again", .limit = 10, .lease = 30s, .keyed = true};
  auto reply = db.store->backend().claim(p);
  ASSERT_THAT(reply.rows, SizeIs(3));
  n.look([&](engine& e) { e.apply_claim(p, n.now(), std::move(reply), n.now()); });
  EXPECT_EQ(begin(), "") << "a failed: its outcome is not written yet";
  settle_all();
  EXPECT_EQ(status("a"), event_status::retry);
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
}

TEST_F(Keyed, I5_ARowThatWasClaimedAgainWhileItsSettlementIsUnansweredBeginsANewChain) {
  claim("k", {"a", "b", "c"});
  EXPECT_EQ(n.deliver(), "a");
  n.fail_next(testing::operation::settle, testing::fault::before);
  n.settle();
  EXPECT_EQ(begin(), "b");
  db.clock->advance(31s);
  auto const p = claim_request{.token = "n/again", .limit = 1, .lease = 30s, .keyed = true};
  auto reply = db.store->backend().claim(p);
  ASSERT_THAT(reply.rows, SizeIs(1));
  n.look([&](engine& e) { e.apply_claim(p, n.now(), std::move(reply), n.now()); });
  end("b");
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c")) << "the claim proves that a is not DONE: the key is repeated from a";
}

}  // namespace
}  // namespace outbox::core
