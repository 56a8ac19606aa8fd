// Listeners that answer later, through their completion.
#include "stepwise_node.hpp"

namespace outbox {
namespace {

using Asynchronous = StepwiseNode;

TEST_F(Asynchronous, AnswersLaterFromAnotherThread) {
  std::optional<completion> answer;
  l.on("t", [&](delivery const&, completion c) { answer = std::move(c); });
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(n->counters().held, 1U);
  EXPECT_EQ(row("e").status, event_status::created);
  std::thread{[&] { (*answer)(done); }}.join();
  EXPECT_FALSE(*answer) << "it owes nothing any more";
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::delivered);
  EXPECT_THAT(seen->ids(), ElementsAre("e")) << "interceptors hear of the end";
}

TEST_F(Asynchronous, MayAnswerDuringTheCall) {
  l.on("t", [&](delivery const&, completion c) { c(defer{5s, "not yet"}); });
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").last_error, "not yet");
}

TEST_F(Asynchronous, DroppedMeansFailed) {
  l.on("t", [&](delivery const&, completion) {});
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_THAT(row("e").last_error, HasSubstr("dropped"));
}

TEST_F(Asynchronous, ReplacedMeansFailedToo) {
  completion held;
  l.on("t", [&](delivery const&, completion c) { held = std::move(c); });
  make();
  write("a");
  write("b");
  n->run_until_idle();
  EXPECT_THAT(row("a").last_error, HasSubstr("dropped"));
  EXPECT_EQ(row("b").attempts, 0);
  held(done);
  n->run_until_idle();
  EXPECT_EQ(row("b").status, event_status::delivered);
}

TEST_F(Asynchronous, AnExceptionIsReportedInsteadOfTheDroppedCompletion) {
  l.on("t", [&](delivery const&, completion) { throw permanent_failure{"bad address"}; });
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::dead);
  EXPECT_EQ(row("e").last_error, "bad address");
}

TEST_F(Asynchronous, TheFirstOfSeveralAnswersCounts) {
  std::optional<shared_completion> hands;
  l.on("t", [&](delivery const&, completion c) { hands = std::move(c).share(); });
  make();
  write("e");
  n->run_until_idle();
  auto const other = *hands;
  other(dead{"first"});
  (*hands)(done);
  n->run_until_idle();
  EXPECT_EQ(row("e").last_error, "first");
}

TEST_F(Asynchronous, TheLastCopyDroppedMeansFailed) {
  std::optional<shared_completion> hands;
  l.on("t", [&](delivery const&, completion c) { hands = std::move(c).share(); });
  make();
  write("e");
  n->run_until_idle();
  auto other = std::optional{*hands};
  hands.reset();
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 0);
  other.reset();
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 1);
}

TEST_F(Asynchronous, CrossesACallbackAsAPointer) {
  void* user_data = nullptr;
  l.on("t", [&](delivery const&, completion c) { user_data = c.release(); });
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 0) << "released is not dropped";
  completion::adopt(user_data)(done);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(Asynchronous, AnswersAfterItsTimeoutCountForNothing) {
  std::vector<completion> answers;
  l.on("t", [&](delivery const&, completion c) { answers.push_back(std::move(c)); }, {.timeout = 2s});
  make();
  write("e");
  n->run_until_idle();
  clock->advance(2s);
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_THAT(row("e").last_error, HasSubstr("2000 ms"));
  EXPECT_TRUE(n->counters().timed_out == 1);
  answers[0](done);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry);
  EXPECT_EQ(n->counters().late_results, 1U);
}

TEST_F(Asynchronous, AnAnswerThatWaitsForItsWorkerIsInTime) {
  std::optional<completion> answer;
  l.on("t", [&](delivery const&, completion c) { answer = std::move(c); }, {.timeout = 2s});
  make();
  write("e");
  n->run_until_idle();
  (*answer)(done);
  clock->advance(3s);  // past the timeout before anybody looked
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::delivered);
  EXPECT_EQ(n->counters().timed_out, 0U);
}

TEST_F(Asynchronous, MayOutliveTheNode) {
  std::optional<completion> answer;
  l.on("t", [&](delivery const&, completion c) { answer = std::move(c); });
  make();
  write("e");
  n->run_until_idle();
  n.reset();
  EXPECT_EQ(row("e").status, event_status::retry) << "given back, and it says that it was tried";
  EXPECT_EQ(row("e").attempts, 0);
  EXPECT_EQ(row("e").locked_by, "");
  (*answer)(done);
  EXPECT_EQ(row("e").status, event_status::retry);
}

TEST_F(Asynchronous, AnEventThatTheLastNodeDidNotSettleMayBeADuplicate) {
  std::optional<completion> answer;
  l.on("t", [&](delivery const&, completion c) { answer = std::move(c); });
  make();
  write("e");
  n->run_until_idle();
  n.reset();
  l.on("t", [](delivery const&) {});
  make();
  ASSERT_THAT(seen->deliveries(), SizeIs(1));
  EXPECT_TRUE(seen->deliveries()[0].maybe_duplicate);
}

TEST_F(Asynchronous, AReadyMadeEventIsWrittenUnderItsId) {
  l.on("t", [](delivery const&) {});
  make();
  memory::transaction tx{*table};
  auto const e = event::json("t", "1");
  EXPECT_EQ(n->writer().write(tx, e).str(), e.id());
  tx.commit();
  n->run_until_idle();
  EXPECT_EQ(row(e.id()).status, event_status::delivered);
}

}  // namespace
}  // namespace outbox
