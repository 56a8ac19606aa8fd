// The specification's acceptance tests of modes and of kinds of listeners.
#include <latch>
#include <mutex>

#include "acceptance/suite.hpp"

namespace outbox::acceptance {
namespace {

using ::testing::ElementsAre;

template <class Database>
class Modes : public Acceptance<Database> {
 protected:
  ordered_options in_order() {
    ordered_options o{.store = this->db.shared_store(), .log = nullptr};
    o.poll.every = 20ms;
    return o;
  }
  tally order;
};
TYPED_TEST_SUITE(Modes, Databases, database_name);

TYPED_TEST(Modes, Ordered) {
  auto o = this->in_order();
  o.listeners.on("t", [this](delivery const& d) { this->order.add(d.id); });
  auto n = ordered(std::move(o));
  std::vector<std::string> written;
  for (int i = 0; i < 40; ++i) {
    written.push_back("e" + std::to_string((i * 7) % 40));
    this->write(n, written.back());
    if (i == 20) this->start(n);
  }
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->order.ids(), written);
  EXPECT_EQ(n.counters().hot_enqueued, 0U) << "there is no hot path";
}

TYPED_TEST(Modes, OrderedWithFailures) {
  auto o = this->in_order();
  o.listeners.on("t", [this](delivery const& d) -> result {
    this->order.add(d.id);
    if (d.id == "b") return failed{"no"};
    if (d.id == "c") throw std::runtime_error{"no"};
    return done;
  });
  auto n = ordered(std::move(o));
  for (auto const* id : {"a", "b", "c", "d"}) this->write(n, id);
  this->start(n);
  ASSERT_TRUE(this->settled());
  EXPECT_THAT(this->order.ids(), ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(this->row("b").status, event_status::dead) << "one attempt";
  EXPECT_EQ(this->row("b").attempts, 1);
  EXPECT_EQ(this->row("c").status, event_status::dead);
  EXPECT_EQ(this->row("d").status, event_status::delivered);
}

TYPED_TEST(Modes, OrderedWithDeferrals) {
  auto o = this->in_order();
  int left = 3;
  o.listeners.on("t", [&, this](delivery const& d) -> result {
    this->order.add(d.id);
    if (d.id == "b" && left-- > 0) return defer{5ms};
    return done;
  });
  auto n = ordered(std::move(o));
  this->write(n, "late", {.deliver_after = 1h});
  for (auto const* id : {"a", "b", "c"}) this->write(n, id);
  this->start(n);
  ASSERT_TRUE(eventually([&] { return this->row("c").status == event_status::delivered; }));
  EXPECT_THAT(this->order.ids(), ElementsAre("a", "b", "b", "b", "b", "c"));
  EXPECT_EQ(this->row("late").status, event_status::created) << "its delay holds up no other event";
}

TYPED_TEST(Modes, OrderedStandbyTakesOver) {
  std::latch in_b{1};
  std::latch go_on{1};
  auto const listener = [&](bool stops) {
    return [&, stops, this](delivery const& d) {
      if (stops && d.id == "b") {
        in_b.count_down();
        go_on.wait();
      }
      this->order.add(d.id);
    };
  };
  auto first_options = this->in_order();
  first_options.listeners.on("t", listener(true));
  auto first = std::make_optional(ordered(std::move(first_options)));
  auto second_options = this->in_order();
  second_options.listeners.on("t", listener(false));
  auto second = ordered(std::move(second_options));
  for (auto const* id : {"a", "b", "c", "d"}) this->write(*first, id);
  this->start(*first);
  in_b.wait();
  second.start();
  EXPECT_FALSE(second.health().active) << "it stands by";
  EXPECT_FALSE(first->stop(0ms)) << "b still runs";
  go_on.count_down();
  first.reset();
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(second.counters().cold_enqueued, 2U) << "c and d";
  EXPECT_THAT(this->order.ids(), ElementsAre("a", "b", "c", "d"));
}

TYPED_TEST(Modes, OrderedRefusesWhatItWouldHaveToIgnore) {
  auto const refused = [&](route_options r) {
    auto o = this->in_order();
    o.listeners.on(
        "t", [](delivery const&) {}, std::move(r));
    try {
      static_cast<void>(ordered(std::move(o)));
    } catch (error const& e) {
      return std::string{e.field()};
    }
    return std::string{"accepted"};
  };
  EXPECT_EQ(refused({}), "accepted");
  EXPECT_EQ(refused({.timeout = 1s}), "accepted");
  EXPECT_EQ(refused({.name = "r", .retry = retry_policy{}}), "route 'r'.retry");
  EXPECT_EQ(refused({.name = "r", .max_in_flight = 1}), "route 'r'.max_in_flight");
}

TYPED_TEST(Modes, ModesThatExcludeEachOtherRefuseToStart) {
  auto n = ordered(this->in_order());
  this->start(n);
  auto other = multi_node({.store = this->db.shared_store(), .log = nullptr});
  try {
    other.start();
    FAIL() << "started";
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::mode_conflict);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("ordered"));
  }
}

