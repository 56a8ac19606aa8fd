// The specification's acceptance tests of writer hooks and interceptors.
#include "acceptance/suite.hpp"

namespace outbox::acceptance {
namespace {

using ::testing::ElementsAre;

// Says what it was told.
class recording_hook final : public writer_hook {
 public:
  std::vector<event> before_write(std::vector<event> events) override {
    note("before", events);
    if (suppress) return {};
    if (refuse) throw std::runtime_error{"not with these events"};
    if (replace) return {event::json("t", "2", {.id = "instead"})};
    if (add) events.push_back(event::json("t", "1", {.id = "added"}));
    return events;
  }
  void after_write(std::span<event const> events) override { note("written", events); }
  void after_commit(std::span<event const> events) override { note("committed", events); }
  void after_rollback(std::span<event const> events) override { note("rolled back", events); }

  std::vector<std::string> said;
  bool suppress = false, refuse = false, replace = false, add = false, fail = false;

 private:
  void note(std::string text, std::span<event const> events) {
    for (auto const& e : events) text += " " + e.id();
    said.push_back(text);
    if (fail && !text.starts_with("before")) throw std::runtime_error{"hook failed on purpose"};
  }
};

template <class Database>
class Hooks : public Acceptance<Database> {
 public:
  void note(std::string const& what) {
    std::lock_guard const lock{mutex};
    order.push_back(what);
  }

 protected:
  node make_node(std::vector<std::shared_ptr<interceptor>> interceptors = {}) {
    auto o = this->options();
    o.hook = hook;
    o.interceptors = std::move(interceptors);
    o.listeners.on("t", [this](delivery const& d) -> result {
      {
        std::lock_guard const lock{mutex};
        order.push_back("listener");
      }
      this->seen.add(d.id);
      return done;
    });
    return single_node(std::move(o));
  }
  std::shared_ptr<recording_hook> hook = std::make_shared<recording_hook>();
  std::mutex mutex;
  std::vector<std::string> order;
};
TYPED_TEST_SUITE(Hooks, Databases, database_name);

TYPED_TEST(Hooks, WriterHookHearsOfTheWholeLife) {
  auto n = this->make_node();
  this->write(n, "a");
  this->write(n, "b", {}, /*commit=*/false);
  EXPECT_THAT(this->hook->said,
              ElementsAre("before a", "written a", "committed a", "before b", "written b", "rolled back b"));
}

TYPED_TEST(Hooks, WriterHookMayAddEvents) {
  this->hook->add = true;
  auto n = this->make_node();
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(this->seen.reach(2));
  EXPECT_EQ(this->seen.of("added"), 1);
  EXPECT_EQ(this->hook->said.back(), "committed a added");
}

TYPED_TEST(Hooks, WriterHookMaySuppressTheWrite) {
  this->hook->suppress = true;
  auto n = this->make_node();
  this->db.transact(true, [&](auto& tx) {
    EXPECT_FALSE(n.writer().write(tx, "t", "1", {.id = "a"})) << "the id tests false";
    std::vector<event> const two{event::json("t", "1"), event::json("t", "2")};
    EXPECT_TRUE(n.writer().write_all(tx, two).empty());
  });
  EXPECT_EQ(this->db.shared_store()->inspect().counts().pending(), 0U);
  ASSERT_EQ(this->hook->said.size(), 2U) << "nothing was written, so there is nothing to hear of afterwards";
  EXPECT_EQ(this->hook->said.front(), "before a");
  EXPECT_TRUE(this->hook->said.back().starts_with("before "));
}

TYPED_TEST(Hooks, WriterHookMayReplaceTheEvents) {
  this->hook->replace = true;
  auto n = this->make_node();
  this->start(n);
  this->db.transact(true, [&](auto& tx) {
    EXPECT_EQ(n.writer().write(tx, "t", "1", {.id = "a"}).str(), "instead") << "the id of what was written";
  });
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(this->seen.of("instead"), 1);
  EXPECT_FALSE(this->db.shared_store()->inspect().find("a"));
  EXPECT_THAT(this->hook->said, ElementsAre("before a", "written instead", "committed instead"));
}

TYPED_TEST(Hooks, WhatBeforeWriteThrowsReachesTheCallerAndNothingIsWritten) {
  this->hook->refuse = true;
  auto n = this->make_node();
  this->start(n);
  this->db.transact(true, [&](auto& tx) {
    EXPECT_THROW(n.writer().write(tx, "t", "1", {.id = "refused"}), std::runtime_error);
    this->hook->refuse = false;
    n.writer().write(tx, "t", "1", {.id = "kept"});
  });
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_FALSE(this->db.shared_store()->inspect().find("refused"))
      << "although the transaction went on and was committed";
  EXPECT_THAT(this->hook->said, ElementsAre("before refused", "before kept", "written kept", "committed kept"));
}

TYPED_TEST(Hooks, I9_WhatAHookThrowsNeverReachesTheCaller) {
  this->hook->fail = true;
  auto n = this->make_node();
  this->start(n);
  EXPECT_NO_THROW(this->write(n, "a"));
  EXPECT_NO_THROW(this->write(n, "b", {}, /*commit=*/false));
  ASSERT_TRUE(this->seen.reach(1));
}

TYPED_TEST(Hooks, WriterHookIsOncePerWriteAll) {
  auto n = this->make_node();
  std::vector<event> events;
  for (auto const* id : {"a", "b", "c"}) events.push_back(event::json("t", "1", {.id = id}));
  this->db.transact(true, [&](auto& tx) { n.writer().write_all(tx, events); });
  EXPECT_THAT(this->hook->said, ElementsAre("before a b c", "written a b c", "committed a b c"));
}

TYPED_TEST(Hooks, WriterHookHearsOnlyOfWhatWasKept) {
  if (!this->db.has_savepoints()) GTEST_SKIP() << "this store has no savepoints";
  auto n = this->make_node();
  this->db.transact(true, [&](auto& tx) {
    n.writer().write(tx, "t", "1", {.id = "kept"});
    this->savepoint(tx);
    n.writer().write(tx, "t", "1", {.id = "undone"});
    this->rollback_to_savepoint(tx);
  });
  EXPECT_EQ(this->hook->said.at(4), "committed kept");
  EXPECT_EQ(this->hook->said.at(5), "committed") << "the second write, of which nothing is left";
}

// Begins another transaction on the same connection when one has ended.
class writing_hook final : public writer_hook {
 public:
  void after_commit(std::span<event const> events) override { once("commit", events); }
  void after_rollback(std::span<event const> events) override { once("rollback", events); }
  std::function<void(std::string const& id)> write;

