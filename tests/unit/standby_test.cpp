// Rule 9: the modes in which one node works and the others stand by.
#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

void exclusive(node_settings& s) {
  s.engine.exclusive = true;
  s.mode = node_mode::single_node;
}

class Standby : public ::testing::Test {
 protected:
  table db;
};

TEST_F(Standby, R9_TheSecondWaitsAndTakesOverAtOnce) {
  auto first = std::make_unique<stepper>(db, "first", exclusive);
  stepper second{db, "second", exclusive};
  first->open();
  second.open();
  first->poll_all();
  second.poll_all();
  EXPECT_TRUE(first->look([](engine& e) { return e.active(); }));
  EXPECT_FALSE(second.look([](engine& e) { return e.active(); }));
  EXPECT_THAT(second.log, ElementsAre(HasSubstr("standing by")));

  first->commit("a");
  first.reset();  // crashes with the event in its queue
  db.clock->advance(1001ms);
  second.poll_all();
  EXPECT_TRUE(second.look([](engine& e) { return e.active(); }));
  EXPECT_EQ(second.deliver(), "a") << "no lease was waited for";
}

TEST_F(Standby, R9_AStandbyOwnsNoBirths) {
  stepper first{db, "first", exclusive};
  stepper second{db, "second", exclusive};
  first.open();
  second.open();
  first.poll_all();
  second.poll_all();
  second.commit("a");
  EXPECT_EQ(db.row("a").locked_by, "");
  db.clock->advance(6s);
  first.poll_all();
  EXPECT_EQ(first.deliver(), "a");
}

TEST_F(Standby, R9_TheHolderMayBeSlowToSayGoodbye) {
  auto first = std::make_unique<stepper>(db, "first", exclusive);
  stepper second{db, "second", exclusive};
  first->open();
  first->poll_all();
  first->core->farewell();
  second.open();
  second.poll_all();
  EXPECT_TRUE(second.look([](engine& e) { return e.active(); }));
}

TEST_F(Standby, R9_NoBirthIsOwnedBeforeTheOldLeasesAreEnded) {
  stepper n{db, "n", exclusive};
  n.open();
  n.commit("a");
  EXPECT_EQ(db.row("a").locked_by, "");
  n.poll_all();
  n.commit("b");
  EXPECT_NE(db.row("b").locked_by, "");
}

TEST_F(Standby, R9_AFailedExpiryIsTriedAgain) {
  stepper n{db, "n", exclusive};
  n.open();
  n.fail_next(testing::operation::expire_others, testing::fault::before);
  n.poll_all();
  EXPECT_FALSE(n.look([](engine& e) { return e.active(); }));
  db.clock->advance(200ms);
  n.poll_all();
  EXPECT_TRUE(n.look([](engine& e) { return e.active(); }));
}

}  // namespace
}  // namespace outbox::core
