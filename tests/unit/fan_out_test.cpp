// A fan_out calls several listeners for one event and remembers which have finished.
#include "stepwise_node.hpp"

namespace outbox {
namespace {

using FanOut = StepwiseNode;

TEST_F(FanOut, CallsEveryChild) {
  int a = 0;
  int b = 0;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&) { ++a; }).to("b", [&](delivery const&) { ++b; }));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 1);
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(FanOut, ARetryCallsOnlyTheUnfinishedChildren) {
  int a = 0;
  int b = 0;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&) { ++a; }).to("b", [&](delivery const&) -> result {
    if (++b < 3) return failed{"down"};
    return done;
  }));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry);
  EXPECT_EQ(row("e").last_error, "b: down");
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_EQ(row("e").progress, R"({"a":"done"})");
  settle_all();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 3);
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(FanOut, AFailureComesBeforeADeferralAndADeferralBeforeDead) {
  std::vector<result> answers;
  auto const child = [&](std::size_t i) { return [&, i](delivery const&) { return answers.at(i); }; };
  l.on("t", fan_out<>{}.to("a", child(0)).to("b", child(1)).to("c", child(2)));
  make();
  answers = {dead{"gone"}, defer{5s, "wait"}, failed{"down", 700ms}};
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry);
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_EQ(row("e").available_at - clock->now(), 700ms) << "the wait that a child asked for";

  answers = {failed{"must not be asked again"}, defer{5s, "wait"}, defer{2s, "briefly"}};
  clock->advance(700ms);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::created);
  EXPECT_EQ(row("e").attempts, 1) << "not counted";
  EXPECT_EQ(row("e").available_at - clock->now(), 2s) << "the shortest delay";
  EXPECT_EQ(row("e").last_error, "c: briefly");

  answers = {failed{"must not be asked again"}, done, done};
  clock->advance(2s);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::dead);
  EXPECT_EQ(row("e").last_error, "a is dead: gone");
}

TEST_F(FanOut, WhatAChildThrowsIsItsAnswer) {
  int last = 0;
  l.on("t", fan_out<>{}
                .to("a", [](delivery const&) { throw permanent_failure{"never"}; })
                .to("b", [](delivery const&) { throw std::runtime_error{"oops"}; })
                .to("c", [&](delivery const&) { ++last; }));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(last, 1);
  EXPECT_EQ(row("e").last_error, "b: oops");
  EXPECT_EQ(row("e").progress, R"({"a":"dead: never","c":"done"})");
}

TEST_F(FanOut, ReplayDoesNotCallFinishedChildrenAgain) {
  int a = 0;
  bool up = false;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&) { ++a; }).to("b", [&](delivery const&) -> result {
    if (up) return done;
    return failed{"down"};
  }));
  make();
  write("e");
  settle_all();
  ASSERT_EQ(row("e").status, event_status::dead);
  up = true;
  EXPECT_TRUE(n->dead_events().replay("e"));
  settle_all();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(FanOut, ReplayCallsTheChildrenThatEndedDead) {
  int a = 0;
  bool repaired = false;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&) { ++a; }).to("b", [&](delivery const&) -> result {
    if (repaired) return done;
    return dead{"no such address"};
  }));
  make();
  write("e");
  n->run_until_idle();
  ASSERT_EQ(row("e").status, event_status::dead);
  EXPECT_EQ(row("e").last_error, "b is dead: no such address");
  repaired = true;
  EXPECT_TRUE(n->dead_events().replay("e"));
  n->run_until_idle();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(FanOut, ATimeoutRemembersWhatIsDone) {
  int a = 0;
  std::vector<completion> open;
  l.on("t",
       fan_out<>{}
           .to("a", [&](delivery const&) { ++a; })
           .to("b", [&](delivery const&, completion c) { open.push_back(std::move(c)); })
           .to("c", [&](delivery const&, completion c) { open.push_back(std::move(c)); }),
       {.timeout = 1s});
  make();
  write("e");
  n->run_until_idle();
  open.at(0)(done);
  clock->advance(1s);
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_EQ(row("e").progress, R"({"a":"done","b":"done"})");
  clock->advance(1s);
  n->run_until_idle();
  EXPECT_EQ(a, 1);
  EXPECT_THAT(open, SizeIs(3)) << "only c was asked again";
}

TEST_F(FanOut, WhatOutlivesTheNodeDoesNotKeepItsListeners) {
  auto const kept = std::make_shared<int>(1);
  std::optional<completion> open;
  l.on("t", fan_out<>{}.to("a", [&open, kept](delivery const&, completion c) { open = std::move(c); }));
  make();
  write("e");
  n->run_until_idle();
  ASSERT_TRUE(open);
  n.reset();
  EXPECT_EQ(kept.use_count(), 1);
  (*open)(done);
}

TEST_F(FanOut, TypedChildren) {
  int total = 0;
  l.on(fan_out<paid>{}
           .to("sum", [&](paid const& p) { total += p.amount; })
           .to("twice", [&](paid const& p, delivery const&) { total += 2 * p.amount; }));
  make();
  write("e", "paid", "14");
  n->run_until_idle();
  EXPECT_EQ(total, 42);
}

TEST_F(FanOut, AsynchronousChildrenAnswerInAnyOrder) {
  std::optional<completion> first;
  std::optional<completion> second;
  l.on("t", fan_out<>{}
                .to("a", [&](delivery const&, completion c) { first = std::move(c); })
                .to("b", [&](delivery const&, completion c) { second = std::move(c); })
                .to("c", [](delivery const&) {}));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(n->counters().held, 1U);
  (*second)(done);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::created) << "one is still open";
  (*first)(failed{"down"});
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry);
  EXPECT_EQ(row("e").progress, R"({"b":"done","c":"done"})");
}

TEST_F(FanOut, AChildThatThrowsAfterItTookItsCompletionHasFailed) {
  std::optional<completion> kept;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&, completion c) {
    kept = std::move(c);
    throw std::runtime_error{"oops"};
  }));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").last_error, "a: oops");
  (*kept)(done);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry) << "it answered before";
}

TEST_F(FanOut, NamesAreNeededAndUnique) {
  auto const nothing = [](delivery const&) {};
  EXPECT_THROW(l.on("t", fan_out<>{}), error);
  EXPECT_THROW(l.on("t", fan_out<>{}.to("", nothing)), error);
  try {
    l.on("t", fan_out<>{}.to("mail", nothing).to("mail", nothing));
    FAIL();
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    EXPECT_THAT(e.what(), HasSubstr("two listeners named 'mail'"));
  }
}

}  // namespace
}  // namespace outbox
