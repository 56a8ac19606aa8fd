// Several processes on one file, hot path and pollers all running, listeners that answer at random: nothing fails, so
// nothing is lost and nothing is delivered twice.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <outbox/sqlite.hpp>
#include <sstream>

#include "support/child_process.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

struct printed_counters {
  std::uint64_t hot = 0, cold = 0, delivered = 0, failed = 0, deferred = 0, dead = 0, settled = 0, released = 0,
                lost = 0, unconfirmed = 0, held = 0;

  explicit printed_counters(std::string const& line) {
    std::istringstream in{line};
    in >> hot >> cold >> delivered >> failed >> deferred >> dead >> settled >> released >> lost >> unconfirmed >> held;
    EXPECT_TRUE(in) << "'" << line << "'";
  }
};

TEST(Stress, I1_I2_I7_I13_ThreeProcessesOnOneFile) {
  temporary_directory const dir;
  auto const database = dir / "shop.db";
  auto const ledger = dir / "ledger";
  auto const store = sqlite::open(database);
  constexpr int processes = 3;
  constexpr int events = 200;                                          // per thread
  constexpr std::uint64_t committed = processes * 2 * events * 4 / 5;  // every fifth is rolled back
  std::vector<std::unique_ptr<child_process>> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(std::make_unique<child_process>(
        std::vector<std::string>{OUTBOX_STRESS_CHILD, database, ledger, "p" + std::to_string(i), std::to_string(events),
                                 std::to_string(committed)}));
  }
  std::uint64_t hot = 0, cold = 0, delivered = 0, dead = 0;
  for (auto const& child : children) {
    printed_counters const c{child->line()};
    EXPECT_EQ(child->wait(), 0);
    EXPECT_EQ(c.hot + c.cold, c.settled + c.released + c.lost + c.unconfirmed + c.held) << "I13";
    EXPECT_EQ(c.settled, c.delivered + c.failed + c.deferred + c.dead) << "I13";
    EXPECT_EQ(c.lost, 0U) << "I7";
    hot += c.hot;
    cold += c.cold;
    delivered += c.delivered;
    dead += c.dead;
  }
  std::map<std::string, int> ends;
  std::uint64_t done_lines = 0;
  std::ifstream in{ledger};
  for (std::string what, id; in >> what >> id; done_lines += what == "D") ends[id] += 1;
  for (auto const& [id, times] : ends) EXPECT_EQ(times, 1) << "I7: " << id << " was finished twice";
  EXPECT_EQ(ends.size(), committed) << "I1, I2";
  auto const counts = store->inspect().counts();
  EXPECT_EQ(counts.done + counts.dead, committed) << "I13";
  EXPECT_EQ(counts.done, delivered);
  EXPECT_EQ(counts.done, done_lines);
  EXPECT_EQ(counts.dead, dead);
  EXPECT_EQ(counts.pending(), 0U);
  EXPECT_GT(hot, 0U) << "the hot path was not used";
  EXPECT_GT(cold, 0U) << "the pollers were not used";
}

}  // namespace
}  // namespace outbox
