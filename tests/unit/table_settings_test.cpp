// What a table says to its nodes, and what nodes tell about themselves in it.
#include <outbox/node.hpp>
#include <outbox/spi/codecs.hpp>
#include <outbox/spi/forwarding_store.hpp>

#include "stepper.hpp"

namespace outbox::core {
namespace {

TEST(RouteCodec, EntriesOfEarlierLibrariesAreNamesAndOthersThatMakeNoSenseAreLeftOut) {
  EXPECT_THAT(decode_routes(R"(["old", 1, {"name": 2}, {"name": "a", "event_type": "t", "aggregate_type": []},
                              {"name": "b", "aggregate_type": "order"}, null])"),
              ElementsAre(node_route{"old", "", "", false}, node_route{"b", "", "order"}));
  for (auto const* const text : {"", "{", "null", R"({"name": "a"})"}) EXPECT_THAT(decode_routes(text), IsEmpty());
  node_route const unknown{"old", "", "", false};
  EXPECT_FALSE(unknown.serves("order", "t"));
  EXPECT_EQ(decode_routes(encode_routes({unknown, {"\xff", "t"}})).at(0), unknown) << "bytes that are no UTF-8 pass";
}

// A table of a newer library.
class newer_table final : public forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  table_settings settings() override {
    auto t = behind().settings();
    t.oldest_library = oldest;
    return t;
  }
  int oldest = schema_version + 1;
};

std::optional<error> refusal_of_start(node n) {
  try {
    n.start();
  } catch (error const& e) {
    return e;
  }
  return std::nullopt;
}

class TableSettings : public ::testing::Test {
 protected:
  table db;
};

TEST_F(TableSettings, ALibraryThatIsTooOldDoesNotStart) {
  auto const newer = std::make_shared<newer_table>(db.store);
  auto const refused = refusal_of_start(multi_node({.store = newer, .log = nullptr}));
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code(), errc::store_failure);
  EXPECT_THAT(refused->what(), HasSubstr("use a newer library"));
  EXPECT_THAT(db.store->inspect().nodes(), IsEmpty()) << "it left the table";
  newer->oldest = schema_version;
  EXPECT_FALSE(refusal_of_start(multi_node({.store = newer, .log = nullptr})));
}

TEST_F(TableSettings, ADispatchingNodeDoesNotStartOnAKeyedTable) {
  db.store->backend().set_keyed(true);
  auto const code = [](std::optional<error> const& e) { return e ? std::optional{e->code()} : std::nullopt; };
  EXPECT_EQ(code(refusal_of_start(multi_node({.store = db.store, .log = nullptr}))), errc::mode_conflict);
  EXPECT_EQ(code(refusal_of_start(single_node({.store = db.store, .log = nullptr}))), errc::mode_conflict);
  EXPECT_EQ(code(refusal_of_start(ordered({.store = db.store, .log = nullptr}))), errc::mode_conflict);
  EXPECT_EQ(code(refusal_of_start(writer_only({.store = db.store, .log = nullptr}))), std::nullopt);
}

// Making an index takes longer than the lease of the first heartbeat.
class slow_index final : public forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  void prepare_for_keys() override {
    if (meanwhile) meanwhile(behind());
  }
  std::function<void(spi::store&)> meanwhile;
};

TEST_F(TableSettings, AKeyedNodeLooksForOthersAgainWhenItHasPreparedTheTable) {
  auto const slow = std::make_shared<slow_index>(db.store);
  slow->meanwhile = [&](spi::store& s) {
    db.clock->advance(1h);
    EXPECT_THAT(s.inspect().nodes(), IsEmpty()) << "no node sees the one that prepares";
    s.heartbeat({.incarnation = "other:1:x", .name = "other", .mode = node_mode::multi_node, .lease = 30s});
  };
  auto const make = [&] { return keyed({.store = slow, .log = nullptr, .clock = db.clock}); };
  auto const refused = refusal_of_start(make());
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code(), errc::mode_conflict);
  EXPECT_FALSE(db.store->backend().settings().keyed) << "it is not marked";
  EXPECT_THAT(db.store->inspect().nodes(), SizeIs(1)) << "only the other one";
  slow->meanwhile = nullptr;
  db.store->backend().retire("other:1:x");
  EXPECT_FALSE(refusal_of_start(make()).has_value());
  EXPECT_TRUE(db.store->backend().settings().keyed);
}

TEST_F(TableSettings, AKeyedNodePreparesATableThatIsMarkedAlready) {
  db.store->backend().set_keyed(true);
  auto const slow = std::make_shared<slow_index>(db.store);
  int times = 0;
  slow->meanwhile = [&](spi::store&) { ++times; };
  EXPECT_FALSE(refusal_of_start(keyed({.store = slow, .log = nullptr, .clock = db.clock})).has_value());
  EXPECT_EQ(times, 1) << "this store may not know yet what another one has made";
}

TEST_F(TableSettings, ARunningNodeTakesNothingMoreFromATableThatWasMarkedKeyed) {
  stepper n{db};
  n.open();
  db.put("held");
  n.poll_all();
  db.store->backend().set_keyed(true);
  n.advance(8s);
  ASSERT_TRUE(n.renew());
  db.put("new");
  n.poll_all();
  EXPECT_EQ(db.row("new").locked_by, "");
  n.commit("written");
  EXPECT_EQ(db.row("written").locked_by, "") << "its births have no owner";
  EXPECT_THAT(n.look([](engine& e) { return e.unhealthy(); }), HasSubstr("order per key"));
  EXPECT_THAT(n.log, ::testing::Contains(HasSubstr("takes no more events")));
  EXPECT_EQ(n.deliver(), "held") << "it finishes what it has";
  n.settle();
  EXPECT_EQ(db.row("held").status, event_status::delivered);

  db.store->backend().set_keyed(false);
  n.advance(8s);
  n.renew();
  n.poll_all();
  EXPECT_NE(db.row("new").locked_by, "");
  EXPECT_EQ(n.look([](engine& e) { return e.unhealthy(); }), "");
}

