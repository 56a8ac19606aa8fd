// kill -9 at any moment. The judge is a ledger in a file of its own, and the business table that shares the
// transactions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <iostream>
#include <map>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <random>
#include <set>
#include <thread>

#include "support/child_process.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace spi;

class Kill : public ::testing::Test {
 protected:
  void SetUp() override {
    static_cast<void>(sqlite::open(database));
    sqlite::connection{database}.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)");
  }

  std::unique_ptr<child_process> start(std::string const& mode, int life, unsigned seed, int max_crashes = 1000) {
    auto child = std::make_unique<child_process>(std::vector<std::string>{OUTBOX_FAULT_CHILD, mode, database, ledger,
                                                                          std::to_string(life), std::to_string(seed),
                                                                          std::to_string(max_crashes)});
    EXPECT_EQ(child->line(), "ready");
    return child;
  }

  std::set<std::string> orders() {
    std::set<std::string> ids;
    sqlite::connection db{database};
    sqlite3_exec(
        db.handle(), "SELECT id FROM orders",
        [](void* p, int, char** v, char**) {
          static_cast<std::set<std::string>*>(p)->insert(v[0]);
          return 0;
        },
        &ids, nullptr);
    return ids;
  }

  struct record {
    std::map<std::string, int> deliveries;               // by id
    std::map<std::pair<int, std::string>, int> by_life;  // by life and id
  };
  record read_ledger() {
    record r;
    std::ifstream in{ledger};
    char what = 0;
    int life = 0;
    for (std::string id; in >> what >> life >> id;) {
      r.deliveries[id] += 1;
      r.by_life[{life, id}] += 1;
    }
    return r;
  }

  temporary_directory dir;
  std::string database = dir / "shop.db";
  std::string ledger = dir / "ledger";
};

TEST_F(Kill, I1_I2_I3_I7_FiftyTimesAtRandomMoments) {
  auto const seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  std::mt19937 random{seed};
  // Fifty, and more where a life is too short for a commit: there must be something to lose.
  int rounds = 0;
  while (rounds < 50 || orders().size() <= 50) {
    auto const child = start("load", ++rounds, static_cast<unsigned>(random()));
    // Not to wait for anything: this is the random moment.
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 40'000});
    child->kill_hard();
  }
  auto const last = start("drain", rounds + 1, static_cast<unsigned>(random()));
  ASSERT_EQ(last->wait(), 0);

  auto const committed = orders();
  auto const seen = read_ledger();
  auto const store = sqlite::open(database);
  std::size_t duplicates = 0;
  for (auto const& id : committed) {
    auto const row = store->inspect().find(id);
    ASSERT_TRUE(row) << "I1: order " << id << " has no event";
    EXPECT_EQ(row->status, event_status::delivered) << "I1: " << id;
    EXPECT_LE(row->attempts, 10) << "I3: " << id;
    ASSERT_TRUE(seen.deliveries.contains(id)) << "I1: " << id << " is DONE and was never delivered";
    duplicates += static_cast<std::size_t>(seen.deliveries.at(id)) - 1;
  }
  for (auto const& [id, times] : seen.deliveries) EXPECT_TRUE(committed.contains(id)) << "I2: a phantom, " << id;
  for (auto const& [key, times] : seen.by_life) {
    EXPECT_EQ(times, 1) << "I7: life " << key.first << " delivered " << key.second
                        << " twice, and nothing had happened to it";
  }
  auto const counts = store->inspect().counts();
  EXPECT_EQ(counts.done, committed.size()) << "I2, I13";
  EXPECT_EQ(counts.pending() + counts.dead, 0U);
  EXPECT_GT(committed.size(), 50U) << "the load was none";
  std::cout << committed.size() << " orders, " << rounds << " kills, " << duplicates
            << " delivered twice because of a kill, 0 lost, 0 phantoms" << std::endl;
}

TEST_F(Kill, I3_AListenerThatKillsItsProcessEndsDeadAndItsNeighboursAreDelivered) {
  auto const store = sqlite::open(database);
  constexpr int neighbours = 10;
  {
    sqlite::connection db{database};
    sqlite::transaction tx{db};
    std::vector<event> events;
    for (int i = 0; i < neighbours; ++i)
      events.push_back(event::json("order.placed", "1", {.id = "good-" + std::to_string(i)}));
    events.push_back(event::json("order.placed", "1", {.id = "poison"}));
    for (int i = neighbours; i < 2 * neighbours; ++i)
      events.push_back(event::json("order.placed", "1", {.id = "good-" + std::to_string(i)}));
    std::vector<insertion> rows;
    for (auto const& e : events) rows.push_back({&e});
    store->backend().insert(join(tx), rows);
    tx.commit();
  }
  int lives = 0;
  for (int status = -1; status != 0 && lives < 10;) status = start("drain", ++lives, 1, /*max_crashes=*/3)->wait();
  EXPECT_EQ(lives, 4) << "three crashes, then one that lives";
  auto const row = store->inspect().find("poison");
  EXPECT_EQ(row->status, event_status::dead);
  EXPECT_EQ(row->crashes, 3);
  auto const seen = read_ledger();
  for (int i = 0; i < 2 * neighbours; ++i) {
    auto const id = "good-" + std::to_string(i);
    EXPECT_EQ(store->inspect().find(id)->status, event_status::delivered) << id;
    EXPECT_GE(seen.deliveries.count(id), 1U) << id;
  }
  EXPECT_FALSE(seen.deliveries.contains("poison"));
}

TEST_F(Kill, R9_AStandbyTakesOverAtOnceWhenTheFirstIsKilled) {
  auto const first = start("wait", 1, 1);
  ASSERT_EQ(first->line(), "active");
  auto const second = start("wait", 2, 1);
  // A row whose owner has an hour left: the next holder of the lock does not wait for that.
  auto const store = sqlite::open(database);
  {
    sqlite::connection db{database};
    sqlite::transaction tx{db};
    auto const e = event::json("order.placed", "1", {.id = "held"});
    insertion const row{&e, "gone/1", std::chrono::hours{1}};
    store->backend().insert(join(tx), std::span{&row, 1});
    tx.commit();
  }
  first->kill_hard();
  EXPECT_EQ(second->line(), "active");
  EXPECT_TRUE(eventually([&] { return store->inspect().find("held")->status == event_status::delivered; }));
  EXPECT_EQ(read_ledger().by_life.count({2, "held"}), 1U) << "by the one that stood by";
}

}  // namespace
}  // namespace outbox