TYPED_TEST(Modes, FairDraining) {
  // Both queues have work and there is one worker: of each three turns two are the hot queue's.
  tally paths;
  single_node_options o = this->options();
  o.listeners.on("t", [&](delivery const& d) { paths.add(d.path == path::hot ? "hot" : "cold"); });
  auto n = single_node(std::move(o));
  n.run_until_idle();
  auto elsewhere = writer_only({.store = this->db.shared_store(), .log = nullptr});
  for (int i = 0; i < 3; ++i) this->write(elsewhere, "cold" + std::to_string(i));
  for (int i = 0; i < 8; ++i) this->write(n, "hot" + std::to_string(i));
  EXPECT_EQ(n.run_until_idle(), 11U);
  EXPECT_THAT(paths.ids(), ElementsAre("hot", "hot", "cold", "hot", "hot", "cold", "hot", "hot", "cold", "hot", "hot"));
}

TYPED_TEST(Modes, AsManyListenersAtOnceAsThereAreWorkers) {
  constexpr int workers = 3;
  std::latch all_busy{workers};
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  single_node_options o = this->options();
  o.workers = workers;
  o.listeners.on("t", [&](delivery const& d) {
    int const now = ++running;
    for (int before = most; before < now && !most.compare_exchange_weak(before, now);) {
    }
    if (this->seen.of(d.id) == 0 && !all_busy.try_wait()) all_busy.arrive_and_wait();
    this->seen.add(d.id);
    --running;
  });
  auto n = single_node(std::move(o));
  for (int i = 0; i < 12; ++i) this->write(n, "e" + std::to_string(i));
  this->start(n);
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(most, workers);
  EXPECT_EQ(this->seen.total(), 12U);
}

TYPED_TEST(Modes, InFlightDedupe) {
  // The poller looks all the time while the hot path delivers; no event is seen twice.
  single_node_options o = this->options();
  o.poll.every = 1ms;
  o.listeners.on("t", [this](delivery const& d) { this->seen.add(d.id); });
  auto n = single_node(std::move(o));
  this->start(n);
  for (int i = 0; i < 200; ++i) this->write(n, "e" + std::to_string(i));
  ASSERT_TRUE(this->settled());
  n.stop();
  EXPECT_EQ(this->seen.total(), 200U);
  auto const c = n.counters();
  EXPECT_EQ(c.hot_enqueued + c.cold_enqueued, 200U);
  EXPECT_EQ(c.lost + c.unconfirmed, 0U);
}

TYPED_TEST(Modes, FanOutRemembersWhatIsDone) {
  std::atomic<int> mail = 0;
  std::atomic<int> audit = 0;
  single_node_options o = this->options();
  o.listeners.on("t", fan_out<>{}.to("mail", [&](delivery const&) { ++mail; }).to("audit", [&](delivery const&) {
    if (++audit < 3) throw std::runtime_error{"down"};
  }));
  auto n = single_node(std::move(o));
  this->start(n);
  this->write(n, "a");
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(mail, 1);
  EXPECT_EQ(audit, 3);
  EXPECT_EQ(this->row("a").progress, R"({"audit":"done","mail":"done"})");
}

TYPED_TEST(Modes, AsynchronousListener) {
  std::mutex mutex;
  std::vector<completion> open;
  single_node_options o = this->options();
  o.workers = 1;
  o.listeners.on("t", [&](delivery const& d, completion c) {
    std::lock_guard const lock{mutex};
    this->seen.add(d.id);
    open.push_back(std::move(c));
  });
  auto n = single_node(std::move(o));
  this->start(n);
  for (int i = 0; i < 50; ++i) this->write(n, "e" + std::to_string(i));
  ASSERT_TRUE(this->seen.reach(50)) << "one worker began them all";
  EXPECT_EQ(n.counters().held, 50U);
  std::jthread const elsewhere{[&] {
    std::lock_guard const lock{mutex};
    for (auto& c : open) c(done);
  }};
  ASSERT_TRUE(this->settled());
  EXPECT_TRUE(n.stop(60s));
  EXPECT_EQ(this->seen.total(), 50U);
}

TYPED_TEST(Modes, AnAnswerDuringStopCounts) {
  std::latch begun{1};
  std::optional<completion> open;
  single_node_options o = this->options();
  o.listeners.on("t", [&](delivery const&, completion c) {
    open = std::move(c);
    begun.count_down();
  });
  auto n = single_node(std::move(o));
  this->start(n);
  this->write(n, "a");
  begun.wait();
  std::jthread const elsewhere{[&] { (*open)(done); }};
  EXPECT_TRUE(n.stop(1min));
  EXPECT_EQ(this->row("a").status, event_status::delivered);
}

TYPED_TEST(Modes, AnAnswerThatMissesTheStopIsGivenUp) {
  std::latch begun{1};
  std::optional<completion> open;
  single_node_options o = this->options();
  o.listeners.on("t", [&](delivery const&, completion c) {
    open = std::move(c);
    begun.count_down();
  });
  auto n = std::make_optional(single_node(std::move(o)));
  this->start(*n);
  this->write(*n, "a");
  begun.wait();
  EXPECT_FALSE(n->stop(0ms));
  n.reset();
  EXPECT_EQ(this->row("a").status, event_status::retry);
  EXPECT_EQ(this->row("a").locked_by, "") << "another node may claim it at once";
  (*open)(done);
  EXPECT_EQ(this->row("a").status, event_status::retry) << "no listener is left";
}

