// Handles that were moved from: an error that says so, never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/dead_events.hpp>
#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/node.hpp>

namespace outbox {
namespace {

using ::testing::HasSubstr;

template <class F>
void expect_refused(char const* who, F&& use) {
  try {
    use();
    ADD_FAILURE() << who << " that was moved from was used";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::lifecycle);
    EXPECT_THAT(e.what(), HasSubstr("moved from"));
    EXPECT_THAT(e.what(), HasSubstr(who));
  }
}

TEST(MovedFrom, ANodeThrowsOrDoesNothing) {
  auto n = single_node({.store = memory::open()});
  auto const taken = std::move(n);
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested
  expect_refused("node", [&] { static_cast<void>(n.writer()); });
  expect_refused("node", [&] { n.start(); });
  expect_refused("node", [&] { n.run({}); });
  expect_refused("node", [&] { n.stop(); });
  expect_refused("node", [&] { n.stop(std::chrono::seconds{1}); });
  expect_refused("node", [&] { n.poll_once(); });
  expect_refused("node", [&] { n.purge_once(); });
  expect_refused("node", [&] { n.pause({"t"}); });
  expect_refused("node", [&] { n.resume({"t"}); });
  expect_refused("node", [&] { static_cast<void>(n.paused()); });
  expect_refused("node", [&] { n.run_until_idle(); });
  expect_refused("node", [&] { static_cast<void>(n.dead_events()); });
  expect_refused("node", [&] { static_cast<void>(n.counters()); });
  n.wake();
  EXPECT_EQ(n.incarnation(), "");
  EXPECT_FALSE(n.health().running);
  EXPECT_FALSE(n.health().healthy);
  EXPECT_EQ(n.health().reason, "this node was moved from");
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_NE(taken.incarnation(), "");
}

TEST(MovedFrom, ANodeCanBeAssignedAgain) {
  auto const table = memory::open();
  auto n = single_node({.store = table});
  auto taken = std::move(n);
  n = std::move(taken);
  EXPECT_EQ(n.run_until_idle(), 0U);
}

TEST(MovedFrom, AWriterThrows) {
  auto const table = memory::open();
  auto const n = single_node({.store = table});
  auto w = n.writer();
  auto const taken = std::move(w);
  memory::transaction tx{*table};
  // NOLINTBEGIN(bugprone-use-after-move)
  expect_refused("writer", [&] { w.write(tx, "t", "1"); });
  expect_refused("writer", [&] { w.write_all(tx, {}); });
  EXPECT_EQ(w.limits().payload_bytes, event_limits{}.payload_bytes);
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_TRUE(taken.write(tx, "t", "1"));
}

TEST(MovedFrom, AnEventIsNotWritten) {
  auto const table = memory::open();
  auto const n = single_node({.store = table});
  auto e = event::json("t", "1");
  EXPECT_TRUE(e);
  auto const taken = std::move(e);
  EXPECT_FALSE(e);  // NOLINT(bugprone-use-after-move)
  memory::transaction tx{*table};
  try {
    n.writer().write(tx, e);  // NOLINT(bugprone-use-after-move)
    FAIL() << "written";
  } catch (error const& refused) {
    EXPECT_EQ(refused.code(), errc::invalid_event);
    EXPECT_STREQ(refused.what(), "event was moved from");
  }
  EXPECT_TRUE(n.writer().write(tx, taken));
}

TEST(MovedFrom, ListenersThrow) {
  listeners l;
  auto const taken = std::move(l);
  // NOLINTBEGIN(bugprone-use-after-move)
  expect_refused("listeners", [&] { l.on("t", [](delivery const&) {}); });
  expect_refused("listeners", [&] { l.on("t", fan_out<>{}.to("a", [](delivery const&) {})); });
  expect_refused("listeners", [&] {
    l.on_batch("t", [](std::span<delivery const> d) { return std::vector<result>(d.size(), done); });
  });
  try {
    static_cast<void>(single_node({.store = memory::open(), .listeners = std::move(l)}));
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_EQ(e.field(), "listeners");
  }
  // NOLINTEND(bugprone-use-after-move)
}

TEST(MovedFrom, DeadEventsThrow) {
  dead_events d{memory::open()};
  auto const taken = std::move(d);
  // NOLINTBEGIN(bugprone-use-after-move)
  expect_refused("dead_events", [&] { static_cast<void>(d.query()); });
  expect_refused("dead_events", [&] { static_cast<void>(d.count()); });
  expect_refused("dead_events", [&] { d.replay("a"); });
  expect_refused("dead_events", [&] { d.replay_all(); });
  expect_refused("dead_events", [&] { d.discard("a"); });
  expect_refused("dead_events", [&] { d.discard_all(); });
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(taken.count(), 0U);
}

TEST(MovedFrom, ASharedCompletionAnswersToNobody) {
  auto c = completion{}.share();
  auto const taken = std::move(c);
  c(done);  // NOLINT(bugprone-use-after-move)
  taken(done);
}

TEST(DeadEvents, NeedAStore) {
  try {
    dead_events const d{nullptr};
    FAIL() << "accepted";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    EXPECT_EQ(e.field(), "store");
  }
}

}  // namespace
}  // namespace outbox
