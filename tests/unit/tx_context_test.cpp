#include <gtest/gtest.h>

#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <thread>

namespace outbox {
namespace {

class TxContext : public ::testing::Test {
 protected:
  // A layer that knows nothing of transactions.
  void announce(std::string const& id) { box.writer().write(context, "t", "1", {.id = id}); }
  bool written(std::string const& id) { return store->inspect().find(id).has_value(); }

  std::shared_ptr<outbox::store> store = memory::open();
  node box = multi_node({.store = store, .log = nullptr});
  thread_local_context context;
};

TEST_F(TxContext, WritesJoinTheCurrentTransaction) {
  memory::transaction tx{*store};
  {
    thread_local_context::scope const current{context, tx};
    announce("a");
  }
  EXPECT_FALSE(written("a"));
  tx.commit();
  EXPECT_TRUE(written("a"));
}

TEST_F(TxContext, WithoutOneTheWriteIsRefused) {
  try {
    announce("a");
    FAIL() << "written";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::no_transaction);
  }
}

TEST_F(TxContext, AScopeEndsWithItsBlock) {
  memory::transaction tx{*store};
  { thread_local_context::scope const current{context, tx}; }
  EXPECT_THROW(announce("a"), error);
}

TEST_F(TxContext, ScopesNest) {
  memory::transaction outer{*store};
  memory::transaction inner{*store};
  thread_local_context::scope const a{context, outer};
  {
    thread_local_context::scope const b{context, inner};
    announce("inner");
  }
  announce("outer");
  inner.commit();
  EXPECT_TRUE(written("inner"));
  EXPECT_FALSE(written("outer"));
}

TEST_F(TxContext, AManagedTransactionIsCurrentWhileItLives) {
  {
    managed_transaction<memory::transaction> tx{context, *store};
    announce("kept");
    tx.commit();
    EXPECT_THROW(announce("late"), error) << "it has ended";
  }
  {
    managed_transaction<memory::transaction> const tx{context, *store};
    announce("undone");
  }
  EXPECT_TRUE(written("kept"));
  EXPECT_FALSE(written("undone"));
}

TEST_F(TxContext, ThreadsAndContextsDoNotMix) {
  memory::transaction tx{*store};
  thread_local_context::scope const current{context, tx};
  std::thread other{[&] { EXPECT_THROW(announce("a"), error); }};
  other.join();
  thread_local_context second;
  EXPECT_FALSE(second.current());
  EXPECT_TRUE(context.current());
}

}  // namespace
}  // namespace outbox
