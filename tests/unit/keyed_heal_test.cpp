// Rows that wait for one that another program deleted: when a node looks for them, and what it says.
#include <outbox/spi/forwarding_store.hpp>

#include "unit/stepper.hpp"

namespace outbox::core {
namespace {

using namespace spi;

// A store whose first rows of keys are left blocked.
class blocked_heads final : public forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  std::size_t heal(std::size_t limit) override {
    ++calls;
    if (fails) throw error{errc::unavailable, "too slow"};
    return std::min(limit, std::exchange(left, 0));
  }
  std::size_t left = 0;
  int calls = 0;
  bool fails = false;
};

class KeyedHealing : public ::testing::Test {
 protected:
  void SetUp() override {
    db.store->backend().set_keyed(true);
    n.open();
  }
  // Renews until `by` has passed, and returns how often the store was asked meanwhile.
  int asked_within(std::chrono::milliseconds by) {
    auto const before = heads->calls;
    for (auto passed = 0ms; passed < by; passed += 5s) {
      n.advance(5s);
      n.renew();
    }
    return heads->calls - before;
  }

  table db;
  std::shared_ptr<blocked_heads> heads;
  stepper n{db, "n", [this](node_settings& s) {
              s.mode = node_mode::keyed;
              s.keyed = true;
              s.store = heads = std::make_shared<blocked_heads>(s.store);
            }};
};

TEST_F(KeyedHealing, ANodeLooksWhenItStartsAndEveryFewMinutes) {
  n.renew();
  EXPECT_EQ(heads->calls, 1);
  EXPECT_EQ(asked_within(3min), 0);
  EXPECT_EQ(asked_within(10min), 2);
  EXPECT_EQ(n.counters().healed, 0U);
  EXPECT_THAT(n.log, IsEmpty());
}

TEST_F(KeyedHealing, WhatItFindsIsCountedAndLoggedAndLookedForAgainAtOnce) {
  heads->left = 3;
  n.renew();
  EXPECT_EQ(n.counters().healed, 3U);
  ASSERT_THAT(n.log, SizeIs(1));
  EXPECT_THAT(n.log[0], HasSubstr("events waited for an earlier one of their key that is not there any more"));
  EXPECT_THAT(n.fields[0], HasSubstr("rows=3"));
  EXPECT_EQ(asked_within(10s), 1) << "there may be more";
  EXPECT_EQ(asked_within(3min), 0);
}

TEST_F(KeyedHealing, AfterARowOfACrashedOwnerItLooksSoonerButOnceAMinuteAtMost) {
  n.renew();
  for (auto const* id : {"a", "b"}) {
    db.put(id, "t", {.ordering_key = id});
    ASSERT_THAT(db.store->backend().claim({.token = "gone/1", .limit = 1, .lease = 1s, .keyed = true}).rows, SizeIs(1));
    n.advance(70s);
    n.look([](engine& e) { e.wake(); });
    n.poll_all();
    n.deliver_all();
    while (n.settle()) {
    }
    EXPECT_EQ(asked_within(10s), 1) << id;
  }
  EXPECT_EQ(asked_within(3min), 0);
}

// The thread that looks renews the leases.
TEST_F(KeyedHealing, ALookThatFailsIsNotTriedAtEveryRenewal) {
  heads->fails = true;
  n.renew();
  EXPECT_EQ(heads->calls, 1);
  EXPECT_EQ(asked_within(50s), 0);
  EXPECT_EQ(asked_within(15s), 1);
}

}  // namespace
}  // namespace outbox::core
