// Order per key on whole nodes: events of one key one after the other, keys beside each other, on every store that
// keeps an order per key.
#include <latch>
#include <map>
#include <mutex>
#include <set>

#include "acceptance/suite.hpp"
#include "backends/layouts.hpp"

namespace outbox::acceptance {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// What listeners saw, by key, and whether two events of a key ran at once.
class key_ledger {
 public:
  void begin(delivery const& d) {
    std::lock_guard const lock{mutex_};
    if (!key_of(d).empty() && !busy_.insert(key_of(d)).second) overlaps_ += 1;
  }
  void end(delivery const& d, bool delivered) {
    std::lock_guard const lock{mutex_};
    busy_.erase(key_of(d));
    if (delivered) order_[key_of(d)].push_back(d.id);
  }
  std::vector<std::string> of(std::string const& key) {
    std::lock_guard const lock{mutex_};
    return order_[key];
  }
  std::size_t overlaps() {
    std::lock_guard const lock{mutex_};
    return overlaps_;
  }

 private:
  static std::string key_of(delivery const& d) { return std::string{d.event.ordering_key()}; }

  std::mutex mutex_;
  std::set<std::string> busy_;
  std::map<std::string, std::vector<std::string>> order_;
  std::size_t overlaps_ = 0;
};

template <class Database>
class KeyedNodes : public Acceptance<Database> {
 protected:
  void SetUp() override { ASSERT_TRUE(this->db.shared_store()->capabilities().keys); }
  keyed_options keyed_o(std::string name = "n") {
    keyed_options o{.store = this->db.shared_store(), .name = std::move(name), .log = nullptr};
    o.poll.every = 20ms;
    o.retry.max_attempts = 10'000;
    o.retry.backoff = {.base = 1ms, .cap = 2ms};
    return o;
  }
  /// A listener that notes what it does; `answer` decides what becomes of an event.
  void listen(keyed_options& o, std::function<result(delivery const&)> answer = {}) {
    o.listeners.on("t", [this, answer = std::move(answer)](delivery const& d) -> result {
      ledger.begin(d);
      auto r = answer ? answer(d) : result{done};
      ledger.end(d, std::holds_alternative<done_t>(r.value()));
      return r;
    });
  }
  void write_keyed(node& n, std::string const& id, std::string key, bool commit = true) {
    this->write(n, id, {.ordering_key = std::move(key)}, commit);
  }
  [[nodiscard]] std::string refused_start(node& n) {
    try {
      n.start();
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::mode_conflict);
      return e.what();
    }
    return "started";
  }

  key_ledger ledger;
};
TYPED_TEST_SUITE(KeyedNodes, Databases, database_name);

// The first event of each topic but one waits until all unordered work is done: that passes by.
TYPED_TEST(KeyedNodes, I5_FiveTopicsOfTwentyInOrderBesideUnorderedWork) {
  constexpr int topics = 5, each = 20;
  std::latch free_work{each};
  std::atomic<int> held_up = 0;
  auto o = this->keyed_o();
  o.workers = topics;
  this->listen(o, [&](delivery const& d) -> result {
    if (d.id.starts_with("free.")) free_work.count_down();
    if (d.id.ends_with(".0") && !d.id.starts_with("free") && !d.id.starts_with("topic0")) {
      held_up += free_work.try_wait() ? 0 : 1;
      free_work.wait();
    }
    return done;
  });
  auto n = keyed(std::move(o));
  std::map<std::string, std::vector<std::string>> written;
  for (int i = 0; i < each; ++i) {
    for (int k = 0; k < topics; ++k) {
      auto const key = "topic" + std::to_string(k);
      auto const id = key + "." + std::to_string(i);
      this->write_keyed(n, id, key);
      written[key].push_back(id);
    }
    if (i == 7) n.start();  // before that the poller's, after that the hot path's
  }
  ASSERT_TRUE(eventually([&] { return held_up == topics - 1 && this->ledger.of("topic0").size() == each; }));
  for (int i = 0; i < each; ++i) this->write(n, "free." + std::to_string(i));
  ASSERT_TRUE(this->settled());
  for (auto const& [key, ids] : written) EXPECT_EQ(this->ledger.of(key), ids) << key;
  EXPECT_THAT(this->ledger.of(""), SizeIs(each));
  EXPECT_EQ(this->ledger.overlaps(), 0U);
  EXPECT_EQ(this->db.shared_store()->inspect().counts().done, static_cast<std::uint64_t>((topics + 1) * each));
}

