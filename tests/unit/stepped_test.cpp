// Nodes that a test runs on its own thread, and what the recording hook sees.
#include "stepwise_node.hpp"

namespace outbox {
namespace {

using Stepped = StepwiseNode;

TEST_F(Stepped, DeliversWhatIsDueAndSaysHowMany) {
  l.on("t", [](delivery const&) {});
  make();
  write("a");
  write("b");
  EXPECT_EQ(n->run_until_idle(), 2U);
  EXPECT_EQ(n->run_until_idle(), 0U);
}

TEST_F(Stepped, ManualTimeBringsRetriesAtOnce) {
  l.on("t", [](delivery const& d) -> result {
    if (d.attempt < 3) return failed{"again"};
    return done;
  });
  make();
  write("a");
  EXPECT_EQ(testing::run_until_done(*n, *clock, *table), 3U);
  EXPECT_EQ(seen->count("a"), 3U);
}

TEST_F(Stepped, IsNotForAStartedNodeNorForAStoppedOne) {
  make();
  n->stop();
  EXPECT_THROW(n->run_until_idle(), error);
  auto other = multi_node({.store = table, .log = nullptr});
  other.start();
  EXPECT_THROW(other.run_until_idle(), error);
}

TEST_F(Stepped, IsNotForANodeThatOnlyWrites) {
  make();
  n->stop();
  memory::transaction tx{*table};
  auto writer = writer_only({.store = table, .log = nullptr});
  writer.writer().write(tx, "t", "1", {.id = "a"});
  tx.commit();
  EXPECT_THROW(writer.run_until_idle(), error);
  EXPECT_EQ(row("a").status, event_status::created) << "it is not dead because it lacks a listener";
}

TEST_F(Stepped, AListenerMayStopItsNodeButNotRunIt) {
  bool nested = false;
  l.on("t", [&](delivery const&) {
    try {
      n->run_until_idle();
    } catch (error const& e) {
      nested = e.code() == errc::lifecycle;
    }
    EXPECT_FALSE(n->stop()) << "it only asks";
  });
  make();
  write("a");
  write("b");
  n->run_until_idle();
  EXPECT_TRUE(nested);
  EXPECT_TRUE(n->stop());
}

TEST_F(Stepped, StopSaysWhetherEverythingWasFinished) {
  std::optional<completion> open;
  l.on("t", [&](delivery const&, completion c) { open = std::move(c); });
  make();
  write("a");
  n->run_until_idle();
  EXPECT_FALSE(n->stop());
}

TEST_F(Stepped, AnEndlessRunIsAnError) {
  l.on("t",
       [](delivery const&) {
         return result{failed{"never", 0ms}};
       },
       {.retry = retry_policy{.max_attempts = 1'000'000}});
  make();
  write("a");
  EXPECT_THROW(n->run_until_idle(), error);
}

TEST(Recording, TheHookHearsOfWritesAndEnds) {
  auto const table = memory::open();
  auto const hook = std::make_shared<testing::recording_hook>();
  auto n = writer_only({.store = table, .hook = hook});
  {
    memory::transaction tx{*table};
    n.writer().write(tx, "t", "1", {.id = "a"});
    tx.commit();
  }
  {
    memory::transaction tx{*table};
    n.writer().write(tx, "t", "1", {.id = "b"});
  }
  EXPECT_THAT(hook->written(), ElementsAre("a", "b"));
  EXPECT_THAT(hook->committed(), ElementsAre("a"));
  EXPECT_THAT(hook->rolled_back(), ElementsAre("b"));
}

}  // namespace
}  // namespace outbox
