// The state of a table for scrapes: how often it is read, and what is known while the database hangs or fails.
#include <gtest/gtest.h>

#include <latch>
#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/spi/forwarding_store.hpp>

#include "apps/outbox/table_watch.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using outbox_tool::table_watch;

/// Does with a read what the test says.
class watched_table final : public spi::forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  spi::table_overview overview(std::uint64_t limit) override {
    last_limit = limit;
    ++reads;
    if (on_read) on_read();
    return {.pending = reads};
  }
  std::vector<parked_key> parked_keys(std::size_t limit) override {
    looks += limit;
    return std::vector<parked_key>(3);
  }
  std::function<void()> on_read;
  std::atomic<std::size_t> looks = 0;
  std::atomic<std::uint64_t> reads = 0;
  std::uint64_t last_limit = 0;
};

class TableWatch : public ::testing::Test {
 protected:
  // As a scrape does it.
  table_watch::state scrape(table_watch& w) {
    w.ask();
    w.wait_until(std::chrono::steady_clock::now() + 60s);
    return w.known();
  }
  std::shared_ptr<watched_table> table = std::make_shared<watched_table>(memory::open());
  std::atomic<steady_time> time = steady_time{} + 1h;
  table_watch::clock clock = [this] { return time.load(); };
};

TEST_F(TableWatch, ATableIsReadOnceInAWhileHoweverOftenItIsScraped) {
  table_watch w{table, clock};
  EXPECT_FALSE(w.known().up) << "nothing is known, and nothing was asked";
  EXPECT_EQ(table->reads, 0U) << "a table that is not scraped costs nothing";
  for (int i = 0; i < 5; ++i) {
    auto const s = scrape(w);
    EXPECT_EQ(s.up, true);
    ASSERT_TRUE(s.overview);
    EXPECT_EQ(s.overview->pending, 1U);
  }
  time = time.load() + table_watch::pause - 1ms;
  EXPECT_EQ(scrape(w).overview->pending, 1U);
  time = time.load() + 1ms;
  EXPECT_EQ(scrape(w).overview->pending, 2U);
  EXPECT_EQ(table->last_limit, table_watch::count_limit);
}

TEST_F(TableWatch, ATableThatFailsIsDownUntilItAnswersAgain) {
  table_watch w{table, clock};
  EXPECT_TRUE(scrape(w).overview);
  table->on_read = [] { throw error{errc::unavailable, "away"}; };
  time = time.load() + table_watch::pause;
  auto s = scrape(w);
  EXPECT_EQ(s.up, false);
  EXPECT_FALSE(s.overview) << "old figures would look as if all were well";
  table->on_read = nullptr;
  EXPECT_EQ(scrape(w).up, false) << "it is not asked more often because it failed";
  time = time.load() + table_watch::pause;
  s = scrape(w);
  EXPECT_EQ(s.up, true);
  EXPECT_TRUE(s.overview);
}

TEST_F(TableWatch, ParkedKeysAreCountedOnAKeyedTable) {
  table_watch w{table, clock};
  EXPECT_EQ(scrape(w).parked, 0U) << "the table is not keyed, and is not asked for any";
  EXPECT_EQ(table->looks, 0U);
  table->set_keyed(true);
  time = time.load() + table_watch::pause;
  EXPECT_EQ(scrape(w).parked, 3U);
  EXPECT_EQ(table->looks, table_watch::most_parked);
  table->on_read = [] { throw error{errc::unavailable, "away"}; };
  time = time.load() + table_watch::pause;
  EXPECT_FALSE(scrape(w).parked) << "old figures would look as if they were known";
}

TEST_F(TableWatch, AScrapeDoesNotWaitForATableThatHangs) {
  std::latch began{1};
  std::latch gate{1};
  table_watch w{table, clock};
  scrape(w);
  table->on_read = [&] {
    began.count_down();
    gate.wait();
  };
  time = time.load() + table_watch::pause;
  EXPECT_TRUE(w.ask());
  began.wait();
  w.wait_until(std::chrono::steady_clock::now());  // a scrape whose time is over
  EXPECT_EQ(w.known().overview->pending, 1U) << "what is known, for a while";
  time = time.load() + table_watch::patience + 1ms;
  EXPECT_FALSE(w.ask()) << "so the next scrape waits for nothing";
  EXPECT_EQ(w.known().up, false);
  EXPECT_FALSE(w.known().overview);
  EXPECT_EQ(table->reads, 2U) << "a read that hangs is not sent again";
  gate.count_down();
  w.wait_until(std::chrono::steady_clock::now() + 60s);
  EXPECT_EQ(w.known().up, true);
  EXPECT_EQ(w.known().overview->pending, 2U);
}

TEST_F(TableWatch, OldFiguresAreNotShown) {
  std::latch began{1};
  std::latch gate{1};
  table_watch w{table, clock};
  scrape(w);
  time = time.load() + table_watch::age_limit + 1ms;  // no scrape for a while, and then one that does not wait
  table->on_read = [&] {
    began.count_down();
    gate.wait();
  };
  w.ask();
  began.wait();
  EXPECT_FALSE(w.known().up) << "not known yet";
  EXPECT_FALSE(w.known().overview);
  gate.count_down();
}

TEST_F(TableWatch, AStoreWithoutAnOverviewIsNotDown) {
  table->on_read = [] { throw error{errc::unsupported, "no overview"}; };
  table_watch w{table, clock};
  EXPECT_FALSE(scrape(w).up);
  EXPECT_FALSE(scrape(w).overview);
}

}  // namespace
}  // namespace outbox