 private:
  void once(std::string const& after, std::span<event const> events) {
    if (!events.front().id().starts_with("after")) write("after " + after + " of " + events.front().id());
  }
};

TYPED_TEST(Hooks, AHookMayUseTheConnectionOfATransactionThatHasEnded) {
  auto const writing = std::make_shared<writing_hook>();
  auto o = this->options();
  o.poll.every = 1h;
  o.hook = writing;
  o.listeners.on("t", [this](delivery const& d) {
    this->note(d.path == path::hot ? "hot" : "cold");
    this->seen.add(d.id);
  });
  auto n = single_node(std::move(o));
  this->start(n);
  writing->write = [&](std::string const& id) { this->write(n, id); };
  this->write(n, "a");
  this->write(n, "b", {}, /*commit=*/false);
  ASSERT_TRUE(this->seen.reach(3));
  ASSERT_TRUE(this->settled());
  n.stop();
  EXPECT_EQ(this->seen.of("a"), 1);
  EXPECT_EQ(this->seen.of("after commit of a"), 1);
  EXPECT_EQ(this->seen.of("after rollback of b"), 1);
  EXPECT_THAT(this->order, ElementsAre("hot", "hot", "hot"));
}

// The first row is gone and the second has the same id: neither the hook nor the hot path may take one for the other.
TYPED_TEST(Hooks, I7_AnEventWrittenAgainAfterASavepointIsOneEvent) {
  if (!this->db.has_savepoints()) GTEST_SKIP() << "this store has no savepoints";
  auto o = this->options();
  o.hook = this->hook;
  o.listeners.on("t", [this](delivery const& d) {
    this->note(d.path == path::hot ? "hot" : "cold");
    this->seen.add(d.id);
  });
  auto n = single_node(std::move(o));
  this->start(n);
  auto const e = event::json("t", "1", {.id = "a"});
  this->db.transact(true, [&](auto& tx) {
    this->savepoint(tx);
    n.writer().write(tx, e);
    this->rollback_to_savepoint(tx);
    n.writer().write(tx, e);
  });
  ASSERT_TRUE(this->seen.reach(1));
  ASSERT_TRUE(this->settled());
  n.stop();
  EXPECT_THAT(this->order, ElementsAre("cold")) << "the row that is there was born without an owner";
  EXPECT_THAT(this->hook->said,
              ElementsAre("before a", "written a", "before a", "written a", "committed", "committed a"));
}

TYPED_TEST(Hooks, AHookHearsOnceOfAnEventWithoutAnOwner) {
  if (!this->db.has_savepoints()) GTEST_SKIP() << "this store has no savepoints";
  auto n = this->make_node();  // not started: nothing is owned
  auto const e = event::json("t", "1", {.id = "a"});
  this->db.transact(true, [&](auto& tx) {
    this->savepoint(tx);
    n.writer().write(tx, e);
    this->rollback_to_savepoint(tx);
    n.writer().write(tx, e);
  });
  EXPECT_EQ(this->hook->said.at(4), "committed");
  EXPECT_EQ(this->hook->said.at(5), "committed a");
}

// The row in the one table says nothing about the other, whether nodes own what they write or not.
TYPED_TEST(Hooks, I2_OneEventInTwoTablesAndASavepointAroundOne) {
  if (!this->db.has_savepoints()) GTEST_SKIP() << "this store has no savepoints";
  if constexpr (requires { this->db.open("audit_event"); }) {
    for (bool const owned : {true, false}) {
      auto const second_hook = std::make_shared<recording_hook>();
      tally second_seen;
      auto first = this->make_node();
      auto o = this->options();
      o.store = this->db.open("audit_event");
      o.hook = second_hook;
      o.listeners.on("t", [&](delivery const& d) { second_seen.add(d.id); });
      auto second = single_node(std::move(o));
      if (owned) {
        this->start(first);
        this->start(second);
      }
      this->hook->said.clear();
      auto const e = event::json("t", "1", {.id = owned ? "owned" : "free"});
      this->db.transact(true, [&](auto& tx) {
        first.writer().write(tx, e);
        this->savepoint(tx);
        second.writer().write(tx, e);
        this->rollback_to_savepoint(tx);
      });
      EXPECT_EQ(this->hook->said.back(), "committed " + e.id());
      EXPECT_EQ(second_hook->said.back(), "committed") << "nothing is left of it";
      if (owned) {
        ASSERT_TRUE(this->settled());
      }
      EXPECT_TRUE(second.stop(60s));
      EXPECT_EQ(second.counters().hot_enqueued, 0U);
      EXPECT_EQ(second_seen.total(), 0U);
    }
    EXPECT_EQ(this->seen.of("owned"), 1);
  } else {
    GTEST_SKIP() << "a memory store has one table";
  }
}

TYPED_TEST(Hooks, InterceptorsRunBeforeInOrderAndAfterInReverse) {
  struct noted final : interceptor {
    noted(Hooks<TypeParam>& t, std::string n) : test{t}, name{std::move(n)} {}
    void before(delivery const&) override { test.note(name + " before"); }
    void after(delivery const&, result const& r) override {
      test.note(name + (std::holds_alternative<done_t>(r.value()) ? " after done" : " after failure"));
      throw std::runtime_error{"swallowed"};
    }
    Hooks<TypeParam>& test;
    std::string name;
  };
  auto n = this->make_node({std::make_shared<noted>(*this, "first"), std::make_shared<noted>(*this, "second")});
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(this->settled());
  n.stop();
  EXPECT_THAT(this->order,
              ElementsAre("first before", "second before", "listener", "second after done", "first after done"));
}

TYPED_TEST(Hooks, AnExceptionOfAnInterceptorIsTheAnswerInsteadOfTheListeners) {
  auto n = this->make_node({intercept_before([](delivery const& d) {
                              if (d.attempt == 1) throw std::runtime_error{"not yet"};
                            }),
                            intercept_after([this](delivery const&, result const&) { this->note("after"); })});
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(this->settled());
  n.stop();
  EXPECT_EQ(this->row("a").attempts, 1);
  EXPECT_EQ(this->row("a").status, event_status::delivered);
  EXPECT_THAT(this->order, ElementsAre("listener", "after")) << "what was not begun is not ended";
}

TYPED_TEST(Hooks, InterceptorsSeeEventsWithoutAListener) {
  auto n = this->make_node({intercept_after([this](delivery const& d, result const& r) {
    this->note(d.event.type() + (std::holds_alternative<dead>(r.value()) ? " is dead" : " is not"));
  })});
  this->start(n);
  this->db.transact(true, [&](auto& tx) { n.writer().write(tx, "nobody.listens", "1"); });
  ASSERT_TRUE(this->settled());
  n.stop();
  EXPECT_THAT(this->order, ElementsAre("nobody.listens is dead"));
}

}  // namespace
}  // namespace outbox::acceptance
