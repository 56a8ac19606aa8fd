// Dead events that park their key, and what discarding them does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>

#include <outbox/spi/forwarding_store.hpp>

namespace outbox {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DeadEvents : public ::testing::Test {
 protected:
  // A keyed node that makes dead what `kills` names.
  node make_node() {
    keyed_options o{.store = table, .log = nullptr};
    o.listeners.on("t", [this](delivery const& d) -> result {
      if (kills.contains(d.id)) return dead{"rejected"};
      delivered.push_back(d.id);
      return done;
    });
    return keyed(std::move(o));
  }
  void write(node& n, std::string const& id, std::string const& key) {
    memory::transaction tx{*table};
    n.writer().write(tx, "t", "{}", {.id = id, .ordering_key = key});
    tx.commit();
  }
  row_view row(std::string const& id) { return table->inspect().find(id).value(); }

  std::shared_ptr<store> table = memory::open();
  std::set<std::string> kills;
  std::vector<std::string> delivered;
};

TEST_F(DeadEvents, ADiscardedEventLetsThoseBehindItGoOn) {
  auto n = make_node();
  n.run_until_idle();
  kills = {"a"};
  for (auto const* id : {"a", "b", "c"}) write(n, id, "k");
  write(n, "x", "other");
  n.run_until_idle();
  ASSERT_THAT(delivered, ElementsAre("x"));
  EXPECT_TRUE(n.dead_events().discard("a"));
  n.run_until_idle();
  EXPECT_THAT(delivered, ElementsAre("x", "b", "c"));
  EXPECT_EQ(row("a").status, event_status::dead) << "it stays what it is";
  EXPECT_EQ(row("a").blocked, std::nullopt);
  EXPECT_FALSE(n.dead_events().discard("a")) << "it stands in no order any more";
}

TEST_F(DeadEvents, ADiscardedEventIsPurgedLikeAnyDeadEvent) {
  auto n = make_node();
  n.run_until_idle();
  kills = {"a"};
  write(n, "a", "k");
  n.run_until_idle();
  EXPECT_EQ(table->backend().purge({.limit = 10}), 0U) << "without it, what it holds back would be delivered";
  EXPECT_TRUE(n.dead_events().discard("a"));
  EXPECT_EQ(table->backend().purge({.limit = 10}), 1U);
}

TEST_F(DeadEvents, ADiscardedEventThatIsReplayedRunsBesideTheOrder) {
  auto n = make_node();
  n.run_until_idle();
  kills = {"a", "b"};
  for (auto const* id : {"a", "b"}) write(n, id, "k");
  n.run_until_idle();
  ASSERT_TRUE(n.dead_events().discard("a"));
  n.run_until_idle();
  ASSERT_EQ(row("b").status, event_status::dead) << "it parks the key now";
  kills.clear();
  EXPECT_TRUE(n.dead_events().replay("a"));
  n.run_until_idle();
  EXPECT_THAT(delivered, ElementsAre("a")) << "the parked key does not hold it up";
  EXPECT_EQ(row("a").blocked, std::nullopt);
}

TEST_F(DeadEvents, OnlyADeadEventInAnOrderIsDiscarded) {
  auto n = make_node();
  n.run_until_idle();
  kills = {"none"};
  memory::transaction tx{*table};
  n.writer().write(tx, "t", "{}", {.id = "none"});
  tx.commit();
  n.run_until_idle();
  ASSERT_EQ(row("none").status, event_status::dead);
  auto const dead = n.dead_events();
  EXPECT_FALSE(dead.discard("none")) << "it has no key";
  EXPECT_FALSE(dead.discard("nobody"));
  write(n, "a", "k");
  EXPECT_FALSE(dead.discard("a")) << "it is pending";
  EXPECT_EQ(dead.discard_all(), 0U);
}

TEST_F(DeadEvents, AllThatMatchAreDiscardedInBatches) {
  auto n = make_node();
  n.run_until_idle();
  for (int i = 0; i < 7; ++i) {
    auto const id = "e" + std::to_string(i);
    kills.insert(id);
    write(n, id, "k" + std::to_string(i));
    write(n, "behind " + id, "k" + std::to_string(i));
  }
  n.run_until_idle();
  auto const dead = n.dead_events();
  ASSERT_EQ(dead.count(), 7U);
  EXPECT_EQ(dead.discard_all({.key = "=k3"}, 2), 1U);
  EXPECT_EQ(dead.discard_all({.statuses = {event_status::created}}, 2), 0U) << "they ask for no dead event";
  EXPECT_EQ(dead.discard_all({}, /*batch=*/2), 6U);
  EXPECT_THAT(table->inspect().parked_keys(10), IsEmpty());
  n.run_until_idle();
  EXPECT_EQ(delivered.size(), 7U);
}

TEST_F(DeadEvents, TheNodeIsToldOfEachDiscard) {
  auto n = make_node();
  n.run_until_idle();
  kills = {"a", "b", "c"};
  for (auto const* id : {"a", "b", "c"}) write(n, id, std::string{"key of "} + id);
  n.run_until_idle();
  int told = 0;
  dead_events const tool{table, [&] { ++told; }};
  EXPECT_TRUE(tool.discard("a"));
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(tool.discard("a"));
  EXPECT_EQ(told, 1) << "nothing changed";
  EXPECT_EQ(tool.discard_all({}, 1), 2U);
  EXPECT_EQ(told, 3);
}

struct changed_store : spi::forwarding_store {
  using spi::forwarding_store::forwarding_store;
  std::size_t discard(event_filter const& filter, std::size_t limit) override {
    if (fails_after-- == 0) throw error{errc::unavailable, "the store is away"};
    return forwarding_store::discard(filter, limit);
  }
  store_capabilities capabilities() const noexcept override {
    auto can = forwarding_store::capabilities();
    can.keys = keys;
    return can;
  }
  int fails_after = 100;
  bool keys = true;
};

TEST_F(DeadEvents, ADiscardThatFailsReportsTheRowsBeforeIt) {
  auto n = make_node();
  n.run_until_idle();
  for (int i = 0; i < 5; ++i) {
    kills.insert("e" + std::to_string(i));
    write(n, "e" + std::to_string(i), "k" + std::to_string(i));
  }
  n.run_until_idle();
  auto const flaky = std::make_shared<changed_store>(table);
  flaky->fails_after = 2;
  dead_events const tool{flaky};
  try {
    tool.discard_all({}, /*batch=*/2);
    FAIL() << "nothing failed";
  } catch (error const& e) {
    EXPECT_EQ(e.rows_changed(), 4U);
    EXPECT_TRUE(e.transient());
  }
  EXPECT_EQ(tool.discard_all({}, 2), 1U) << "the rest";
}

TEST_F(DeadEvents, AStoreWithoutKeysRefusesToDiscard) {
  auto const plain = std::make_shared<changed_store>(table);
  plain->keys = false;
  dead_events const tool{plain};
  auto const refuses = [](auto&& f) {
    try {
      f();
      ADD_FAILURE() << "it was not refused";
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::unsupported);
      EXPECT_THAT(e.what(), HasSubstr("cannot keep an order of keys"));
    }
  };
  refuses([&] { tool.discard("a"); });
  refuses([&] { tool.discard_all(); });
}

}  // namespace
}  // namespace outbox
