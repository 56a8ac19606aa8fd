// Writing to a store that needs no transaction.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/testing.hpp>
#include <thread>

#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NoTransaction : public ::testing::Test {
 protected:
  NoTransaction() {
    multi_node_options o{.store = store, .log = nullptr};
    o.poll.every = 1h;
    o.hook = hook;
    o.listeners.on("t", [this](delivery const& d) {
      if (d.path == path::hot) hot.add(d.id);
      seen.add(d.id);
    });
    box.emplace(multi_node(std::move(o)));
    box->start();
  }
  event made(std::string id) { return event::json("t", "1", {.id = std::move(id)}); }
  template <class F>
  error thrown_by(F&& f) {
    try {
      f();
    } catch (error const& e) {
      return e;
    }
    throw std::runtime_error{"nothing was thrown"};
  }

  std::atomic<memory::commit_fate> next = memory::commit_fate::ok;
  std::shared_ptr<outbox::store> store = memory::open(
      {.at_commit = [this] { return next.exchange(memory::commit_fate::ok); }, .requires_transaction = false});
  std::shared_ptr<testing::recording_hook> hook = std::make_shared<testing::recording_hook>();
  tally seen, hot;
  std::optional<node> box;
};

TEST_F(NoTransaction, AnEventIsInTheStoreWhenWriteReturnsAndGoesHot) {
  EXPECT_EQ(box->writer().write(no_transaction, "t", "1", {.id = "a"}).str(), "a");
  EXPECT_TRUE(store->inspect().find("a"));
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(hot.of("a"), 1);
  EXPECT_TRUE(eventually([&] { return store->inspect().counts().done == 1; }));
}

TEST_F(NoTransaction, SeveralEventsAreOneWrite) {
  std::vector<event> const events{made("a"), made("b"), made("c")};
  EXPECT_EQ(box->writer().write_all(no_transaction, events).size(), 3U);
  ASSERT_TRUE(seen.reach(3));
  EXPECT_EQ(hot.total(), 3U);
  auto const again = std::vector<event>{made("d"), made("b")};
  EXPECT_EQ(thrown_by([&] { box->writer().write_all(no_transaction, again); }).code(), errc::duplicate_event);
  EXPECT_FALSE(store->inspect().find("d")) << "all or none";
}

TEST_F(NoTransaction, TheHookIsToldOfTheWriteAndOfTheCommit) {
  box->writer().write(no_transaction, made("a"));
  EXPECT_THAT(hook->written(), ElementsAre("a"));
  EXPECT_THAT(hook->committed(), ElementsAre("a"));
  next = memory::commit_fate::refused;
  EXPECT_THROW(box->writer().write(no_transaction, made("b")), error);
  EXPECT_THAT(hook->written(), ElementsAre("a"));
  EXPECT_THAT(hook->committed(), ElementsAre("a"));
  EXPECT_THAT(hook->rolled_back(), IsEmpty()) << "nothing was written that could be taken back";
}

TEST_F(NoTransaction, I2_ARefusedWriteIsNeverDelivered) {
  next = memory::commit_fate::refused;
  EXPECT_EQ(thrown_by([&] { box->writer().write(no_transaction, made("refused")); }).code(), errc::store_failure);
  box->writer().write(no_transaction, made("after"));
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(seen.of("refused"), 0);
  box->stop();
  EXPECT_EQ(box->counters().held, 0U) << "its slot is free again";
}

// The answer was lost: the event is delivered if it is there, by the poller, and it is not delivered if it is not.
TEST_F(NoTransaction, I1_I2_AWriteInDoubtIsLeftToThePoller) {
  next = memory::commit_fate::lost_applied;
  EXPECT_TRUE(thrown_by([&] { box->writer().write(no_transaction, made("there")); }).in_doubt());
  next = memory::commit_fate::lost_undone;
  EXPECT_TRUE(thrown_by([&] { box->writer().write(no_transaction, made("gone")); }).in_doubt());
  EXPECT_THAT(hook->committed(), IsEmpty());
  ASSERT_TRUE(seen.reach(1));
  EXPECT_EQ(seen.of("there"), 1);
  EXPECT_EQ(hot.total(), 0U);
  box->stop();
  EXPECT_EQ(seen.total(), 1U);
}

TEST_F(NoTransaction, ATransactionWorksToo) {
  memory::transaction tx{*store};
  box->writer().write(tx, made("a"));
  EXPECT_FALSE(store->inspect().find("a"));
  tx.commit();
  EXPECT_TRUE(seen.reach(1));
  EXPECT_EQ(thrown_by([&] { box->writer().write(tx, made("late")); }).code(), errc::no_transaction)
      << "a transaction that has ended is a mistake, also here";
}

// A memory store without a dispatch lock, as a store behind a pooler is.
TEST(NoDispatchLock, ANodeThatNeedsOneDoesNotStart) {
  auto const store = memory::open({.dispatch_lock = lock_kind::none});
  auto const refused = [&](auto&& start) {
    try {
      start();
      ADD_FAILURE() << "it has started";
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::unsupported);
      EXPECT_THAT(e.what(), HasSubstr("needs a dispatch lock"));
    }
    EXPECT_THAT(store->inspect().nodes(), IsEmpty());
  };
  refused([&] { single_node({.store = store, .log = nullptr}).start(); });
  refused([&] { ordered({.store = store, .log = nullptr}).start(); });
  refused([&] { single_node({.store = store, .log = nullptr}).run_until_idle(); });
  auto n = multi_node({.store = store, .log = nullptr});
  EXPECT_NO_THROW(n.start());
}

// A write by a caller that has no node, as by another program.
TEST(PushedChanges, ANodeHearsOfAWriteThatIsNotItsOwn) {
  auto const store = memory::open();
  tally seen;
  multi_node_options o{.store = store, .log = nullptr};
  o.poll.every = 1h;
  o.listeners.on("t", [&](delivery const& d) { seen.add(d.id); });
  auto n = multi_node(std::move(o));
  n.start();
  auto w = writer_only({.store = store, .log = nullptr});
  auto const put = [&](std::string id) {
    memory::transaction tx{*store};
    w.writer().write(tx, "t", "1", {.id = std::move(id)});
    tx.commit();
  };
  put("a");
  EXPECT_TRUE(seen.reach(1));
  put("b");
  EXPECT_TRUE(seen.reach(2));
  std::jthread others{[&](std::stop_token const& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) put("e" + std::to_string(i));
  }};
  ASSERT_TRUE(seen.reach(10));
  n.stop();  // while changes are pushed
}

}  // namespace
}  // namespace outbox
