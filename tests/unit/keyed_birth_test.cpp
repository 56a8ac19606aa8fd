// Rule I5, per key: events that are born with an owner while others of their key are under way.
#include "unit/keyed_birth.hpp"

namespace outbox::core {
namespace {

using namespace spi;

class KeyedBirth : public keyed_birth_fixture {};

TEST_F(KeyedBirth, I5_BirthsOfAKeyAreDeliveredOneAfterTheOther) {
  for (auto const* id : {"a", "b", "c"}) born({id});
  EXPECT_EQ(begin(), "a");
  EXPECT_EQ(begin(), "");
  EXPECT_TRUE(ours("c"));
  end("a");
  EXPECT_EQ(begin(), "b") << "before a is durable";
  end("b");
  settle_all();
  EXPECT_EQ(begin(), "c");
  end("c");
  settle_all();
  EXPECT_TRUE(empty());
  EXPECT_EQ(n.counters().released, 0U);
  EXPECT_EQ(n.counters().cold_enqueued, 0U);
}

TEST_F(KeyedBirth, I5_KeysAreBesideEachOtherAndSoIsWhatHasNone) {
  born({"a", "b"}, "k");
  born({"x"}, "l");
  n.commit("none");
  n.commit("late", {.deliver_after = 1h, .ordering_key = "k"});
  EXPECT_EQ(begin(), "a");
  EXPECT_EQ(begin(), "x");
  EXPECT_EQ(begin(), "none");
  EXPECT_EQ(begin(), "");
  for (auto const* id : {"a", "x", "none"}) end(id);
  EXPECT_EQ(begin(), "b");
  end("b");
  settle_all();
  EXPECT_TRUE(empty());
}

TEST_F(KeyedBirth, WhatIsKnownToBeFinishedNeedNotBeLookedAtAgain) {
  born({"a", "b"});
  born({"x"}, "l");
  n.deliver_all();
  settle_all();
  born({"c"});
  EXPECT_EQ(odd->finished.back(), db.row("b").seq);
  memory::transaction tx{*db.store};
  std::vector<event> const both{event::json("t", "1", {.id = "y", .ordering_key = "l"}),
                                event::json("t", "1", {.id = "d", .ordering_key = "k"})};
  n.core->write(join(tx), both);
  tx.commit();
  EXPECT_EQ(odd->finished.back(), db.row("b").seq) << "the lower one: x of key l came later";
  born({"new"}, "m");
  EXPECT_EQ(odd->finished.back(), 0);
  EXPECT_THAT(rest(), ElementsAre("c", "y", "new", "d"));
}

TEST_F(KeyedBirth, I5_ABrokenChainSaysNothingAboutWhatIsFinished) {
  born({"a"}, "k", "producer");
  born({"b"}, "k", "producer");
  EXPECT_EQ(begin(), "a");
  detach("a");
  EXPECT_EQ(begin(), "b");
  detach("b");
  end("b");
  end("a", failed{"no"});
  settle_all();
  born({"c"});
  EXPECT_EQ(odd->finished.back(), 0) << "a is still in line";
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
}

TEST_F(KeyedBirth, I5_SeveralEventsOfAKeyInOneWriteAndInOneTransaction) {
  memory::transaction tx{*db.store};
  write(join(tx), {"a", "b"});
  write(join(tx), {"x"}, "l");
  write(join(tx), {"c", "d"});
  tx.commit();
  EXPECT_THAT(n.deliver_all(), ElementsAre("a", "x", "b", "c", "d"));
  settle_all();
  EXPECT_EQ(n.counters().released, 0U);
}

TEST_F(KeyedBirth, I5_ASavepointTakesEventsOutOfTheMiddle) {
  memory::transaction tx{*db.store};
  write(join(tx), {"a"});
  tx.savepoint("s");
  write(join(tx), {"b"});
  tx.rollback_to("s");
  write(join(tx), {"c"});
  tx.commit();
  EXPECT_THAT(n.deliver_all(), ElementsAre("a", "c"));
  settle_all();
  EXPECT_TRUE(empty());
}

TEST_F(KeyedBirth, I5_WhatIsCommittedWhileTheNodeStandsStillForASuspectWaitsInTheTable) {
  born({"long"}, "m");
  ASSERT_EQ(begin(), "long");
  put("s", {"suspect"});
  crash("suspect", 2);
  look_again();
  open_transaction tx{*db.store};
  write(tx.ref(), {"x", "y", "z"});
  end("long");
  settle_all();
  n.poll_all();
  tx.commit();
  tx.hear();
  EXPECT_EQ(begin(), "x");
  settle_all();
  for (auto const* id : {"y", "z"}) EXPECT_TRUE(free(id)) << id;
  end("x");
  settle_all();
  n.poll_all();
  EXPECT_EQ(begin(), "suspect");
  end("suspect");
  EXPECT_THAT(rest(), ElementsAre("y", "z"));
}

// Hooks in another order than commits.

TEST_F(KeyedBirth, I5_AHookThatIsHeardTooEarlyWaitsForTheOneBefore) {
  auto const a = committed({"a"});
  auto const b = committed({"b"});
  auto const c = committed({"c"});
  c->hear();
  EXPECT_EQ(begin(), "");
  b->hear();
  EXPECT_EQ(begin(), "");
  a->hear();
  EXPECT_THAT(n.deliver_all(), ElementsAre("a", "b", "c"));
  settle_all();
  EXPECT_TRUE(empty());
  EXPECT_EQ(n.counters().released, 0U);
}

TEST_F(KeyedBirth, I5_AHookThatWaitsForOneInDoubtGoesThroughTheTable) {
  auto const a = committed({"a"});
  auto const b = committed({"b"});
  auto const c = committed({"c"});
  c->hear();
  b->hear();
  a->hear_of_doubt();
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_TRUE(free("b"));
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
}

TEST_F(KeyedBirth, I5_AHookThatWaitsForOneThatTookHalfALeaseGoesThroughTheTable) {
  auto const a = committed({"a"});
  n.advance(10s);
  auto const b = committed({"b"});
  b->hear();
  n.advance(6s);
  n.renew();  // the birth of a is given up
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_TRUE(free("b"));
  a->hear();
  EXPECT_EQ(begin(), "");
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

TEST_F(KeyedBirth, I5_AHookThatWaitsForARowThatASavepointTookGoesThroughTheTable) {
  auto const a = committed({"a"});
  auto const b = committed({"b"});
  b->hear();
  db.store->backend().cancel({.ids = {"a"}}, "gone", 1);
  db.store->backend().discard({}, 1);
  a->lose(0);
  a->hear();
  EXPECT_EQ(begin(), "");
  EXPECT_THAT(rest(), ElementsAre("b"));
}

TEST_F(KeyedBirth, I5_ARollbackBeforeAnotherWriteIsForgotten) {
  open_transaction a{*db.store};
  write(a.ref(), {"a"});
  a.rollback();
  auto const b = committed({"b"});
  b->hear();
  EXPECT_EQ(begin(), "b");
  a.hear_of_rollback();
  end("b");
  settle_all();
  EXPECT_TRUE(empty());
}

TEST_F(KeyedBirth, I5_ACommitOfWhichTheHookIsHeardAfterTheNextOneWasDelivered) {
  auto const b = committed({"b"});
  b->hear();
  auto const c = committed({"c"});
  EXPECT_EQ(n.deliver(), "b");
  settle_all();
  c->hear();
  EXPECT_EQ(n.deliver(), "c") << "b is the last that was delivered";
  settle_all();
  EXPECT_TRUE(empty());
}

// Transactions that do not wait for each other.

// The writers of a key did not come one after the other: the order is lost, and nothing else.
TEST_F(KeyedBirth, I5_AnEarlierRowThatIsCommittedLaterGoesThroughTheTable) {
  for (bool const good : {true, false}) {
    std::string const a = good ? "a" : "c", b = good ? "b" : "d";
    open_transaction late{*db.store};
    write(late.ref(), {a.c_str()});
    born({b.c_str()});
    EXPECT_EQ(begin(), b);
    late.commit();
    late.hear();
    EXPECT_EQ(begin(), "") << "one at a time";
    settle_all();
    EXPECT_TRUE(free(a));
    end(b, good ? result{done} : result{failed{"no"}});
    std::vector<std::string> const left = good ? std::vector{a} : std::vector{a, b};
    EXPECT_EQ(rest(), left) << "the key does not stop";
  }
}

// Rows before a birth that the node does not deliver.

TEST_F(KeyedBirth, I5_ABirthBehindARowOfAnotherNodeIsReleased) {
  put("k", {"a"});
  auto const theirs = steal(1);
  born({"b"});
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_TRUE(free("b"));
  EXPECT_EQ(n.counters().released, 1U);
  EXPECT_EQ(n.counters().chains_broken, 0U);
  look_again();
  EXPECT_EQ(begin(), "");
  settlement const theirs_done{.row = theirs[0].handle, .key = theirs[0].key, .seq = theirs[0].seq};
  db.store->backend().settle(std::span{&theirs_done, 1});
  EXPECT_THAT(rest(), ElementsAre("b"));
}

TEST_F(KeyedBirth, I5_AKeyWithRowsOfAnotherNodeRestsForAMoment) {
  put("k", {"a"});
  static_cast<void>(steal(1));
  born({"b"});
  settle_all();
  born({"c"});
  EXPECT_TRUE(free("c")) << "it was born without an owner";
  born({"x"}, "l");
  EXPECT_TRUE(ours("x"));
  n.advance(250ms);
  born({"d"});
  EXPECT_TRUE(ours("d")) << "tried again";
  EXPECT_EQ(begin(), "x");
  EXPECT_EQ(begin(), "");
  end("x");
  n.advance(31s);
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c", "d"));
}

TEST_F(KeyedBirth, I5_ABirthBehindARowThatThisNodeClaimedLaterIsReleased) {
  put("k", {"a"});
  open_transaction tx{*db.store};
  write(tx.ref(), {"b"});  // joins a chain of its own: the node holds nothing of the key
  look_again();
  EXPECT_EQ(begin(), "a");
  tx.commit();
  tx.hear();
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_TRUE(free("b"));
  end("a");
  EXPECT_THAT(rest(), ElementsAre("b"));
}

TEST_F(KeyedBirth, I5_ABirthBehindARowThatThisNodeHasClaimedJoinsItsChain) {
  claim("k", {"a"});
  EXPECT_EQ(begin(), "a");
  born({"b"});
  EXPECT_TRUE(ours("b"));
  EXPECT_EQ(begin(), "");
  end("a");
  EXPECT_EQ(begin(), "b");
  end("b");
  settle_all();
  EXPECT_EQ(n.counters().released, 0U);
}

TEST_F(KeyedBirth, I5_ABirthBehindAClaimWhoseReplyWasLostIsReleased) {
  put("k", {"a"});
  n.fail_next(testing::operation::claim, testing::fault::after);
  n.look([](engine& e) { e.wake(); });
  ASSERT_TRUE(n.poll());
  ASSERT_TRUE(ours("a")) << "the node does not know that";
  born({"b"});
  EXPECT_EQ(begin(), "");
  n.advance(5s);
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

TEST_F(KeyedBirth, I5_ABirthBehindABrokenChainIsReleased) {
  born({"a"});
  EXPECT_EQ(begin(), "a");
  auto const b = committed({"b"});
  end("a", failed{"no"});
  b->hear();
  EXPECT_EQ(begin(), "");
  born({"c"});
  EXPECT_EQ(begin(), "");
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(n.counters().failed, 1U);
}

TEST_F(KeyedBirth, I5_ABirthThatWaitsForAHookIsReleasedWhenItsChainBreaks) {
  born({"a"});
  EXPECT_EQ(begin(), "a");
  auto const b = committed({"b"});
  auto const c = committed({"c"});
  c->hear();
  end("a", failed{"no"});
  settle_all();
  EXPECT_TRUE(free("c"));
  b->hear();
  EXPECT_EQ(begin(), "");
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
}

TEST_F(KeyedBirth, I5_ABirthBehindAnEventWhoseOutcomeIsNotWrittenYet) {
  born({"a"});
  EXPECT_EQ(n.deliver(), "a");
  auto const sent = n.look([&](engine& e) { return e.plan_settle(n.now(), true); });
  ASSERT_TRUE(sent.request);
  born({"b"});
  EXPECT_EQ(n.deliver(), "b");
  EXPECT_FALSE(n.settle());
  n.core->carry(*sent.request);
  settle_all();
  EXPECT_TRUE(empty());
}

TEST_F(KeyedBirth, I5_ABirthBehindASettlementWhoseReplyIsOnItsWay) {
  born({"a"});
  EXPECT_EQ(n.deliver(), "a");
  auto const sent = n.look([&](engine& e) { return e.plan_settle(n.now(), true); });
  auto const reply = n.core->ask(*sent.request);
  born({"b"});  // the table shows nothing before it
  EXPECT_EQ(begin(), "b");
  n.core->apply(*sent.request, reply);
  end("b");
  settle_all();
  EXPECT_TRUE(empty());
  EXPECT_EQ(n.counters().delivered, 2U);
}

// Many births of one key.

TEST_F(KeyedBirth, I5_MoreThan64BirthsOfAKeyGoThroughTheTable) {
  std::vector<std::string> written;
  for (int i = 0; i < 70; ++i) {
    written.push_back("e" + std::to_string(100 + i));
    born({written.back().c_str()});
  }
  EXPECT_TRUE(ours("e163"));
  EXPECT_TRUE(free("e164"));
  EXPECT_EQ(begin(), "e100");
  end("e100");
  settle_all();
  born({"z1"});
  EXPECT_TRUE(free("z1")) << "the backlog comes first";
  written.emplace_back("z1");
  auto order = rest();
  order.insert(order.begin(), "e100");
  EXPECT_EQ(order, written);
  EXPECT_EQ(n.counters().hot_enqueued, 64U);
  born({"z2"});
  EXPECT_TRUE(ours("z2")) << "the backlog is gone";
  EXPECT_THAT(rest(), ElementsAre("z2"));
}

TEST_F(KeyedBirth, I5_AnEventThatWasNotOwnedHoldsUpTheBirthsBehindIt) {
  memory::transaction tx{*db.store};
  write(join(tx), {"a"});
  write(join(tx), {"u"}, "k", "nobody.listens");  // is born without an owner
  write(join(tx), {"b"});
  tx.commit();
  EXPECT_EQ(n.deliver(), "a");
  EXPECT_EQ(begin(), "");
  EXPECT_THAT(rest(), ElementsAre("u", "b"));
}

// The hot path and the poller, in alternation.

TEST_F(KeyedBirth, I5_RowsOfAnotherWriterBetweenBirthsKeepTheOrder) {
  std::vector<std::string> order;
  std::vector<std::string> written;
  for (int i = 0; i < 12; ++i) {
    auto const id = "e" + std::to_string(10 + i);
    written.push_back(id);
    if (i % 3 == 1) {
      db.put(id, "t", {.ordering_key = "k"});
      look_again();
    } else {
      born({id.c_str()});
    }
    if (i % 4 == 3) {
      for (auto const& each : n.deliver_all()) order.push_back(each);
      settle_all();
    }
  }
  for (auto const& each : rest()) order.push_back(each);
  EXPECT_EQ(order, written);
}

// Stops.

TEST_F(KeyedBirth, I5_AStopWaitsForABirthThatWaitsForAHook) {
  auto const a = committed({"a"});
  auto const b = committed({"b"});
  b->hear();
  n.look([&](engine& e) { e.close(n.now()); });
  EXPECT_FALSE(n.look([](engine& e) { return e.drained(); }));
  a->hear();
  EXPECT_THAT(n.deliver_all(), ElementsAre("a", "b"));
  settle_all();
  EXPECT_TRUE(empty());
}

TEST_F(KeyedBirth, I5_AStopThatIsOverReleasesWhatWaitsForAHookOrAPlace) {
  odd->tells = false;
  auto const a = committed({"a"});
  auto const b = committed({"b"});
  born({"x"}, "l");
  b->hear();
  auto const asked = n.look([](engine& e) { return e.plan_place(); });
  ASSERT_TRUE(asked.request);
  auto const told = n.core->ask(*asked.request);
  n.look([&](engine& e) {
    e.close(n.now());
    e.release_queued(n.now());
  });
  n.core->apply(*asked.request, told);
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_TRUE(free("b"));
  EXPECT_TRUE(free("x"));
  a->hear();
  n.core->farewell();
  settle_all();
  EXPECT_TRUE(free("a"));
  EXPECT_TRUE(empty());
}

TEST_F(KeyedBirth, I5_ABirthOfAnIdThatAClaimMeetsIsLeftToTheTable) {
  open_transaction tx{*db.store};
  write(tx.ref(), {"a"});
  tx.rollback();
  put("k", {"a"});  // another program writes the same id
  look_again();
  EXPECT_EQ(begin(), "a");
  tx.hear_of_rollback();
  end("a");
  EXPECT_THAT(rest(), IsEmpty());
}

TEST_F(KeyedBirth, ChainsComeAndGo) {
  for (int i = 0; i < 50; ++i) {
    auto const id = std::to_string(i);
    born({id.c_str()}, "key" + std::to_string(i % 7));
    if (i % 5 == 0) n.deliver(failed{"no"});
    if (i % 3 == 0) n.deliver();
  }
  EXPECT_GT(n.look([](engine& e) { return e.chains(); }), 0U);
  rest();
  EXPECT_EQ(n.look([](engine& e) { return e.chains(); }), 0U);
}

}  // namespace
}  // namespace outbox::core
