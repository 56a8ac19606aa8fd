// Processes that fork while a store is open.
#include "outbox_fixture.hpp"
#include "support/forked.hpp"

namespace outbox {
namespace {

class RedisFork : public RedisOutbox {};

TEST_F(RedisFork, AChildThatDropsTheLockDoesNotGiveItBack) {
  auto o = options();
  o.notify = false;
  auto const s = redis::open(server.url(), o);
  auto lock = s->backend().try_dispatch_lock("n", 30s);
  ASSERT_TRUE(lock);
  EXPECT_EQ(in_child([&] {
              bool const held = lock->held();
              lock.reset();
              return held ? 1 : 0;
            }),
            0)
      << "the child thinks that it has the lock";
  EXPECT_TRUE(lock->held());
  EXPECT_TRUE(lock->renew());
  EXPECT_FALSE(s->backend().try_dispatch_lock("m", 30s)) << "it is free";
}

// It would speak to the server in the middle of the parent's answers.
TEST_F(RedisFork, AChildMakesConnectionsOfItsOwn) {
  auto o = options();
  o.notify = false;
  auto const s = redis::open(server.url(), o);
  put(*s, "parent");
  EXPECT_EQ(in_child([&] {
              put(*s, "child");
              return static_cast<int>(s->inspect().counts().pending());
            }),
            2);
  EXPECT_THAT(claim(*s), UnorderedElementsAre("parent", "child"));
}

}  // namespace
}  // namespace outbox
