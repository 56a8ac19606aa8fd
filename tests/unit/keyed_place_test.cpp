// Rule I5, per key: events that are born with an owner, where nothing tells at once where their rows stand.
#include "unit/keyed_birth.hpp"

namespace outbox::core {
namespace {

using namespace spi;

class KeyedPlace : public keyed_birth_fixture {
 protected:
  /// The ids of the next question.
  std::vector<std::string> asked() {
    auto const p = n.look([](engine& e) { return e.plan_place(); });
    if (!p.request) return {};
    n.core->carry(*p.request);
    return p.request->ids;
  }
};

TEST_F(KeyedPlace, I5_ABirthOfUnknownPlaceWaitsForTheAnswerOfTheStore) {
  odd->tells = false;
  born({"a"});
  born({"b", "c"});
  born({"x"}, "l");
  EXPECT_EQ(begin(), "");
  EXPECT_FALSE(n.look([](engine& e) { return e.drained(); })) << "a stop waits for them";
  EXPECT_TRUE(n.place());
  EXPECT_FALSE(n.place());
  EXPECT_EQ(begin(), "a");
  EXPECT_EQ(begin(), "x");
  EXPECT_EQ(begin(), "");
  end("a");
  end("x");
  EXPECT_THAT(n.deliver_all(), ElementsAre("b", "c"));
  settle_all();
  EXPECT_EQ(n.counters().released, 0U);
  EXPECT_TRUE(empty());
}

TEST_F(KeyedPlace, I5_ABirthOfUnknownPlaceBehindOneThatWasDeliveredMeanwhile) {
  odd->tells = false;
  born({"a"});
  n.place();
  EXPECT_EQ(n.deliver(), "a");
  born({"b"});
  auto const p = n.look([](engine& e) { return e.plan_place(); });
  ASSERT_TRUE(p.request);
  auto const told = n.core->ask(*p.request);
  EXPECT_EQ(told.places.at(0).before, "a");
  settle_all();
  n.core->apply(*p.request, told);
  EXPECT_EQ(begin(), "b") << "a is the last that was delivered";
  end("b");
  settle_all();
  EXPECT_TRUE(empty());
}

TEST_F(KeyedPlace, I5_ABirthOfUnknownPlaceBehindOneWhoseHookIsNotHeard) {
  odd->tells = false;
  auto const a = committed({"a"});
  auto const b = committed({"b"});
  b->hear();
  n.place();
  EXPECT_EQ(begin(), "") << "it was told that a stands before it";
  a->hear();
  EXPECT_EQ(begin(), "");
  n.place();
  EXPECT_THAT(n.deliver_all(), ElementsAre("a", "b"));
  settle_all();
}

TEST_F(KeyedPlace, I5_AQuestionThatFailsSendsTheBirthsThroughTheTable) {
  odd->tells = false;
  odd->places_fail = true;
  born({"a", "b"});
  n.place();
  EXPECT_THAT(n.log, ::testing::Contains(HasSubstr("cannot ask where new events stand")));
  EXPECT_EQ(begin(), "");
  settle_all();
  EXPECT_TRUE(free("a"));
  EXPECT_THAT(rest(), ElementsAre("a", "b"));
  EXPECT_EQ(n.counters().store_errors, 1U);
}

TEST_F(KeyedPlace, I5_ARowThatIsGoneWhenTheNodeAsksIsForgotten) {
  odd->tells = false;
  auto const tx = std::make_unique<open_transaction>(*db.store);
  write(tx->ref(), {"a"});
  tx->rollback();
  tx->hear();  // a store that says committed of a row that is not there
  n.place();
  settle_all();
  EXPECT_TRUE(empty());
  born({"b"});
  n.place();
  EXPECT_THAT(rest(), ElementsAre("b"));
}

TEST_F(KeyedPlace, I5_ATicketThatIsLostWhileItsPlaceIsAskedForDoesNotStopTheOthers) {
  odd->tells = false;
  born({"a", "b"});
  n.place();
  EXPECT_EQ(begin(), "a");
  born({"c"});
  db.store->backend().cancel({.ids = {"c"}}, "gone", 1);
  db.store->backend().discard({}, 1);
  n.advance(10s);
  n.renew();
  settle_all();
  end("a");
  EXPECT_EQ(begin(), "b") << "c stood behind it";
  end("b");
  settle_all();
  n.place();
  EXPECT_TRUE(empty());
}

TEST_F(KeyedPlace, TheOldestBirthsAreAskedAboutFirst) {
  claim("c", {"c1", "c2", "c3"});
  odd->tells = false;
  std::vector<std::string> ids;
  for (int i = 0; i < 600; ++i) {
    ids.push_back("e" + std::to_string(1000 + i));
    born({ids.back().c_str()}, "k" + std::to_string(i));
  }
  EXPECT_EQ(asked(), (std::vector<std::string>{ids.begin(), ids.begin() + 500}));
  born({"last"}, "l");
  auto const left = asked();
  ASSERT_THAT(left, SizeIs(101));
  EXPECT_EQ(left.front(), ids[500]);
  EXPECT_EQ(left.back(), "last");
  EXPECT_THAT(asked(), IsEmpty());
  EXPECT_THAT(rest(), SizeIs(604));
}

TEST_F(KeyedPlace, ABirthThatLeavesBeforeTheQuestionIsNotAskedAbout) {
  odd->tells = false;
  born({"a", "b"});
  born({"x"}, "l");
  for (auto const* id : {"a", "x"}) db.store->backend().cancel({.ids = {id}}, "gone", 1);
  db.store->backend().discard({}, 2);
  n.advance(10s);
  n.renew();  // a and x are lost
  settle_all();
  born({"y"}, "m");
  EXPECT_THAT(asked(), ElementsAre("b", "y"));
  for (auto const* id : {"b", "y"}) EXPECT_EQ(begin(), id);
  EXPECT_THAT(asked(), IsEmpty());
  for (auto const* id : {"b", "y"}) end(id);
  born({"z"}, "o");
  n.look([&](engine& e) { e.close(n.now(), stop_queued::release); });
  EXPECT_THAT(asked(), IsEmpty()) << "z was given back";
  settle_all();
  EXPECT_TRUE(free("z"));
}

TEST_F(KeyedPlace, ABirthThatIsGivenBackBeforeTheQuestionIsNotAskedAbout) {
  born({"a"});
  EXPECT_EQ(begin(), "a");
  odd->tells = false;
  born({"b", "c"});
  end("a", failed{"no"});
  EXPECT_THAT(asked(), IsEmpty());
  born({"x"}, "l");
  EXPECT_THAT(asked(), ElementsAre("x"));
  EXPECT_EQ(begin(), "x");
  end("x");
  EXPECT_THAT(rest(), ElementsAre("a", "b", "c"));
}

TEST_F(KeyedPlace, I5_ABirthOfUnknownPlaceThatAClaimReturnsHoldsUpWhatTheClaimBroughtBesides) {
  odd->tells = false;
  born({"a"});
  born({"b"}, "l");
  n.look([&](engine& e) { static_cast<void>(e.plan_place()); });  // its answer is on its way
  db.clock->advance(31s);
  put("k", {"c"});
  auto const again = claim_request{.token = "n/again", .limit = 10, .lease = 30s, .keyed = true};
  auto reply = db.store->backend().claim(again);
  ASSERT_THAT(reply.rows, SizeIs(3));
  n.look([&](engine& e) { e.apply_claim(again, n.now(), std::move(reply), n.now()); });
  EXPECT_EQ(begin(), "") << "c comes after a";
  settle_all();
  EXPECT_TRUE(free("a"));
  EXPECT_TRUE(free("c"));
  odd->tells = true;
  EXPECT_THAT(rest(), ::testing::UnorderedElementsAre("a", "b", "c"));
}

TEST_F(KeyedPlace, I5_ABirthThatWasGivenBackHoldsUpWhatAClaimBringsWithIt) {
  put("k", {"x"});
  auto const theirs = steal(1);
  born({"a"});
  EXPECT_EQ(begin(), "") << "x is another node's; the release of a is not sent yet";
  db.clock->advance(20s);
  settlement const done_there{.row = theirs[0].handle, .key = theirs[0].key, .seq = theirs[0].seq};
  ASSERT_TRUE(db.store->backend().settle(std::span{&done_there, 1}).applied.at(0));
  db.clock->advance(11s);
  put("k", {"c"});
  auto const again = claim_request{.token = "n/again", .limit = 10, .lease = 30s, .keyed = true};
  auto reply = db.store->backend().claim(again);
  ASSERT_THAT(reply.rows, SizeIs(2));
  n.look([&](engine& e) { e.apply_claim(again, n.now(), std::move(reply), n.now()); });
  EXPECT_EQ(begin(), "");
  EXPECT_THAT(rest(), ElementsAre("a", "c"));
}

}  // namespace
}  // namespace outbox::core