TYPED_TEST(KeyedNodes, I5_AFailingEventHoldsUpItsKeyForAsLongAsItFails) {
  std::atomic<bool> fails = true;
  auto o = this->keyed_o();
  this->listen(o, [&](delivery const& d) -> result {
    if (fails && d.id == "k1") return failed{"not yet"};
    return done;
  });
  auto n = keyed(std::move(o));
  n.start();
  for (int i = 0; i < 5; ++i) {
    this->write_keyed(n, "k" + std::to_string(i), "k");
    this->write_keyed(n, "l" + std::to_string(i), "l");
  }
  ASSERT_TRUE(eventually([&] { return this->row("l4").status == event_status::delivered && n.counters().failed > 3; }));
  EXPECT_THAT(this->ledger.of("k"), ElementsAre("k0"));
  EXPECT_EQ(this->row("k2").attempts, 0);
  EXPECT_EQ(this->row("k2").crashes, 0);
  fails = false;
  ASSERT_TRUE(this->settled());
  EXPECT_THAT(this->ledger.of("k"), ElementsAre("k0", "k1", "k2", "k3", "k4"));
  EXPECT_THAT(this->ledger.of("l"), ElementsAre("l0", "l1", "l2", "l3", "l4"));
  EXPECT_EQ(this->ledger.overlaps(), 0U);
}

TYPED_TEST(KeyedNodes, I5_ADeferredEventHoldsUpItsKeyForAsLongAsItIsDeferred) {
  std::atomic<bool> waits = true;
  auto o = this->keyed_o();
  this->listen(o, [&](delivery const& d) -> result {
    if (waits && d.id == "k1") return defer{2ms, "not yet"};
    return done;
  });
  auto n = keyed(std::move(o));
  n.start();
  for (int i = 0; i < 4; ++i) {
    this->write_keyed(n, "k" + std::to_string(i), "k");
    this->write_keyed(n, "l" + std::to_string(i), "l");
  }
  ASSERT_TRUE(
      eventually([&] { return this->row("l3").status == event_status::delivered && n.counters().deferred > 3; }));
  EXPECT_THAT(this->ledger.of("k"), ElementsAre("k0"));
  waits = false;
  ASSERT_TRUE(this->settled());
  EXPECT_THAT(this->ledger.of("k"), ElementsAre("k0", "k1", "k2", "k3"));
  EXPECT_EQ(this->row("k1").attempts, 0);
}

TYPED_TEST(KeyedNodes, I5_TwoNodesShareKeys) {
  std::vector<std::optional<node>> nodes(2);
  for (std::size_t i = 0; i < 2; ++i) {
    auto o = this->keyed_o("n" + std::to_string(i));
    this->listen(o, [&](delivery const& d) -> result {
      if (d.attempt == 1 && d.id.ends_with("3")) return failed{"once"};
      return done;
    });
    nodes[i].emplace(keyed(std::move(o)));
    nodes[i]->start();
  }
  std::map<std::string, std::vector<std::string>> written;
  for (int i = 0; i < 120; ++i) {
    auto const key = "k" + std::to_string(i % 3);
    auto const id = key + "." + std::to_string(i);
    this->write_keyed(*nodes[static_cast<std::size_t>(i % 2)], id, key);
    written[key].push_back(id);
  }
  ASSERT_TRUE(this->settled());
  for (auto const& [key, ids] : written) EXPECT_EQ(this->ledger.of(key), ids) << key;
  EXPECT_EQ(this->ledger.overlaps(), 0U);
  for (auto& n : nodes) {
    n->stop();
    auto const c = n->counters();
    EXPECT_EQ(c.hot_enqueued + c.cold_enqueued, c.settled + c.released + c.lost + c.unconfirmed) << "I13";
    EXPECT_EQ(c.healed, 0U);
    // Each wrote the first event of a key, and took it to its listener itself.
    EXPECT_GT(c.hot_enqueued, 0U);
    EXPECT_GT(c.delivered, 0U);
  }
}

