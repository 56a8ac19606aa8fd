// Processes that fork while a node works.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <outbox/outbox.hpp>
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
  if (!may_fork_beside_threads) GTEST_SKIP() << "the sanitizer's allocator does not survive a fork";
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
  if (!may_fork_beside_threads) GTEST_SKIP() << "the sanitizer's allocator does not survive a fork";
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

// The locks of SQLite are inherited too: a fork waits until the store's threads hold none.
TEST_F(SqliteFork, AChildIsNotHeldUpByANodeThatWorks) {
  if (!may_fork_beside_threads) GTEST_SKIP() << "the sanitizer's allocator does not survive a fork";
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