TYPED_TEST(Modes, ACallThatDetachesDuringTheDestructorIsGivenUpToo) {
  std::latch begun{1};
  std::latch go_on{1};
  std::optional<completion> open;
  single_node_options o = this->options();
  o.stop_timeout = 0ms;
  o.listeners.on("t", [&](delivery const&, completion c) {
    open = std::move(c);
    begun.count_down();
    go_on.wait();
  });
  auto n = std::make_optional(single_node(std::move(o)));
  this->start(*n);
  this->write(*n, "a");
  begun.wait();
  EXPECT_FALSE(n->stop(0ms));
  std::jthread const ends{[&] { go_on.count_down(); }};
  n.reset();
  EXPECT_EQ(this->row("a").status, event_status::retry);
  EXPECT_EQ(this->row("a").locked_by, "");
  EXPECT_EQ(this->row("a").crashes, 0);
}

TYPED_TEST(Modes, Batches) {
  single_node_options o = this->options();
  o.listeners.on_batch("t", [this](std::span<delivery const> batch) {
    for (auto const& d : batch) this->seen.add(d.id);
    return std::vector<result>(batch.size(), done);
  });
  auto n = single_node(std::move(o));
  std::vector<event> events;
  for (int i = 0; i < 300; ++i) events.push_back(event::json("t", "1"));
  this->db.transact(true, [&](auto& tx) { n.writer().write_all(tx, events); });
  this->start(n);
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->seen.total(), 300U);
}

TYPED_TEST(Modes, PauseAndResume) {
  single_node_options o = this->options();
  o.listeners.on("t", [this](delivery const& d) { this->seen.add(d.id); });
  o.listeners.on("mail", [this](delivery const& d) { this->seen.add(d.id); });
  auto n = single_node(std::move(o));
  n.pause({"mail"});
  this->start(n);
  this->db.transact(true, [&](auto& tx) { n.writer().write(tx, "mail", "1", {.id = "m"}); });
  this->write(n, "a");
  ASSERT_TRUE(this->seen.reach(1));
  EXPECT_EQ(n.poll_once(), 0U) << "a claim leaves it";
  EXPECT_EQ(this->seen.of("m"), 0);
  n.resume({"mail"});
  ASSERT_TRUE(this->settled());
  EXPECT_EQ(this->seen.of("m"), 1);
}

// The comparison table of the specification: who counts, who waits how long.
struct retry_row {
  char const* mechanism;
  std::function<result()> answer;
  event_status status;
  std::int32_t attempts;
  std::optional<std::chrono::milliseconds> delay;  // nothing: the policy's
};

TYPED_TEST(Modes, RetryComparisonTable) {
  retry_row const table[] = {
      {"defer (RetryAfter)",
       [] {
         return result{defer{5min, "w"}};
       },
       event_status::created, 0, 5min},
      {"dead (Dead)", [] { return result{dead{"w"}}; }, event_status::dead, 0, {}},
      {"failure with a wait (RetryAfterException)",
       []() -> result {
         throw failure{"w", 5min};
       },
       event_status::retry, 1, 5min},
      {"failed with a wait",
       [] {
         return result{failed{"w", 5min}};
       },
       event_status::retry, 1, 5min},
      {"permanent_failure (UnrecoverableException)",
       []() -> result { throw permanent_failure{"w"}; },
       event_status::dead,
       0,
       {}},
      {"another exception", []() -> result { throw std::runtime_error{"w"}; }, event_status::retry, 1, {}},
      {"failed", [] { return result{failed{"w"}}; }, event_status::retry, 1, {}},
  };
  for (auto const& row : table) {
    SCOPED_TRACE(row.mechanism);
    TypeParam fresh{backend_clock::machine};
    single_node_options o{.store = fresh.shared_store(), .log = nullptr};
    o.retry.backoff = {.base = 1h, .cap = 1h};
    o.listeners.on("t", [&](delivery const&) { return row.answer(); });
    auto n = single_node(std::move(o));
    fresh.transact(true, [&](auto& tx) { n.writer().write(tx, "t", "1", {.id = "a"}); });
    EXPECT_EQ(n.run_until_idle(), 1U);
    auto const r = fresh.shared_store()->inspect().find("a").value();
    EXPECT_EQ(r.status, row.status);
    EXPECT_EQ(r.attempts, row.attempts);
    EXPECT_EQ(r.last_error, "w");
    if (r.status == event_status::dead) continue;
    auto const wait = r.available_at - r.inserted_at;
    if (row.delay) {
      EXPECT_GE(wait, *row.delay);
      EXPECT_LT(wait, *row.delay + 1min);
    } else {
      EXPECT_GE(wait, 30min) << "an hour, and jitter";
      EXPECT_LT(wait, 91min);
    }
  }
}

}  // namespace
}  // namespace outbox::acceptance