TYPED_TEST(KeyedNodes, I5_TheHotPathAndThePollerKeepTheOrderOfOneKey) {
  auto elsewhere = writer_only({.store = this->db.shared_store(), .log = nullptr});
  auto o = this->keyed_o();
  this->listen(o);
  auto n = keyed(std::move(o));
  n.start();
  std::vector<std::string> written;
  for (int i = 0; i < 100; ++i) {
    written.push_back("e" + std::to_string(i));
    this->write_keyed(i % 2 == 0 ? n : elsewhere, written.back(), "k");
  }
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->ledger.of("k"), written);
  EXPECT_EQ(this->ledger.overlaps(), 0U);
  EXPECT_GT(n.counters().hot_enqueued, 0U) << "the first event at least: nothing was before it";
  EXPECT_GT(n.counters().cold_enqueued, 0U);
}

TYPED_TEST(KeyedNodes, I5_ADeadEventParksItsKeyUntilItIsDiscarded) {
  auto o = this->keyed_o();
  this->listen(o, [](delivery const& d) -> result {
    if (d.id == "k1") return dead{"bad"};
    return done;
  });
  auto n = keyed(std::move(o));
  n.start();
  for (int i = 0; i < 4; ++i) this->write_keyed(n, "k" + std::to_string(i), "k");
  this->write_keyed(n, "l0", "l");
  ASSERT_TRUE(eventually([&] {
    return this->row("k1").status == event_status::dead && this->row("l0").status == event_status::delivered;
  }));
  EXPECT_EQ(n.poll_once(), 0U);
  EXPECT_THAT(this->ledger.of("k"), ElementsAre("k0"));
  auto const parked = this->db.shared_store()->backend().parked_keys(10);
  ASSERT_THAT(parked, SizeIs(1));
  EXPECT_EQ(this->db.shared_store()->backend().discard({.ids = {"k1"}}, 10), 1U);
  ASSERT_TRUE(this->settled());
  EXPECT_THAT(this->ledger.of("k"), ElementsAre("k0", "k2", "k3"));
  EXPECT_EQ(this->row("k1").status, event_status::dead);
}

TYPED_TEST(KeyedNodes, I5_ADeadEventThatIsReplayedIsDeliveredBeforeThoseBehindIt) {
  std::atomic<bool> bad = true;
  auto o = this->keyed_o();
  this->listen(o, [&](delivery const& d) -> result {
    if (bad && d.id == "k1") return dead{"bad"};
    return done;
  });
  auto n = keyed(std::move(o));
  n.start();
  for (int i = 0; i < 3; ++i) this->write_keyed(n, "k" + std::to_string(i), "k");
  ASSERT_TRUE(eventually([&] { return this->row("k1").status == event_status::dead; }));
  bad = false;
  EXPECT_TRUE(n.dead_events().replay("k1"));
  ASSERT_TRUE(this->settled());
  EXPECT_THAT(this->ledger.of("k"), ElementsAre("k0", "k1", "k2"));
}

TYPED_TEST(KeyedNodes, I5_WithSkipTheKeyGoesOnBehindADeadEvent) {
  auto o = this->keyed_o();
  o.on_dead = on_dead::skip;
  this->listen(o, [](delivery const& d) -> result {
    if (d.id == "k1") return dead{"bad"};
    return done;
  });
  auto n = keyed(std::move(o));
  n.start();
  for (int i = 0; i < 4; ++i) this->write_keyed(n, "k" + std::to_string(i), "k");
  ASSERT_TRUE(this->settled());
  EXPECT_THAT(this->ledger.of("k"), ElementsAre("k0", "k2", "k3"));
  EXPECT_EQ(this->row("k1").status, event_status::dead);
  EXPECT_FALSE(this->row("k1").blocked.has_value()) << "out of line";
  EXPECT_TRUE(this->db.shared_store()->backend().parked_keys(10).empty());
}

