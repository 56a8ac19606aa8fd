// I5 per key: what a chain does when an event in it is given up, lost or dead.
#include "stepper.hpp"

namespace outbox::core {
namespace {

class ChainBreak : public ::testing::Test {
 protected:
  ChainBreak() {
    t.store->backend().set_keyed(true);
    for (auto const* id : {"e1", "e2", "e3"}) t.put(id, "t", {.ordering_key = "k"});
  }

  void hold_three(on_dead what = on_dead::park) {
    node.emplace(t, "n", [&](node_settings& s) {
      s.mode = node_mode::keyed;
      s.keyed = true;
      s.on_dead = what;
    });
    node->open();
    node->poll_all();
  }

  // An operator takes the row away from the node, which hears of it with its next renewal.
  void lose(std::string const& id) {
    ASSERT_EQ(t.store->backend().cancel({.ids = {id}}, "on purpose", 1), 1U);
    node->renew();
  }

  table t;
  std::optional<stepper> node;
};

TEST_F(ChainBreak, ADeadEventThatDoesNotParkLetsTheNextBeginWhenItsDeathIsDurable) {
  hold_three(on_dead::skip);
  EXPECT_EQ(node->deliver(dead{"on purpose"}), "e1");
  EXPECT_EQ(node->start(), nullptr) << "a crash now would bring e1 back, and it might be delivered behind e2";
  ASSERT_TRUE(node->settle());
  EXPECT_EQ(node->deliver(), "e2");
}

TEST_F(ChainBreak, WhatStandsBeforeALostEventGoesOn) {
  hold_three();
  auto const first = node->start();
  ASSERT_NE(first, nullptr);
  lose("e3");
  node->finish(first, done);
  EXPECT_EQ(node->deliver(), "e2");
}

TEST_F(ChainBreak, AChainBreaksAgainNearerToItsBeginning) {
  hold_three();
  auto const first = node->start();
  ASSERT_NE(first, nullptr);
  lose("e3");
  node->finish(first, failed{"on purpose"});
  while (node->settle()) {
  }
  EXPECT_EQ(t.row("e2").locked_by, "") << "it must not stay in the node for ever";
}

TEST_F(ChainBreak, NothingIsClaimedBehindAnEventWhoseCrashesAreUsedUp) {
  for (int i = 0; i < 3; ++i) {
    auto const how = i == 2 ? suspects::take_one : suspects::skip;
    auto const token = "other/" + std::to_string(i);
    auto const reply = t.store->backend().claim(
        {.token = token, .limit = 1, .lease = 1s, .max_crashes = 3, .suspects = how, .keyed = true});
    ASSERT_EQ(reply.rows.size(), 1U);
    t.clock->advance(2s);
  }
  hold_three();
  EXPECT_EQ(node->start(), nullptr) << "e1 is about to be DEAD and parks its key";
  EXPECT_EQ(t.row("e2").blocked, true);
  while (node->settle()) {
  }
  EXPECT_EQ(t.row("e1").status, event_status::dead);
  EXPECT_EQ(t.row("e2").locked_by, "");
}

}  // namespace
}  // namespace outbox::core