// Else no node would deliver: the one that may stands by for the one that may not.
TEST_F(TableSettings, ANodeThatMayNotDispatchGivesTheDispatchLockBack) {
  auto const exclusive = [](node_settings& s) { s.exclusive = true; };
  stepper first{db, "first", exclusive};
  first.open();
  first.poll_all();
  ASSERT_TRUE(first.look([](engine& e) { return e.active(); }));
  db.store->backend().set_keyed(true);
  first.advance(8s);
  ASSERT_TRUE(first.renew());
  EXPECT_FALSE(first.look([](engine& e) { return e.active(); }));
  first.advance(2s);
  first.poll_all();
  EXPECT_TRUE(db.store->backend().try_dispatch_lock("another", 30s)) << "it is free, and the node leaves it alone";
}

TEST_F(TableSettings, ANodeTellsWhatItHasDone) {
  stepper n{db};
  n.open();
  for (auto const* id : {"a", "b", "c"}) db.put(id);
  n.poll_all();
  n.deliver(done);
  n.deliver(failed{"no"});
  n.deliver(dead{"never"});
  n.settle();
  n.advance(8s);
  ASSERT_TRUE(n.renew());
  auto const nodes = db.store->inspect().nodes();
  ASSERT_THAT(nodes, SizeIs(1));
  EXPECT_TRUE(nodes[0].active);
  EXPECT_EQ(nodes[0].reason, "");
  EXPECT_EQ(nodes[0].done, 1U);
  EXPECT_EQ(nodes[0].failed, 1U);
  EXPECT_EQ(nodes[0].dead, 1U);
  EXPECT_EQ(nodes[0].erased, 0U) << "the rows of delivered events stay";
  EXPECT_THAT(nodes[0].routes, ElementsAre(node_route{"quick", "quick"}, node_route{"t", "t"}));
  EXPECT_TRUE(nodes[0].started_at);
}

TEST_F(TableSettings, ANodeTellsWhyItIsUnhealthy) {
  stepper n{db};
  n.open();
  n.renew();
  db.store->backend().set_keyed(true);
  for (int i = 0; i < 2; ++i) {  // it learns of it, then tells
    n.advance(8s);
    n.renew();
  }
  EXPECT_THAT(db.store->inspect().nodes().at(0).reason, HasSubstr("order per key"));
}

// Where the rows of delivered events are deleted, the table alone does not add up any more: the nodes tell the rest.
TEST_F(TableSettings, I13_WithErasedRowsTheCountersAddUp) {
  db.store = memory::open({.clock = db.clock, .done_rows = done_rows::erase});
  stepper n{db};
  n.open();
  for (int i = 0; i < 10; ++i) db.put("e" + std::to_string(i));
  n.poll_all();
  for (int i = 0; i < 6; ++i) n.deliver(done);
  n.deliver(dead{"never"});
  n.deliver(failed{"no"});
  n.settle();
  n.advance(8s);
  ASSERT_TRUE(n.renew());
  auto const node = db.store->inspect().nodes().at(0);
  auto const c = db.store->inspect().counts();
  EXPECT_EQ(node.erased, 6U);
  EXPECT_EQ(node.done, 6U);
  EXPECT_EQ(n.core->counters().erased, 6U);
  EXPECT_EQ(c.done, 0U);
  EXPECT_EQ(10U - node.erased, c.done + c.dead + c.pending());
  EXPECT_EQ(db.store->backend().purge({.retention = 0s}), 1U) << "the dead row";
  auto const after = db.store->inspect().counts();
  EXPECT_EQ(10U - 1U - node.erased, after.done + after.dead + after.pending());
}

// A store that keeps done rows refuses the second write.
TEST_F(TableSettings, ACommitInDoubtThatIsRetriedMayDeliverTwiceWhereRowsAreErased) {
  for (auto const done_row : {done_rows::keep, done_rows::erase}) {
    auto fate = memory::commit_fate::lost_applied;
    db.store = memory::open({.clock = db.clock, .done_rows = done_row, .at_commit = [&] {
                               return std::exchange(fate, memory::commit_fate::ok);
                             }});
    stepper n{db};
    n.open();
    EXPECT_THROW(n.commit("a"), error) << "in doubt";
    n.poll_all();
    EXPECT_EQ(n.deliver(), "a");
    n.settle();
    if (done_row == done_rows::keep) {
      EXPECT_THROW(n.commit("a"), error) << "the id is taken";
      EXPECT_EQ(n.deliver(), "");
    } else {
      n.commit("a");
      EXPECT_EQ(n.deliver(), "a") << "a second time";
    }
  }
}

// A claim may say when rows that it left will be free.
TEST_F(TableSettings, AClaimMaySayWhenToLookAgain) {
  class impatient final : public forwarding_store {
   public:
    using forwarding_store::forwarding_store;
    claim_reply claim(claim_request const& r) override {
      auto reply = behind().claim(r);
      reply.look_again = 20ms;
      return reply;
    }
  };
  auto core = std::make_shared<node_core>(step_settings(std::make_shared<impatient>(db.store), db.clock));
  core->with_engine([&](engine& e) { e.open(db.clock->steady()); });
  for (auto p = core->plan_poll(); p.request; p = core->plan_poll()) core->carry(*p.request);
  auto const p = core->plan_poll();
  EXPECT_EQ(p.wake - db.clock->steady(), 20ms);
}

}  // namespace
}  // namespace outbox::core