TYPED_TEST(KeyedNodes, I5_ARollbackInTheMiddleLeavesNoGap) {
  auto o = this->keyed_o();
  this->listen(o);
  auto n = keyed(std::move(o));
  n.start();
  std::vector<std::string> written;
  for (int i = 0; i < 30; ++i) {
    auto const id = "e" + std::to_string(i);
    bool const commit = i % 3 != 1;
    this->write_keyed(n, id, "k", commit);
    if (commit) written.push_back(id);
  }
  this->db.transact(true, [&](auto& tx) {
    n.writer().write(tx, "t", "1", {.id = "s0", .ordering_key = "k"});
    this->savepoint(tx);
    n.writer().write(tx, "t", "1", {.id = "s1", .ordering_key = "k"});
    this->rollback_to_savepoint(tx);
    n.writer().write(tx, "t", "1", {.id = "s2", .ordering_key = "k"});
  });
  written.push_back("s0");
  if (!this->db.has_savepoints()) written.push_back("s1");  // nothing was rolled back
  written.push_back("s2");
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->ledger.of("k"), written);
}

TYPED_TEST(KeyedNodes, I5_WriteAllHasSeveralEventsOfAKey) {
  auto o = this->keyed_o();
  this->listen(o);
  auto n = keyed(std::move(o));
  n.start();
  std::vector<std::string> k;
  std::vector<std::string> l;
  for (int round = 0; round < 5; ++round) {
    std::vector<event> events;
    for (int i = 0; i < 30; ++i) {
      auto& of = i % 3 == 0 ? l : k;
      of.push_back("e" + std::to_string(round * 30 + i));
      events.push_back(event::json("t", "1", {.id = of.back(), .ordering_key = i % 3 == 0 ? "l" : "k"}));
    }
    this->db.transact(true, [&](auto& tx) { n.writer().write_all(tx, events); });
  }
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->ledger.of("k"), k);
  EXPECT_EQ(this->ledger.of("l"), l);
  EXPECT_EQ(this->ledger.overlaps(), 0U);
}

TYPED_TEST(KeyedNodes, I5_AStopInTheMiddleGivesTheRestBackInOrder) {
  std::latch in_third{1};
  std::latch go_on{1};
  std::atomic<bool> first_time = true;
  auto o = this->keyed_o("first");
  o.stop_queued = stop_queued::release;
  this->listen(o, [&](delivery const& d) -> result {
    if (d.id == "e2" && first_time.exchange(false)) {
      in_third.count_down();
      go_on.wait();
    }
    return done;
  });
  auto first = std::make_optional(keyed(std::move(o)));
  first->start();
  std::vector<std::string> written;
  for (int i = 0; i < 10; ++i) {
    written.push_back("e" + std::to_string(i));
    this->write_keyed(*first, written.back(), "k");
  }
  in_third.wait();
  EXPECT_FALSE(first->stop(0ms)) << "e2 still runs";
  go_on.count_down();
  first.reset();
  EXPECT_THAT(this->ledger.of("k"), ElementsAre("e0", "e1", "e2"));
  for (int i = 3; i < 10; ++i) {
    EXPECT_EQ(this->row("e" + std::to_string(i)).locked_by, "");
    EXPECT_EQ(this->row("e" + std::to_string(i)).crashes, 0);
  }
  auto second_o = this->keyed_o("second");
  this->listen(second_o);
  auto second = keyed(std::move(second_o));
  second.start();
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->ledger.of("k"), written);
}

// Modes on one table.

TYPED_TEST(KeyedNodes, ANodeOfAnotherModeRefusesATableThatIsKeyed) {
  multi_node_options multi{.store = this->db.shared_store(), .log = nullptr};
  {
    auto o = this->keyed_o("keeper");
    this->listen(o);
    auto n = keyed(std::move(o));
    n.start();
    auto other = multi_node(multi_node_options{.store = this->db.shared_store(), .log = nullptr});
    EXPECT_THAT(this->refused_start(other), HasSubstr("'keeper'"));
    auto writes = writer_only({.store = this->db.shared_store(), .log = nullptr});
    writes.start();
    this->write_keyed(writes, "a", "k");
  }
  auto other = multi_node(multi_node_options{.store = this->db.shared_store(), .log = nullptr});
  EXPECT_THAT(this->refused_start(other), HasSubstr("keeps an order per key")) << "the mark outlives its node";
  this->db.shared_store()->backend().set_keyed(false);
  multi.listeners.on("t", [this](delivery const& d) { this->seen.add(d.id); });
  auto last = multi_node(std::move(multi));
  last.start();
  ASSERT_TRUE(this->settled());
}

