// Processes that fork while a node works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/outbox.hpp>
#include <outbox/postgres.hpp>

#include "support/forked.hpp"
#include "support/postgres_database.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;

class PostgresFork : public ::testing::Test {
 protected:
  node make_node() {
    single_node_options o{.store = db.open(), .log = nullptr};
    o.poll.every = 20ms;
    o.listeners.on("t", [](delivery const&) {});
    return single_node(std::move(o));
  }

  postgres_database db;
};

TEST_F(PostgresFork, AChildDoesNotKeepTheLockOfANodeThatDied) {
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

// It would speak to the server in the parent's session.
TEST_F(PostgresFork, AChildThatDropsTheLockDoesNotGiveItBack) {
  auto const store = db.open();
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
  EXPECT_EQ(lock->expire_others(), 0U) << "its session answers";
  EXPECT_FALSE(db.open()->backend().try_dispatch_lock("m", 30s)) << "it is free";
  lock.reset();
  EXPECT_TRUE(db.open()->backend().try_dispatch_lock("m", 30s));
}

}  // namespace
}  // namespace outbox
