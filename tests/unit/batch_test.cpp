// Listeners that take several events at once.
#include "stepwise_node.hpp"

namespace outbox {
namespace {

using Batches = StepwiseNode;

TEST_F(Batches, TakeTheEventsThatWait) {
  std::vector<std::size_t> sizes;
  l.on_batch("t",
             [&](std::span<delivery const> batch) {
               sizes.push_back(batch.size());
               return std::vector<result>(batch.size(), done);
             },
             {.max_batch = 3});
  make();
  for (auto const* id : {"a", "b", "c", "d"}) write(id);
  n->run_until_idle();
  EXPECT_THAT(sizes, ElementsAre(3, 1));
  EXPECT_EQ(table->inspect().counts().done, 4U);
  EXPECT_THAT(seen->ids(), ElementsAre("a", "b", "c", "d"));
}

TEST_F(Batches, EachEventHasItsOwnResult) {
  l.on_batch("t", [&](std::span<delivery const>) {
    return std::vector<result>{done, failed{"down"}, defer{1s, "wait"}, dead{"bad"}};
  });
  make();
  for (auto const* id : {"a", "b", "c", "d"}) write(id);
  n->run_until_idle();
  EXPECT_EQ(row("a").status, event_status::delivered);
  EXPECT_EQ(row("b").status, event_status::retry);
  EXPECT_EQ(row("c").last_error, "wait");
  EXPECT_EQ(row("d").status, event_status::dead);
}

TEST_F(Batches, AnExceptionOrAWrongNumberOfResultsFailsAllEvents) {
  bool wrong_number = false;
  l.on_batch("t", [&](std::span<delivery const>) -> std::vector<result> {
    if (wrong_number) return {done};
    throw std::runtime_error{"broker is down"};
  });
  make();
  write("a");
  write("b");
  n->run_until_idle();
  EXPECT_EQ(row("a").last_error, "broker is down");
  EXPECT_EQ(row("b").attempts, 1);
  wrong_number = true;
  clock->advance(1s);
  n->run_until_idle();
  EXPECT_EQ(row("a").last_error, "the listener gave 1 results for 2 events");
}

TEST_F(Batches, OtherRoutesAreNotMixedIn) {
  std::vector<std::string> batch_ids;
  l.on_batch("t", [&](std::span<delivery const> batch) {
    for (auto const& d : batch) batch_ids.push_back(d.id);
    return std::vector<result>(batch.size(), done);
  });
  l.on("other", [](delivery const&) {});
  make();
  write("a");
  write("x", "other");
  write("b");
  n->run_until_idle();
  EXPECT_THAT(batch_ids, ElementsAre("a", "b"));
  EXPECT_EQ(row("x").status, event_status::delivered);
}

TEST_F(Batches, WhatCannotBeDecodedIsDeadAndTheRestIsDelivered) {
  int total = 0;
  l.on_batch<paid>([&](std::span<paid const> values, std::span<delivery const> d) {
    EXPECT_EQ(values.size(), d.size());
    for (auto const& p : values) total += p.amount;
    return std::vector<result>(values.size(), done);
  });
  make();
  write("a", "paid", "40");
  write("bad", "paid", "null");
  write("b", "paid", "2");
  n->run_until_idle();
  EXPECT_EQ(total, 42);
  EXPECT_EQ(row("bad").status, event_status::dead);
  EXPECT_THAT(row("bad").last_error, HasSubstr("cannot decode"));
}

TEST_F(Batches, AWrongNumberOfResultsIsNoticedBesideAnEventThatCannotBeDecoded) {
  l.on_batch<paid>([&](std::span<paid const>, std::span<delivery const>) { return std::vector<result>{done, done}; });
  make();
  write("bad", "paid", "null");
  write("good", "paid", "1");
  n->run_until_idle();
  EXPECT_EQ(row("good").last_error, "the listener gave 2 results for 1 events");
  EXPECT_NE(row("bad").status, event_status::delivered);
}

}  // namespace
}  // namespace outbox
