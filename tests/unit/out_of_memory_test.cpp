// Memory runs out at each allocation of a write in turn: the write throws, and the node goes on as if it had not been.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>

#include "support/waiting.hpp"

namespace {

// Counts down the allocations of one thread, if it wants that.
thread_local int left = -1;

}  // namespace

void* operator new(std::size_t size) {
  if (left == 0) throw std::bad_alloc{};
  if (left > 0) --left;
  if (void* const p = std::malloc(size == 0 ? 1 : size)) return p;
  throw std::bad_alloc{};
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t /*size*/) noexcept { std::free(p); }

namespace outbox {
namespace {

// Two events of one key and one of another, in one transaction. Returns false if memory ran out.
bool write(outbox::store& store, writer const& to, std::string const& name, int allocations) {
  std::vector<event> all;
  for (auto const* const which : {"-1", "-2"})
    all.push_back(event::json("t", "1", {.id = name + which, .ordering_key = "k"}));
  all.push_back(event::json("t", "1", {.id = name + "-3", .ordering_key = "other"}));
  memory::transaction tx{store};
  left = allocations;
  try {
    to.write_all(tx, all);
    left = -1;
  } catch (std::bad_alloc const&) {
    left = -1;
    return false;
  }
  tx.commit();
  return true;
}

TEST(OutOfMemory, AWriteThatFailsLeavesNothingBehind) {
  auto const store = memory::open();
  tally hot;
  keyed_options o{.store = store, .log = nullptr};
  o.poll.every = std::chrono::hours{1};
  o.listeners.on("t", [&](delivery const& d) {
    if (d.path == path::hot) hot.add(d.id);
  });
  auto box = keyed(std::move(o));
  box.start();
  auto const to = box.writer();
  int failures = 0;
  while (!write(*store, to, "failed", failures)) ++failures;
  EXPECT_GT(failures, 20) << "each of its allocations failed once";
  EXPECT_TRUE(hot.reach(3)) << "the node delivers the one that did not fail";
  ASSERT_TRUE(write(*store, to, "good", -1));
  EXPECT_TRUE(hot.reach(6));
  EXPECT_TRUE(box.stop()) << "nothing is left that a stop would wait for";
  EXPECT_EQ(store->inspect().counts().done, 6U);
}

}  // namespace
}  // namespace outbox
