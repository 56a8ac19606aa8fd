// The specification's acceptance tests of purge and dead events.
#include <future>

#include "acceptance/suite.hpp"

namespace outbox::acceptance {
namespace {

template <class Database>
class Operations : public Acceptance<Database> {
 protected:
  // Nodes whose listener kills everything while `broken` is true.
  node make_node(std::optional<purge_options> purge = {}) {
    auto o = this->options();
    o.purge = purge;
    listen(o);
    return single_node(std::move(o));
  }
  node make_keyed_node() {
    keyed_options o{.store = this->db.shared_store(), .log = nullptr};
    listen(o);
    return keyed(std::move(o));
  }
  template <class Options>
  void listen(Options& o) {
    o.poll.every = 1h;
    o.listeners.on("t", [this](delivery const& d) -> result {
      if (broken) return dead{"the broker rejects it"};
      this->seen.add(d.id);
      return done;
    });
  }
  std::atomic<bool> broken = true;
};
TYPED_TEST_SUITE(Operations, Databases, database_name);

TYPED_TEST(Operations, DeadReplay) {
  auto n = this->make_node();
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(this->settled());
  auto const dead = n.dead_events();
  ASSERT_EQ(dead.count(), 1U);
  EXPECT_EQ(dead.query().at(0).event.id(), "a");
  EXPECT_EQ(dead.query().at(0).last_error, "the broker rejects it");
  EXPECT_FALSE(dead.replay("nobody"));
  this->broken = false;
  EXPECT_TRUE(dead.replay("a"));
  EXPECT_TRUE(this->seen.reach(1)) << "woken: the poll interval is an hour";
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(dead.count(), 0U);
  EXPECT_FALSE(dead.replay("a")) << "it is done now";
}

TYPED_TEST(Operations, CancelMakesPendingEventsDead) {
  auto o = this->options();
  o.listeners.on("t", [](delivery const&) -> result { return defer{1h}; });
  auto n = single_node(std::move(o));
  for (auto const* id : {"a", "b", "c", "d"}) this->write(n, id, {.aggregate = {*id == 'd' ? "user" : "order", "1"}});
  EXPECT_TRUE(n.cancel("a", "ordered by mistake"));
  EXPECT_FALSE(n.cancel("a", "again")) << "it has ended";
  EXPECT_FALSE(n.cancel("none", ""));
  EXPECT_EQ(n.dead_events().query().at(0).last_error, "ordered by mistake");
  EXPECT_EQ(n.cancel({.aggregate_type = "order"}, "the shop is closed", /*batch=*/1), 2U);
  EXPECT_EQ(n.dead_events().count(), 3U);
  EXPECT_THROW(n.cancel(event_filter{}, "everything"), error);
  EXPECT_EQ(n.cancel({.statuses = {event_status::created, event_status::retry}}, "everything"), 1U);
}

TYPED_TEST(Operations, CancellingAHeldEventTakesItsOwnerAway) {
  auto o = this->options();
  o.poll.every = 1h;
  std::promise<void> go_on;
  std::atomic<bool> called = false;
  o.listeners.on("t", [&, wait = go_on.get_future().share()](delivery const&) -> result {
    called = true;
    wait.wait();
    return done;
  });
  auto n = single_node(std::move(o));
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(eventually([&] { return called.load(); }));
  EXPECT_TRUE(n.cancel("a", "stop it"));
  go_on.set_value();
  ASSERT_TRUE(eventually([&] { return n.counters().lost == 1; }));
  EXPECT_EQ(this->row("a").status, event_status::dead);
  EXPECT_EQ(this->row("a").last_error, "stop it");
}

TYPED_TEST(Operations, DeadReplayAll) {
  auto n = this->make_node();
  this->start(n);
  for (int i = 0; i < 25; ++i) this->write(n, "e" + std::to_string(i), {.aggregate = {i < 20 ? "order" : "user", "1"}});
  ASSERT_TRUE(this->settled());
  auto const dead = n.dead_events();
  EXPECT_EQ(dead.count({.aggregate_type = "order"}), 20U);
  this->broken = false;
  EXPECT_EQ(dead.replay_all({.aggregate_type = "order"}, /*batch=*/7), 20U);
  ASSERT_TRUE(this->seen.reach(20));
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(dead.count(), 5U);
  EXPECT_EQ(dead.replay_all(), 5U);
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->seen.total(), 25U);
}

TYPED_TEST(Operations, ReplayAllOfWhatDiesAgainEnds) {
  auto n = this->make_node();
  this->start(n);
  for (int i = 0; i < 10; ++i) this->write(n, "e" + std::to_string(i));
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(n.dead_events().replay_all({}, /*batch=*/1), 10U) << "each once, although all of them die again";
}

TYPED_TEST(Operations, DiscardLetsTheNextEventOfTheKeyGoOn) {
  if (!this->db.shared_store()->capabilities().keys) GTEST_SKIP() << "this store keeps no order per key";
  {
    auto first = this->make_keyed_node();
    this->start(first);
    this->write(first, "a", {.ordering_key = "k"});
    ASSERT_TRUE(this->settled());
    ASSERT_TRUE(first.stop());
  }
  auto w = writer_only({.store = this->db.shared_store(), .log = nullptr});
  this->write(w, "b", {.ordering_key = "k"});
  this->db.block("b");
  this->broken = false;
  auto n = this->make_keyed_node();
  this->start(n);
  EXPECT_FALSE(n.dead_events().discard("nobody"));
  EXPECT_FALSE(n.dead_events().discard("b")) << "it is not dead";
  EXPECT_EQ(this->row("b").status, event_status::created);
  EXPECT_TRUE(n.dead_events().discard("a"));
  EXPECT_TRUE(this->seen.reach(1)) << "woken: the poll interval is an hour";
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->row("b").status, event_status::delivered);
  EXPECT_EQ(this->row("a").status, event_status::dead) << "it stays for the operator to see";
  EXPECT_EQ(this->row("a").blocked, std::nullopt);
  EXPECT_EQ(n.dead_events().discard_all(), 0U) << "it is in no order any more";
}

