// Several claimers of one file at once: the events of a key are in one claim only, and are delivered in the order of
// writing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "support/child_process.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

using namespace spi;
using namespace std::chrono_literals;

// What the claimers did, in the order in which it was possible: a key is noted as held behind the claim, and as free
// before the settlement.
class key_ledger {
 public:
  void claimed(std::vector<claimed_row> const& rows) {
    std::lock_guard const lock{mutex_};
    std::map<std::string, std::int64_t> last;
    for (auto const& r : rows) {
      auto const [held, first] = holder_.try_emplace(r.key, r.handle.token);
      EXPECT_EQ(held->second, r.handle.token) << r.key << " is in two claims";
      auto const [before, first_of_key] = last.try_emplace(r.key, r.seq);
      EXPECT_TRUE(first_of_key || before->second < r.seq) << r.key << " is out of order in a claim";
      before->second = r.seq;
    }
  }
  void finished(claimed_row const& r) {
    std::lock_guard const lock{mutex_};
    EXPECT_LT(done_[r.key], r.seq) << r.key << " is delivered out of order";
    done_[r.key] = r.seq;
    ++count_;
  }
  void gave_up(std::vector<claimed_row> const& rows) {
    std::lock_guard const lock{mutex_};
    for (auto const& r : rows) holder_.erase(r.key);
  }
  std::size_t count() {
    std::lock_guard const lock{mutex_};
    return count_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, owner_token> holder_;
  std::map<std::string, std::int64_t> done_;
  std::size_t count_ = 0;
};

// Ends rows as a node does: of each key in order, and what is behind one that fails is released.
std::vector<settlement> outcomes(std::vector<claimed_row> const& rows, key_ledger& ledger, std::mt19937& random) {
  std::vector<settlement> items;
  std::map<std::string, bool> broken;
  for (auto const& r : rows) {
    auto& s = items.emplace_back(settlement{.row = r.handle});
    bool& b = broken[r.key];
    auto const luck = random() % 12;
    if (b) {
      s.outcome = outcome::release;
    } else if (luck < 2) {
      b = true;
      s.outcome = luck == 0 ? outcome::retry : outcome::defer;
      s.delay = std::chrono::milliseconds{random() % 3};
      s.error = "at random";
    } else {
      if (luck == 2) s.outcome = outcome::dead;
      s.key = r.key;
      s.seq = r.seq;
      ledger.finished(r);
    }
  }
  return items;
}

TEST(KeyedStress, StoresThatClaimAtTheSameTimeNeverShareAKey) {
  temporary_directory const dir;
  auto const path = dir / "a.db";
  constexpr int claimers = 4;
  constexpr int writers = 2;
  constexpr int each = 400;
  constexpr int keys = 7;
  sqlite::open(path)->backend().set_keyed(true);
  key_ledger ledger;
  std::atomic<std::size_t> noted = 0;
  std::vector<std::jthread> threads;
  for (int w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      auto const store = sqlite::open(path, {.busy_timeout = 60s});
      sqlite::connection db{path, 60s};
      for (int i = 0; i < each; ++i) {
        sqlite::transaction tx{db};
        auto const e = event::json("t", "1",
                                   {.id = std::to_string(w) + "-" + std::to_string(i),
                                    .ordering_key = "k" + std::to_string((i / 3 + w) % keys)});
        insertion const row{&e};
        store->backend().insert(join(tx), std::span{&row, 1});
        tx.commit();
      }
    });
  }
  for (int n = 0; n < claimers; ++n) {
    threads.emplace_back([&, n] {
      std::mt19937 random{static_cast<unsigned>(n)};
      auto const store = sqlite::open(path, {.busy_timeout = 60s});
      for (int i = 0; ledger.count() < writers * each && !::testing::Test::HasFailure(); ++i) {
        auto const reply = store->backend().claim({.token = "n" + std::to_string(n) + "/" + std::to_string(i),
                                                   .limit = 1 + random() % 40,
                                                   .lease = 1h,
                                                   .keyed = true,
                                                   .run = 1 + random() % 20});
        noted += reply.noted;
        if (reply.rows.empty()) {
          std::this_thread::sleep_for(1ms);
          continue;
        }
        ledger.claimed(reply.rows);
        auto const items = outcomes(reply.rows, ledger, random);
        ledger.gave_up(reply.rows);
        for (auto const applied : store->backend().settle(items).applied) EXPECT_TRUE(applied);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(ledger.count(), static_cast<std::size_t>(writers * each));
  EXPECT_EQ(sqlite::open(path)->inspect().counts().pending(), 0U);
  EXPECT_GT(noted, 0U) << "no claim had to note anything";
}

TEST(KeyedStress, I5_ThreeProcessesKeepTheOrderOfEachKey) {
  temporary_directory const dir;
  auto const database = dir / "shop.db";
  auto const ledger = dir / "ledger";
  auto const store = sqlite::open(database);
  constexpr int processes = 3;
  constexpr int events = 150;                                          // per thread
  constexpr std::uint64_t committed = processes * 2 * events * 4 / 5;  // every fifth is rolled back
  std::vector<std::unique_ptr<child_process>> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(std::make_unique<child_process>(
        std::vector<std::string>{OUTBOX_KEYED_STRESS_CHILD, database, ledger, "p" + std::to_string(i),
                                 std::to_string(events), std::to_string(committed)}));
  }
  std::uint64_t hot = 0, cold = 0, lost = 0, healed = 0;
  for (auto const& child : children) {
    std::istringstream in{child->line()};
    std::uint64_t h = 0, c = 0, l = 0, f = 0;
    in >> h >> c >> l >> f;
    EXPECT_TRUE(in);
    EXPECT_EQ(child->wait(), 0);
    hot += h;
    cold += c;
    lost += l;
    healed += f;
  }
  std::map<std::string, std::pair<std::string, std::int64_t>> places;
  for (auto const& r : store->backend().list({}, list_order::oldest_first, 10'000)) {
    places[r.event.id()] = {key_of(r.event), r.seq};
  }
  ASSERT_EQ(places.size(), committed);
  std::map<std::string, std::string> running;  // by key
  std::map<std::string, std::int64_t> last;
  std::size_t ends = 0;
  std::ifstream in{ledger};
  for (std::string what, id; in >> what >> id;) {
    auto const& [key, seq] = places.at(id);
    if (what == "S") {
      EXPECT_EQ(running[key], "") << key << ": " << id << " began while another one ran";
      EXPECT_GT(seq, last[key]) << key << ": " << id << " began behind one that was written later";
      running[key] = id;
      continue;
    }
    running[key].clear();
    if (what == "F") continue;
    last[key] = seq;
    ++ends;
  }
  EXPECT_EQ(ends, committed) << "each once";
  EXPECT_EQ(lost, 0U);
  EXPECT_EQ(healed, 0U) << "a key had stopped";
  EXPECT_GT(hot, 0U) << "the hot path was not used";
  EXPECT_GT(cold, 0U) << "the pollers were not used";
}

}  // namespace
}  // namespace outbox
