// What the lines of a node carry for machines.
#include "stepper.hpp"

namespace outbox::core {
namespace {

using testing::fault;
using testing::operation;

class LogFields : public ::testing::Test {
 protected:
  LogFields() {
    n.open();
    n.poll_all();
  }
  table db;
  stepper n{db, "n", [](node_settings& s) { s.name = "web-1"; }};
  std::string const node = "node=web-1 table=\"the store in memory\" ";
};

TEST_F(LogFields, ADeadEventIsNamedWithItsRouteAttemptAndReason) {
  n.commit("a");
  n.deliver(dead{"refused: \"no\"\nat all"});
  n.settle();
  EXPECT_THAT(n.log, ElementsAre("error: event a (t) of route 't' is DEAD: refused: \"no\" at all"));
  EXPECT_THAT(n.fields, ElementsAre(node + R"(event=a type=t route=t attempt=1 error="refused: \"no\"\u000aat all")"));
}

TEST_F(LogFields, TheAttemptIsTheOneThatFailed) {
  n.commit("a");
  for (int i = 0; i < 3; ++i) {
    n.deliver(failed{"down"});
    n.settle();
    n.advance(5min);
    n.poll_all();
  }
  EXPECT_THAT(n.fields, ElementsAre(node + "event=a type=t route=t attempt=3 error=down"));
}

TEST_F(LogFields, AnEventWithoutAListenerHasNoRoute) {
  memory::transaction tx{*db.store};
  n.write(tx, "x", {}, "unknown");
  tx.commit();
  n.poll_all();
  n.work();
  n.settle();
  ASSERT_EQ(n.fields.size(), 1U);
  EXPECT_THAT(n.fields[0], ::testing::StartsWith(node + "event=x type=unknown attempt=1 error=\"no listener"));
}

TEST_F(LogFields, AnEventThatEndedProcessesSaysHowMany) {
  db.put("poison");
  for (int i = 0; i < 3; ++i) {
    stepper victim{db, "victim" + std::to_string(i)};
    victim.open();
    victim.poll_all();
    EXPECT_TRUE(victim.start()) << i;
    db.clock->advance(30001ms);
  }
  n.poll_all();
  EXPECT_THAT(n.fields, ::testing::Contains(
                            node + "event=poison type=t crashes=3 error=\"3 processes ended while they held it\""));
}

TEST_F(LogFields, AFullHotPathNamesTheFirstEventThatFoundIt) {
  stepper small{db, "s", [](node_settings& s) { s.queue.hot = 1; }};
  small.open();
  small.poll_all();
  small.commit("a");
  small.commit("b");
  small.poll_all();
  ASSERT_EQ(small.fields.size(), 1U);
  EXPECT_THAT(small.fields[0], ::testing::EndsWith(" event=b type=t"));
}

TEST_F(LogFields, AStoreThatFailsHasACodeAndTheRequest) {
  n.look([](engine& e) { e.ask_poll(); });
  n.fail_next(operation::claim, fault::refused);
  n.poll();
  EXPECT_THAT(n.fields, ElementsAre(node + "error=\"refused on purpose\" code=store_failure request=claim"));
}

TEST_F(LogFields, AListenerThatIsTooSlowIsNamed) {
  memory::transaction tx{*db.store};
  n.write(tx, "slow", {}, "quick");
  tx.commit();
  auto const running = n.start();
  n.advance(1001ms);
  n.renew();
  EXPECT_THAT(n.fields, ElementsAre(node + "event=slow type=quick route=quick attempt=1"));
}

}  // namespace
}  // namespace outbox::core