TYPED_TEST(Operations, WriterOnly) {
  std::vector<std::string> log;
  auto w = writer_only({.store = this->db.shared_store(),
                        .purge = age_purge_options{.keep = 1h, .every = 24h},
                        .log = [&](log_line const& line) {
                          if (line.level >= log_level::warning) log.push_back(line.text());
                        }});
  w.start();
  this->write(w, "a");
  EXPECT_EQ(this->row("a").status, event_status::created);
  EXPECT_EQ(this->row("a").locked_by, "") << "another node delivers it";
  EXPECT_EQ(w.counters().hot_enqueued + w.counters().hot_dropped, 0U);
  EXPECT_EQ(w.purge_once(), 0U) << "it is young";
  EXPECT_TRUE(w.stop());
  EXPECT_THAT(log, ::testing::IsEmpty()) << "no word of a hot path that it does not have";
  this->broken = false;
  auto n = this->make_node();
  this->start(n);
  EXPECT_TRUE(this->seen.reach(1)) << "a dispatching node finds it";
}

TYPED_TEST(Operations, WriterOnlyBesideADispatchingNode) {
  this->broken = false;
  auto n = this->make_node();
  this->start(n);
  auto w = writer_only({.store = this->db.shared_store(), .log = nullptr});
  EXPECT_NO_THROW(w.start()) << "no conflict of modes: it dispatches nothing";
  this->write(w, "a");
  n.wake();
  EXPECT_TRUE(this->seen.reach(1));
}

TYPED_TEST(Operations, PurgeOnce) {
  auto n = this->make_node(purge_options{.keep = 0ms, .batch = 3, .every = 24h});
  this->start(n);
  this->broken = false;
  for (int i = 0; i < 10; ++i) this->write(n, "e" + std::to_string(i));
  ASSERT_TRUE(this->settled());
  this->write(n, "pending", {.deliver_after = 1h});
  EXPECT_EQ(n.purge_once(), 10U) << "in batches of three until nothing is left";
  EXPECT_EQ(n.purge_once(), 0U);
  EXPECT_TRUE(this->db.shared_store()->inspect().find("pending"));
}

TYPED_TEST(Operations, PurgeKeepsWhatIsYoung) {
  auto n = this->make_node();
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(n.purge_once(), 0U) << "seven days";
  EXPECT_TRUE(this->db.shared_store()->inspect().find("a"));
}

TYPED_TEST(Operations, PurgeOnASchedule) {
  auto n = this->make_node(purge_options{.keep = 0ms, .every = 1s, .dead = false});
  this->start(n);
  this->write(n, "dead");
  ASSERT_TRUE(this->settled());
  this->broken = false;
  this->write(n, "done");
  EXPECT_TRUE(eventually([&] { return this->seen.total() == 1 && !this->db.shared_store()->inspect().find("done"); }));
  EXPECT_TRUE(this->db.shared_store()->inspect().find("dead")) << "kept on request";
}

}  // namespace
}  // namespace outbox::acceptance
