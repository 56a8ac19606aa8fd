// Processes that fork while a node works.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <outbox/outbox.hpp>
#include <outbox/spi/store.hpp>
#include <outbox/sqlite.hpp>
#include <thread>

#include "core/base/fork_guard.hpp"
#include "support/change_counter.hpp"
#include "support/forked.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

TEST(ForkGuard, AChildGetsADeadSocketInPlaceOfTheDescriptor) {
  int const fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  auto const forks = core::fork_guard::forks();
  {
    core::fork_guard const guard{fd};
    EXPECT_EQ(in_child([&] {
                struct ::stat s {};
                bool const dead = guard.in_child() && ::fstat(fd, &s) == 0 && S_ISSOCK(s.st_mode);
                return dead && ::send(fd, "x", 1, MSG_NOSIGNAL) < 0 ? 0 : 1;
              }),
              0);
    EXPECT_FALSE(guard.in_child());
  }
  EXPECT_EQ(in_child([&] { return ::write(fd, "x", 1) == 1 ? 0 : 1; }), 0) << "without its guard it is shared";
  EXPECT_EQ(core::fork_guard::forks(), forks + 2);
  EXPECT_EQ(::write(fd, "x", 1), 1);
  ::close(fd);
}

class SqliteFork : public ::testing::Test {
 protected:
  node make_node() {
    single_node_options o{.store = sqlite::open(path), .log = nullptr};
    o.poll.every = 20ms;
    o.lease.duration = 1h;
    o.listeners.on("t", [this](delivery const& d) { seen.add(d.id); });
    return single_node(std::move(o));
  }
  void commit(writer const& w, std::string const& id) {
    sqlite::connection db{path};
    sqlite::transaction tx{db};
    w.write(tx, "t", "1", {.id = id});
    tx.commit();
  }

  temporary_directory dir;
  std::string path = dir / "shop.db";
  tally seen;
};

TEST_F(SqliteFork, AChildDoesNotKeepTheLockOfANodeThatDied) {
  orphan const child{[&] {
    auto n = std::make_unique<node>(make_node());
    n->run_until_idle();  // takes the lock
    return n;
  }};
  auto n = make_node();
  n.start();
  EXPECT_TRUE(eventually([&] { return n.health().active; }));
  EXPECT_TRUE(child.alive());
}

TEST_F(SqliteFork, AChildThatDropsTheLockDoesNotGiveItBack) {
  auto const store = sqlite::open(path);
  auto lock = store->backend().try_dispatch_lock("n", 30s);
  ASSERT_TRUE(lock);
  EXPECT_EQ(in_child([&] {
              bool const held = lock->held();
              lock.reset();
              return held ? 1 : 0;
            }),
            0)
      << "the child thinks that it has the lock";
  EXPECT_TRUE(lock->held());
  EXPECT_FALSE(sqlite::open(path)->backend().try_dispatch_lock("m", 30s)) << "it is free";
  lock.reset();
  EXPECT_TRUE(sqlite::open(path)->backend().try_dispatch_lock("m", 30s));
}

// Its engine has no threads, and gives out the same tokens as its parent's.
TEST_F(SqliteFork, I1_I7_EventsThatAChildWritesAreLeftToThePoller) {
  auto n = make_node();
  n.run_until_idle();
  commit(n.writer(), "before");
  ASSERT_NE(sqlite::open(path)->inspect().find("before")->locked_by, "") << "the parent delivers its own";
  auto const w = n.writer();
  ASSERT_EQ(in_child([&] {
              commit(w, "child");
              return 0;
            }),
            0);
  auto const row = sqlite::open(path)->inspect().find("child");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->locked_by, "") << "no node would deliver a row that the child's engine owns";
  commit(w, "after");
  n.run_until_idle();
  for (auto const* id : {"before", "child", "after"}) {
    EXPECT_EQ(seen.of(id), 1) << id;
    EXPECT_EQ(sqlite::open(path)->inspect().find(id)->crashes, 0) << id;
  }
}

