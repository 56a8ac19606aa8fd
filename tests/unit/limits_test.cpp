// Limits on the calls of a route that run at the same time.
#include "stepwise_node.hpp"

namespace outbox {
namespace {

using InFlight = StepwiseNode;

TEST_F(InFlight, ALimitedRouteLeavesTheSlotsToOthers) {
  std::vector<completion> open;
  l.on("slow", [&](delivery const&, completion c) { open.push_back(std::move(c)); },
       {.timeout = 2s, .max_in_flight = 1});
  l.on("t", [](delivery const&) {});
  single_node_options o;
  o.poll.batch = 4;
  o.queue = {.hot = 8, .cold = 8};
  make(std::move(o));
  auto elsewhere = writer_only({.store = table, .log = nullptr, .clock = clock});
  auto const put = [&](std::string const& id, std::string const& type) {
    memory::transaction tx{*table};
    elsewhere.writer().write(tx, type, "1", {.id = id});
    tx.commit();
  };
  for (int i = 0; i < 50; ++i) put("slow" + std::to_string(i), "slow");
  for (int i = 0; i < 20; ++i) write("hot" + std::to_string(i), "slow");
  put("x", "t");
  n->run_until_idle();
  EXPECT_EQ(row("x").status, event_status::delivered) << "although seventy older ones wait";
  EXPECT_LE(n->counters().held, 8U);
  // And the slow ones go on, one at a time.
  for (std::size_t i = 0; i < 70; ++i) {
    ASSERT_EQ(open.size(), i + 1);
    open.back()(done);
    n->run_until_idle();
  }
  EXPECT_EQ(table->inspect().counts().done, 71U);
  EXPECT_EQ(n->counters().timed_out, 0U);
}

TEST_F(InFlight, ARouteHasItsLimitAndOthersGoOn) {
  std::vector<completion> open;
  std::size_t most = 0;
  l.on("slow",
       [&](delivery const&, completion c) {
         open.push_back(std::move(c));
         most = std::max(most, open.size());
       },
       {.max_in_flight = 2});
  l.on("t", [](delivery const&) {});
  make();
  for (auto const* id : {"a", "b", "c"}) write(id, "slow");
  write("x");
  n->run_until_idle();
  EXPECT_EQ(open.size(), 2U);
  EXPECT_EQ(row("x").status, event_status::delivered) << "not behind c";
  open.front()(done);
  open.erase(open.begin());
  n->run_until_idle();
  EXPECT_EQ(open.size(), 2U);
  for (auto& c : open) c(done);
  open.clear();
  n->run_until_idle();
  EXPECT_EQ(table->inspect().counts().done, 4U);
  EXPECT_EQ(most, 2U);
}

TEST_F(InFlight, ATimedOutCallGivesItsPlaceBack) {
  std::vector<completion> open;
  l.on("slow", [&](delivery const&, completion c) { open.push_back(std::move(c)); },
       {.timeout = 1s, .max_in_flight = 1});
  make();
  write("a", "slow");
  write("b", "slow");
  n->run_until_idle();
  ASSERT_THAT(open, SizeIs(1));
  clock->advance(1s);
  n->run_until_idle();
  clock->advance(1s);  // b waited in the queue as long as its own timeout and was given back
  n->run_until_idle();
  EXPECT_GE(open.size(), 2U);
}

TEST_F(InFlight, ZeroIsRefused) {
  EXPECT_THROW(l.on("t", [](delivery const&) {}, {.max_in_flight = 0}), error);
}

}  // namespace
}  // namespace outbox