TYPED_TEST(KeyedNodes, AKeyedNodeRefusesATableWithALiveNodeOfAnotherMode) {
  auto other = multi_node(multi_node_options{.store = this->db.shared_store(), .name = "many", .log = nullptr});
  other.start();
  auto n = keyed(this->keyed_o());
  EXPECT_THAT(this->refused_start(n), HasSubstr("'many'"));
  EXPECT_FALSE(this->db.shared_store()->backend().settings().keyed) << "it has not marked the table";
  EXPECT_TRUE(other.stop());
  auto later = keyed(this->keyed_o());
  later.start();
  EXPECT_TRUE(this->db.shared_store()->backend().settings().keyed);
}

// What a multi_node leaves behind: a row that is tried again, a deferred one, a delayed one, a dead one, and one that
// no node has seen yet.
TYPED_TEST(KeyedNodes, ATableOfMultiNodesBecomesKeyedAndGoesBack) {
  auto const s = this->db.shared_store();
  auto const status = [&](char const* id) { return this->row(id).status; };
  {
    multi_node_options o{.store = s, .log = nullptr};
    o.poll.every = 20ms;
    o.retry = {.max_attempts = 10'000, .backoff = {.base = 1ms, .cap = 2ms}};
    o.listeners.on("t", [](delivery const& d) -> result {
      if (d.id == "k0") return failed{"not yet"};
      if (d.id == "k1") return defer{1ms, "later"};
      return dead{"bad"};
    });
    auto old = multi_node(std::move(o));
    old.start();
    for (auto const* id : {"k0", "k1", "k2"}) this->write_keyed(old, id, "k");
    this->write(old, "delayed", {.deliver_after = 1h, .ordering_key = "k"});
    ASSERT_TRUE(eventually([&] {
      return status("k0") == event_status::retry && !this->row("k1").last_error.empty() &&
             status("k2") == event_status::dead;
    }));
    auto early = keyed(this->keyed_o());
    EXPECT_THAT(this->refused_start(early), HasSubstr("multi_node"));
    EXPECT_TRUE(old.stop(10s));
  }
  auto const writes = writer_only({.store = s, .log = nullptr});
  for (auto const* id : {"k4", "k5", "last", "behind"}) {
    event_options o{.ordering_key = "k"};
    o.id = id;
    this->db.transact(true, [&](auto& tx) { writes.writer().write(tx, "t", "1", std::move(o)); });
  }
  {
    auto o = this->keyed_o();
    this->listen(o, [](delivery const& d) -> result {
      if (d.id == "last") return dead{"bad"};
      return done;
    });
    auto n = keyed(std::move(o));
    n.start();
    ASSERT_TRUE(eventually([&] { return this->ledger.of("k").size() == 2; }));
    EXPECT_TRUE(n.dead_events().discard("k2")) << "it parks the key, whatever mode it died in";
    ASSERT_TRUE(eventually([&] { return status("last") == event_status::dead; }));
    EXPECT_THAT(this->ledger.of("k"), ElementsAre("k0", "k1", "k4", "k5"));
    EXPECT_TRUE(n.stop());
    EXPECT_EQ(n.counters().healed, 0U);
  }
  EXPECT_EQ(status("behind"), event_status::created);
  s->backend().set_keyed(false);
  multi_node_options o{.store = s, .log = nullptr};
  o.listeners.on("t", [this](delivery const& d) { this->seen.add(d.id); });
  auto back = multi_node(std::move(o));
  back.start();
  EXPECT_TRUE(eventually([&] { return status("behind") == event_status::delivered; })) << "no row is left blocked";
  EXPECT_EQ(status("delayed"), event_status::created);
}

TYPED_TEST(KeyedNodes, AKeyedNodeStopsTakingEventsWhenTheMarkIsRemoved) {
  auto o = this->keyed_o();
  o.lease.duration = 1s;
  this->listen(o);
  auto n = keyed(std::move(o));
  n.start();
  this->write_keyed(n, "a", "k");
  ASSERT_TRUE(this->settled());
  this->db.shared_store()->backend().set_keyed(false);
  ASSERT_TRUE(eventually([&] { return !n.health().healthy; }));
  EXPECT_THAT(n.health().reason, HasSubstr("does not keep an order per key any more"));
  this->write_keyed(n, "b", "k");
  EXPECT_EQ(n.poll_once(), 0U);
  EXPECT_EQ(this->row("b").locked_by, "");
  this->db.shared_store()->backend().set_keyed(true);
  ASSERT_TRUE(this->settled()) << "it takes events again";
  EXPECT_TRUE(n.health().healthy);
}

// Stores that delete the rows of delivered events: what was before a row is gone, not DONE.
template <class Database>
class KeyedNodesThatErase : public KeyedNodes<Database> {};
TYPED_TEST_SUITE(KeyedNodesThatErase, ::testing::Types<OUTBOX_ERASING_BACKENDS>, database_name);

TYPED_TEST(KeyedNodesThatErase, I5_TheOrderIsKept) {
  std::atomic<int> failures = 0;
  auto o = this->keyed_o();
  this->listen(o, [&](delivery const& d) -> result {
    if (d.id == "k0.7") return dead{"bad"};
    if (d.attempt == 1 && d.id.ends_with("3")) {
      ++failures;
      return failed{"once"};
    }
    return done;
  });
  auto n = keyed(std::move(o));
  std::map<std::string, std::vector<std::string>> written;
  for (int i = 0; i < 20; ++i) {
    for (auto const* key : {"k0", "k1", "k2"}) {
      auto const id = std::string{key} + "." + std::to_string(i);
      this->write_keyed(n, id, key);
      if (id != "k0.7") written[key].push_back(id);
    }
    if (i == 7) n.start();
  }
  auto const counts = [&] { return this->db.shared_store()->inspect().counts(); };
  ASSERT_TRUE(eventually([&] { return counts().dead == 1 && counts().pending() == 12; })) << "k0 is parked";
  EXPECT_THAT(this->ledger.of("k0"), SizeIs(7));
  EXPECT_TRUE(n.dead_events().discard("k0.7"));
  ASSERT_TRUE(this->settled());
  for (auto const& [key, ids] : written) EXPECT_EQ(this->ledger.of(key), ids) << key;
  EXPECT_EQ(counts().done, 0U);
  EXPECT_EQ(failures, 6);
  EXPECT_EQ(n.counters().healed, 0U);
}

// Tables of another shape have no column for the order.
#if defined(OUTBOX_HAS_SQLITE) || defined(OUTBOX_HAS_POSTGRES) || defined(OUTBOX_HAS_MYSQL)
template <class Layout>
void refuses() {
  Layout table;
  std::shared_ptr<outbox::store> const not_owned{std::shared_ptr<void>{}, &table.store()};
  auto n = keyed({.store = not_owned, .log = nullptr});
  try {
    n.start();
    FAIL() << "started";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::unsupported);
    EXPECT_THAT(e.what(), HasSubstr("keyed"));
  }
}
#ifdef OUTBOX_HAS_SQLITE
TEST(KeyedLayouts, ATableOfAnotherShapeIsRefusedOnSqlite) { refuses<sqlite_layout_backend>(); }
#endif
#ifdef OUTBOX_HAS_POSTGRES
TEST(KeyedLayouts, ATableOfAnotherShapeIsRefusedOnPostgres) { refuses<postgres_layout_backend>(); }
#endif
#ifdef OUTBOX_HAS_MYSQL
TEST(KeyedLayouts, ATableOfAnotherShapeIsRefusedOnMysql) { refuses<mysql_layout_backend>(); }
#endif
#endif

}  // namespace
}  // namespace outbox::acceptance