// The thread that watches the file is not there, and what it shares with others may be locked for ever.
TEST_F(SqliteFork, AChildHearsOfNoChangeAndEndsItsSubscriptionAtOnce) {
  if (!may_fork_beside_threads) GTEST_SKIP() << "the sanitizer does not survive a fork beside threads";
  auto const store = sqlite::open(path);
  auto n = make_node();
  n.run_until_idle();
  auto const w = n.writer();
  auto heard = std::make_unique<change_counter>(*store);
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(in_child([&] {
                auto const before = heard->count();
                commit(w, new_event_id());
                bool const told = heard->count() != before;
                heard.reset();
                return told ? 1 : 0;
              }),
              0);
  }
  auto const before = heard->count();
  commit(w, "parent");
  EXPECT_TRUE(eventually([&] { return heard->count() > before; })) << "the parent hears as before";
}

// What a lock of another thread guards at the moment of the fork stays locked in the child for ever.
TEST_F(SqliteFork, AChildIsNotHeldUpByWhatAnotherThreadOfTheParentDoes) {
  if (!may_fork_beside_threads) GTEST_SKIP() << "the sanitizer does not survive a fork beside threads";
  auto n = make_node();
  n.run_until_idle();
  auto const w = n.writer();
  std::jthread busy{[&](std::stop_token const& stop) {
    while (!stop.stop_requested()) {
      static_cast<void>(new_event_id());
      static_cast<void>(n.counters());  // takes the engine's lock
    }
  }};
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(in_child([&] {
                commit(w, new_event_id());
                return 0;
              }),
              0);
  }
  busy.request_stop();
  busy.join();
  n.run_until_idle();
  EXPECT_EQ(seen.total(), 50U);
}

// A clock of the application is called while the store is inside SQLite.
class forking_clock final : public clock {
 public:
  instant now() const noexcept override {
    if (fork && in_child([] { return 0; }) == 0) ++forks;
    return machine_clock()->now();
  }
  steady_time steady() const noexcept override { return machine_clock()->steady(); }

  std::atomic<bool> fork = false;
  mutable std::atomic<int> forks = 0;
};

TEST_F(SqliteFork, AForkInsideTheStoreDoesNotWaitForItself) {
  if (!may_fork_beside_threads) GTEST_SKIP() << "the sanitizer does not survive a fork beside threads";
  auto const time = std::make_shared<forking_clock>();
  auto const store = sqlite::open(path, {.clock = time});
  time->fork = true;
  {
    auto const claims = [&](std::string const& token) {
      for (int i = 0; i < 20; ++i) {
        EXPECT_THAT(store->backend().claim({.token = token + std::to_string(i), .lease = 30s}).rows, IsEmpty());
      }
    };
    std::jthread const other{claims, "n/1"};
    claims("n/2");
  }
  EXPECT_GE(time->forks, 40);
}

TEST_F(SqliteFork, AForkDoesNotWaitForAStoreThatWaitsForALock) {
  if (!may_fork_beside_threads) GTEST_SKIP() << "the sanitizer does not survive a fork beside threads";
  auto const store = sqlite::open(path, {.busy_timeout = 60s});
  sqlite::connection db{path};
  db.execute("BEGIN IMMEDIATE");
  auto waits = std::async(std::launch::async, [&] { store->backend().retire("n"); });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(in_child([] { return 0; }), 0);
    EXPECT_EQ(waits.wait_for(1ms), std::future_status::timeout) << "the lock is held";
  }
  db.execute("ROLLBACK");
  EXPECT_NO_THROW(waits.get());
}

// The locks of SQLite are inherited too: a fork waits until the store's threads hold none.
TEST_F(SqliteFork, AChildIsNotHeldUpByANodeThatWorks) {
  if (!may_fork_beside_threads) GTEST_SKIP() << "the sanitizer does not survive a fork beside threads";
  auto n = make_node();
  n.start();
  auto const w = n.writer();
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(in_child([&] {
                commit(w, new_event_id());
                return 0;
              }),
              0);
  }
  EXPECT_TRUE(eventually([&] { return seen.total() >= 100U; }));
}

}  // namespace
}  // namespace outbox
