// Rule I5, per key: batches, and listeners that keep the order themselves.
#include "unit/keyed_stepper.hpp"

namespace outbox::core {
namespace {

using namespace spi;

class KeyedAnswers : public keyed_fixture {
 protected:
  /// What a worker takes.
  std::vector<std::string> batch() {
    auto const job = n.look([&](engine& e) { return e.start_next(n.now()); });
    std::vector<std::string> ids;
    if (!job) return ids;
    running.push_back(job.first);
    for (auto const& t : job.rest) running.push_back(t);
    for (auto const& t : running) ids.push_back(t->event.id());
    return ids;
  }
};

TEST_F(KeyedAnswers, I5_ABatchHasOneEventOfAKey) {
  put("k", {"a", "b"}, "batch");
  put("l", {"x", "y"}, "batch");
  look_again();
  EXPECT_THAT(batch(), ElementsAre("a", "x"));
  EXPECT_EQ(begin(), "");
  end("a");
  end("x", failed{"no"});
  EXPECT_THAT(batch(), ElementsAre("b"));
  end("b");
  EXPECT_THAT(rest(), ElementsAre("x", "y"));
}

TEST_F(KeyedAnswers, I5_ABatchThatKeepsTheOrderHasSeveralEventsOfAKey) {
  put("k", {"a", "b", "c", "d"}, "stream");
  put("l", {"x"}, "stream");
  look_again();
  EXPECT_THAT(batch(), ElementsAre("a", "b", "c"));
  for (auto const* id : {"a", "b", "c"}) end(id);
  settle_all();
  EXPECT_THAT(batch(), ElementsAre("x", "d"));
  for (auto const* id : {"x", "d"}) end(id);
  EXPECT_THAT(rest(), IsEmpty());
}

TEST_F(KeyedAnswers, I5_ABatchEndsAtAnEventOfAnotherListener) {
  put("k", {"a"}, "stream");
  put("k", {"b"});
  put("k", {"c"}, "stream");
  look_again();
  EXPECT_THAT(batch(), ElementsAre("a"));
  EXPECT_EQ(begin(), "");
  end("a");
  EXPECT_THAT(rest(), ElementsAre("b", "c"));
}

TEST_F(KeyedAnswers, I5_WhatABatchDeliveredBehindAFailureIsDeliveredAgain) {
  claim("k", {"a", "b", "c", "d"}, "stream");
  ASSERT_THAT(batch(), ElementsAre("a", "b", "c"));
  end("a", done);
  end("b", failed{"no"});
  end("c", done);
  settle_all();
  EXPECT_EQ(status("a"), event_status::delivered);
  EXPECT_EQ(status("b"), event_status::retry);
  EXPECT_NE(status("c"), event_status::delivered) << "it would never follow b";
  EXPECT_EQ(db.row("c").attempts, 0);
  EXPECT_TRUE(free("d"));
  EXPECT_EQ(db.row("d").status, event_status::created);
  EXPECT_THAT(rest(), ElementsAre("b", "c", "d"));
}

// A producer: an asynchronous listener that keeps the order.

TEST_F(KeyedAnswers, I5_AProducerGetsTheNextEventWhenItHasTakenTheOneBefore) {
  claim("k", {"a", "b", "c"}, "producer");
  EXPECT_EQ(begin(), "a");
  EXPECT_EQ(begin(), "") << "its function has not returned";
  detach("a");
  EXPECT_EQ(begin(), "b");
  detach("b");
  EXPECT_EQ(begin(), "c");
  detach("c");
  for (auto const* id : {"a", "b", "c"}) end(id);
  settle_all();
  EXPECT_TRUE(empty());
}

TEST_F(KeyedAnswers, I5_AnAsynchronousListenerThatKeepsNoOrderGetsOne) {
  claim("k", {"a", "b"}, "t");
  EXPECT_EQ(begin(), "a");
  detach("a");
  EXPECT_EQ(begin(), "");
  end("a");
  EXPECT_EQ(begin(), "b");
  end("b");
  settle_all();
}

TEST_F(KeyedAnswers, I5_AnswersInAnyOrderAreDoneInOrder) {
  claim("k", {"a", "b", "c", "d"}, "producer");
  for (auto const* id : {"a", "b", "c"}) {
    ASSERT_EQ(begin(), id);
    detach(id);
  }
  end("c");
  EXPECT_FALSE(n.settle());
  end("b");
  EXPECT_FALSE(n.settle());
  end("a");
  auto const p = n.look([&](engine& e) { return e.plan_settle(n.now(), true); });
  ASSERT_TRUE(p.request);
  EXPECT_EQ(p.request->items.front().row.id, "a");
  n.core->carry(*p.request);
  settle_all();
  for (auto const* id : {"a", "b", "c"}) EXPECT_EQ(status(id), event_status::delivered) << id;
  EXPECT_THAT(rest(), ElementsAre("d"));
}

TEST_F(KeyedAnswers, I5_TheSettlerHearsOfAnAnswerThatWaitsForOneThatWasLost) {
  claim("k", {"a", "b"}, "other.producer");
  for (auto const* id : {"a", "b"}) {
    ASSERT_EQ(begin(), id);
    detach(id);
  }
  end("b");
  EXPECT_FALSE(n.settle());
  EXPECT_EQ(db.store->backend().cancel({.ids = {"a"}}, "no", 1), 1U);
  n.advance(10s);
  n.renew();
  auto const woken = n.look([&](engine& e) {
    static_cast<void>(e.take_signals());
    e.finish(*running.at(0), {done, {}}, n.now());
    return e.take_signals();
  });
  EXPECT_NE(woken & signal_settle, 0U) << "a is lost, and b waited for it";
  settle_all();
  EXPECT_NE(status("b"), event_status::delivered) << "a was not";
  EXPECT_EQ(db.store->backend().discard({}, 10), 1U);
  EXPECT_THAT(rest(), ElementsAre("b"));
}

TEST_F(KeyedAnswers, I5_AFailureInTheMiddleIsRepeatedWithAllBehindIt) {
  claim("k", {"a", "b", "c", "d", "e"}, "producer");
  for (auto const* id : {"a", "b", "c", "d"}) {
    ASSERT_EQ(begin(), id);
    if (std::string{id} != "d") detach(id);
  }
  end("c");
  end("b", failed{"no"});
  detach("d");
  EXPECT_EQ(begin(), "") << "e was given back";
  end("d");
  end("a");
  settle_all();
  EXPECT_EQ(status("a"), event_status::delivered);
  for (auto const* id : {"b", "c", "d", "e"}) EXPECT_NE(status(id), event_status::delivered) << id;
  EXPECT_EQ(db.row("b").attempts, 1);
  EXPECT_EQ(db.row("c").attempts, 0);
  EXPECT_THAT(rest(), ElementsAre("b", "c", "d", "e"));
  EXPECT_GE(n.counters().maybe_duplicates, 3U) << "b, c and d";
}

TEST_F(KeyedAnswers, I5_ALaterFailureDoesNotStopTheEarlierOnes) {
  claim("k", {"a", "b", "c"}, "producer");
  for (auto const* id : {"a", "b"}) {
    ASSERT_EQ(begin(), id);
    detach(id);
  }
  end("b", defer{1s});
  settle_all();
  EXPECT_TRUE(free("c"));
  end("a");
  settle_all();
  EXPECT_EQ(status("a"), event_status::delivered);
  EXPECT_THAT(rest(), ElementsAre("b", "c"));
}

TEST_F(KeyedAnswers, I5_AnEarlierFailureAfterALaterOneGivesBackWhatHasNotBegun) {
  claim("k", {"a", "b", "c", "d"}, "other.producer");
  ASSERT_EQ(begin(), "a");
  detach("a");
  EXPECT_EQ(n.look([](engine& e) { return e.cold_depth(); }), 1U) << "b is next";
  EXPECT_EQ(db.store->backend().cancel({.ids = {"c"}}, "no", 1), 1U);
  n.advance(10s);
  end("a", failed{"no"});
  n.renew();
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_EQ(db.store->backend().discard({}, 10), 1U);
  EXPECT_THAT(rest(), ElementsAre("a", "b", "d"));
}

TEST_F(KeyedAnswers, I5_AfterABreakFurtherBackAFailureStillHoldsUpTheNext) {
  claim("k", {"a", "b", "c", "d"}, "other.producer");
  ASSERT_EQ(begin(), "a");
  detach("a");
  EXPECT_EQ(db.store->backend().cancel({.ids = {"c"}}, "no", 1), 1U);
  n.renew();
  n.advance(8s);
  n.renew();  // finds that c is lost; a and b are not
  EXPECT_FALSE(n.look([](engine& e) { return e.holds("c"); }));
  end("a", failed{"no"});
  EXPECT_EQ(begin(), "") << "b stands behind a";
  settle_all();
  EXPECT_EQ(db.store->backend().discard({}, 10), 1U);
  EXPECT_THAT(rest(), ElementsAre("a", "b", "d"));
}

TEST_F(KeyedAnswers, I5_ATimeoutRepeatsWhatAProducerTookBehindIt) {
  claim("k", {"a"}, "producer");
  ASSERT_EQ(begin(), "a");
  detach("a");
  n.advance(600ms);
  claim("k", {"b"}, "producer");
  EXPECT_EQ(begin(), "") << "b was not claimed: a is in line and has an owner";
  n.advance(600ms);
  n.renew();
  end("a");
  settle_all();
  EXPECT_EQ(status("a"), event_status::retry);
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

TEST_F(KeyedAnswers, I5_AStopGivesUpWhatAProducerHasNotAnsweredAndRepeatsTheRest) {
  claim("k", {"a", "b", "c"}, "producer");
  for (auto const* id : {"a", "b"}) {
    ASSERT_EQ(begin(), id);
    detach(id);
  }
  end("b");
  n.look([&](engine& e) {
    e.close(n.now());
    e.release_queued(n.now());
  });
  settle_all();
  EXPECT_TRUE(empty());
  EXPECT_EQ(status("a"), event_status::retry);
  EXPECT_NE(status("b"), event_status::delivered) << "it would be followed by a";
  stepper other{db, "other", [](node_settings& s) { s.keyed = true; }};
  other.open();
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    other.poll_all();
    for (auto const& id : other.deliver_all()) ids.push_back(id);
    while (other.settle()) {
    }
  }
  EXPECT_THAT(ids, ElementsAre("a", "b", "c"));
}

TEST_F(KeyedAnswers, I5_ALostSettlementRepeatsWhatRunsBehindIt) {
  claim("k", {"a", "b", "c"});
  EXPECT_EQ(n.deliver(), "a");
  EXPECT_EQ(begin(), "b");
  n.advance(31s);
  auto const theirs = steal(1);
  ASSERT_EQ(theirs.at(0).handle.id, "a");
  n.settle();  // refused: the other node has a
  EXPECT_EQ(n.counters().lost, 1U);
  end("b");
  settle_all();
  EXPECT_NE(status("b"), event_status::delivered) << "the other node delivers a after it";
  settlement const theirs_done{.row = theirs[0].handle, .key = theirs[0].key, .seq = theirs[0].seq};
  db.store->backend().settle(std::span{&theirs_done, 1});
  EXPECT_THAT(rest(), ElementsAre("b", "c"));
}

// Workers call the listeners here, and look between an answer and what the engine is told of it.

TEST_F(KeyedAnswers, I5_NothingBeginsBehindAnEventThatWasRefusedInTheCall) {
  claim("k", {"a", "b", "c"}, "refusing");
  EXPECT_EQ(n.work(), "a");
  EXPECT_EQ(begin(), "") << "another worker, before the answer is taken";
  ASSERT_TRUE(n.core->take_answer());
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_EQ(db.row("a").last_error, "the queue is full");
  for (auto const* id : {"b", "c"}) EXPECT_TRUE(free(id)) << id;
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
}

TEST_F(KeyedAnswers, I5_NothingBeginsBehindAnEventWhoseCompletionWasDroppedInTheCall) {
  claim("k", {"a", "b"}, "other.producer");
  EXPECT_EQ(n.work(), "a");
  EXPECT_EQ(begin(), "");
  ASSERT_TRUE(n.core->take_answer());
  EXPECT_EQ(begin(), "");
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

TEST_F(KeyedAnswers, I5_WhatIsQueuedWaitsAgainWhenTheOneBeforeItIsRefused) {
  claim("k", {"a", "b"}, "kept");
  EXPECT_EQ(n.work(), "a");
  EXPECT_EQ(n.look([](engine& e) { return e.cold_depth(); }), 1U) << "b is next";
  answers[0](failed{"no"});
  EXPECT_EQ(begin(), "");
  ASSERT_TRUE(n.core->take_answer());
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_TRUE(free("b"));
  EXPECT_EQ(db.row("b").attempts, 0);
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

TEST_F(KeyedAnswers, I5_AnEventThatIsDoneLetsTheNextBeginBeforeItsAnswerIsTaken) {
  claim("k", {"a", "b"}, "kept");
  EXPECT_EQ(n.work(), "a");
  answers[0](done);
  EXPECT_EQ(n.work(), "b");
  answers[1](done);
  while (n.core->take_answer()) {
  }
  settle_all();
  EXPECT_TRUE(empty());
}

TEST_F(KeyedAnswers, I5_ARefusalInTheMiddleHoldsUpThoseBehindItAndNotTheOneBefore) {
  claim("k", {"a", "b", "c", "d"}, "kept");
  for (auto const* id : {"a", "b", "c"}) EXPECT_EQ(n.work(), id);
  answers[1](failed{"no"});
  EXPECT_EQ(begin(), "") << "d stands behind b";
  answers[0](done);
  EXPECT_EQ(begin(), "");
  answers[2](done);
  while (n.core->take_answer()) {
  }
  settle_all();
  EXPECT_EQ(status("a"), event_status::delivered);
  EXPECT_EQ(status("b"), event_status::retry);
  EXPECT_NE(status("c"), event_status::delivered) << "it is repeated behind b";
  EXPECT_THAT(rest(), ElementsAre("b", "c", "d"));
}

TEST_F(KeyedAnswers, I5_ABirthDoesNotBeginBehindAnEventThatWasRefused) {
  n.commit("a", {.ordering_key = "k"}, "kept");
  EXPECT_EQ(n.work(), "a");
  answers[0](failed{"no"});
  n.commit("b", {.ordering_key = "k"}, "kept");
  EXPECT_EQ(begin(), "");
  ASSERT_TRUE(n.core->take_answer());
  EXPECT_EQ(begin(), "");
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
}

TEST_F(KeyedAnswers, AnAnswerInTheCallAfterItsTimeoutFreesTheWorkerOnce) {
  claim("k", {"a"}, "kept");
  auto const t = n.start();
  ASSERT_TRUE(t);
  n.advance(6min);
  n.renew();
  EXPECT_EQ(n.counters().timed_out, 1U);
  EXPECT_FALSE(n.look([](engine& e) { return e.drained(); })) << "its worker has not returned";
  n.look([&](engine& e) {
    e.answer_arrived(*t, false);
    e.detach(*t, n.now());
    e.finish(*t, {failed{"no"}, {}}, n.now());
  });
  EXPECT_TRUE(n.look([](engine& e) { return e.drained(); }));
  EXPECT_EQ(n.counters().late_results, 1U);
  EXPECT_THAT(rest(), ElementsAre("a"));
}

class KeyedAnswersSkip : public keyed_fixture {
 protected:
  KeyedAnswersSkip() : keyed_fixture{outbox::v0::on_dead::skip} {}
};

TEST_F(KeyedAnswersSkip, I5_TheNextBeginsWhenTheRefusalOfADeadEventIsDurable) {
  claim("k", {"a", "b"}, "kept");
  EXPECT_EQ(n.work(), "a");
  answers[0](dead{"too large"});
  EXPECT_EQ(begin(), "");
  ASSERT_TRUE(n.core->take_answer());
  EXPECT_EQ(begin(), "") << "a crash would bring a back behind b";
  settle_all();
  EXPECT_EQ(begin(), "b");
  end("b");
  EXPECT_THAT(rest(), IsEmpty());
  EXPECT_EQ(n.counters().chains_broken, 0U);
}

TEST_F(KeyedAnswers, I5_BirthsGoToAProducerOneRightBehindTheOther) {
  n.commit("a", {.ordering_key = "k"}, "producer");
  ASSERT_EQ(begin(), "a");
  detach("a");
  n.commit("b", {.ordering_key = "k"}, "producer");
  EXPECT_EQ(begin(), "b") << "the producer has taken a";
  n.commit("c", {.ordering_key = "k"}, "producer");
  EXPECT_EQ(begin(), "") << "its function has not returned from b";
  detach("b");
  EXPECT_EQ(begin(), "c");
  detach("c");
  n.commit("d", {.ordering_key = "k"}, "other.producer");
  EXPECT_EQ(begin(), "") << "another producer must wait for the answers";
  end("b");
  end("c");
  EXPECT_EQ(begin(), "");
  end("a");
  EXPECT_EQ(begin(), "d");
  end("d");
  settle_all();
  EXPECT_TRUE(empty());
}

}  // namespace
}  // namespace outbox::core
