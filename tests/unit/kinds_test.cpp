// Kinds of listeners: fan_out, asynchronous ones, batches, limits; and paused routes. On one thread, on a clock that
// stands still.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/testing.hpp>
#include <thread>

namespace outbox {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct paid {
  static constexpr std::string_view event_type = "paid";
  int amount = 0;
};
int encoded_times = 0;
int decoded_times = 0;

}  // namespace

template <>
struct codec<paid> {
  static encoded encode(paid const& p) {
    ++encoded_times;
    return {std::to_string(p.amount)};
  }
  static paid decode(event const& e) {
    ++decoded_times;
    if (e.payload() == "null") throw std::runtime_error{"no amount"};
    return {std::stoi(e.payload())};
  }
};

namespace {

class Kinds : public ::testing::Test {
 protected:
  node& make(single_node_options o = {}) {
    o.store = table;
    o.clock = clock;
    o.log = nullptr;
    o.listeners = std::exchange(l, listeners{});
    o.interceptors = {seen};
    o.retry = {.max_attempts = 3, .backoff = {.base = 100ms, .cap = 100ms}};
    n.emplace(single_node(std::move(o)));
    n->run_until_idle();
    return *n;
  }
  void write(std::string const& id, std::string const& type = "t", std::string payload = "1") {
    memory::transaction tx{*table};
    event_options o;
    o.id = id;
    n->writer().write(tx, type, std::move(payload), std::move(o));
    tx.commit();
  }
  void settle_all() { testing::run_until_done(*n, *clock, *table); }
  row_view row(std::string const& id) { return table->inspect().find(id).value(); }

  std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>();
  std::shared_ptr<store> table = memory::open({.clock = clock});
  std::shared_ptr<testing::recorder> seen = std::make_shared<testing::recorder>();
  listeners l;
  std::optional<node> n;
};

using FanOut = Kinds;

TEST_F(FanOut, CallsEveryChild) {
  int a = 0;
  int b = 0;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&) { ++a; }).to("b", [&](delivery const&) { ++b; }));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 1);
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(FanOut, ARetryRepeatsOnlyTheRest) {
  int a = 0;
  int b = 0;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&) { ++a; }).to("b", [&](delivery const&) -> result {
    if (++b < 3) return failed{"down"};
    return done;
  }));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry);
  EXPECT_EQ(row("e").last_error, "b: down");
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_EQ(row("e").progress, R"({"a":"done"})");
  settle_all();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 3);
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(FanOut, FailureBeatsDeferralBeatsDeath) {
  std::vector<result> answers;
  auto const child = [&](std::size_t i) { return [&, i](delivery const&) { return answers.at(i); }; };
  l.on("t", fan_out<>{}.to("a", child(0)).to("b", child(1)).to("c", child(2)));
  make();
  answers = {dead{"gone"}, defer{5s, "wait"}, failed{"down", 700ms}};
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry);
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_EQ(row("e").available_at - clock->now(), 700ms) << "the wait that a child asked for";

  answers = {failed{"must not be asked again"}, defer{5s, "wait"}, defer{2s, "briefly"}};
  clock->advance(700ms);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::created);
  EXPECT_EQ(row("e").attempts, 1) << "not counted";
  EXPECT_EQ(row("e").available_at - clock->now(), 2s) << "the shortest delay";
  EXPECT_EQ(row("e").last_error, "c: briefly");

  answers = {failed{"must not be asked again"}, done, done};
  clock->advance(2s);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::dead);
  EXPECT_EQ(row("e").last_error, "a is dead: gone");
}

TEST_F(FanOut, WhatAChildThrowsIsItsAnswer) {
  int last = 0;
  l.on("t", fan_out<>{}
                .to("a", [](delivery const&) { throw permanent_failure{"never"}; })
                .to("b", [](delivery const&) { throw std::runtime_error{"oops"}; })
                .to("c", [&](delivery const&) { ++last; }));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(last, 1);
  EXPECT_EQ(row("e").last_error, "b: oops");
  EXPECT_EQ(row("e").progress, R"({"a":"dead: never","c":"done"})");
}

TEST_F(FanOut, ReplayKeepsWhatIsDone) {
  int a = 0;
  bool up = false;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&) { ++a; }).to("b", [&](delivery const&) -> result {
    if (up) return done;
    return failed{"down"};
  }));
  make();
  write("e");
  settle_all();
  ASSERT_EQ(row("e").status, event_status::dead);
  up = true;
  EXPECT_TRUE(n->dead_events().replay("e"));
  settle_all();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(FanOut, ReplayTriesAgainWhatDied) {
  int a = 0;
  bool repaired = false;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&) { ++a; }).to("b", [&](delivery const&) -> result {
    if (repaired) return done;
    return dead{"no such address"};
  }));
  make();
  write("e");
  n->run_until_idle();
  ASSERT_EQ(row("e").status, event_status::dead);
  EXPECT_EQ(row("e").last_error, "b is dead: no such address");
  repaired = true;
  EXPECT_TRUE(n->dead_events().replay("e"));
  n->run_until_idle();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(FanOut, ATimeoutRemembersWhatIsDone) {
  int a = 0;
  std::vector<completion> open;
  l.on("t",
       fan_out<>{}
           .to("a", [&](delivery const&) { ++a; })
           .to("b", [&](delivery const&, completion c) { open.push_back(std::move(c)); })
           .to("c", [&](delivery const&, completion c) { open.push_back(std::move(c)); }),
       {.timeout = 1s});
  make();
  write("e");
  n->run_until_idle();
  open.at(0)(done);
  clock->advance(1s);
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_EQ(row("e").progress, R"({"a":"done","b":"done"})");
  clock->advance(1s);
  n->run_until_idle();
  EXPECT_EQ(a, 1);
  EXPECT_THAT(open, SizeIs(3)) << "only c was asked again";
}

TEST_F(FanOut, WhatOutlivesTheNodeDoesNotKeepItsListeners) {
  auto const kept = std::make_shared<int>(1);
  std::optional<completion> open;
  l.on("t", fan_out<>{}.to("a", [&open, kept](delivery const&, completion c) { open = std::move(c); }));
  make();
  write("e");
  n->run_until_idle();
  ASSERT_TRUE(open);
  n.reset();
  EXPECT_EQ(kept.use_count(), 1);
  (*open)(done);
}

TEST_F(FanOut, TypedChildren) {
  int total = 0;
  l.on(fan_out<paid>{}
           .to("sum", [&](paid const& p) { total += p.amount; })
           .to("twice", [&](paid const& p, delivery const&) { total += 2 * p.amount; }));
  make();
  write("e", "paid", "14");
  n->run_until_idle();
  EXPECT_EQ(total, 42);
}

TEST_F(FanOut, AsynchronousChildrenAnswerInAnyOrder) {
  std::optional<completion> first;
  std::optional<completion> second;
  l.on("t", fan_out<>{}
                .to("a", [&](delivery const&, completion c) { first = std::move(c); })
                .to("b", [&](delivery const&, completion c) { second = std::move(c); })
                .to("c", [](delivery const&) {}));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(n->counters().held, 1U);
  (*second)(done);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::created) << "one is still open";
  (*first)(failed{"down"});
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry);
  EXPECT_EQ(row("e").progress, R"({"b":"done","c":"done"})");
}

TEST_F(FanOut, AChildThatThrowsAfterItTookItsCompletionHasFailed) {
  std::optional<completion> kept;
  l.on("t", fan_out<>{}.to("a", [&](delivery const&, completion c) {
    kept = std::move(c);
    throw std::runtime_error{"oops"};
  }));
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").last_error, "a: oops");
  (*kept)(done);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry) << "it answered before";
}

TEST_F(FanOut, NamesAreNeededAndUnique) {
  auto const nothing = [](delivery const&) {};
  EXPECT_THROW(l.on("t", fan_out<>{}), error);
  EXPECT_THROW(l.on("t", fan_out<>{}.to("", nothing)), error);
  try {
    l.on("t", fan_out<>{}.to("mail", nothing).to("mail", nothing));
    FAIL();
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option);
    EXPECT_THAT(e.what(), HasSubstr("two listeners named 'mail'"));
  }
}

using Asynchronous = Kinds;

TEST_F(Asynchronous, AnswersLaterFromAnotherThread) {
  std::optional<completion> answer;
  l.on("t", [&](delivery const&, completion c) { answer = std::move(c); });
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(n->counters().held, 1U);
  EXPECT_EQ(row("e").status, event_status::created);
  std::thread{[&] { (*answer)(done); }}.join();
  EXPECT_FALSE(*answer) << "it owes nothing any more";
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::delivered);
  EXPECT_THAT(seen->ids(), ElementsAre("e")) << "interceptors hear of the end";
}

TEST_F(Asynchronous, MayAnswerDuringTheCall) {
  l.on("t", [&](delivery const&, completion c) { c(defer{5s, "not yet"}); });
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").last_error, "not yet");
}

TEST_F(Asynchronous, DroppedMeansFailed) {
  l.on("t", [&](delivery const&, completion) {});
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_THAT(row("e").last_error, HasSubstr("dropped"));
}

TEST_F(Asynchronous, ReplacedMeansFailedToo) {
  completion held;
  l.on("t", [&](delivery const&, completion c) { held = std::move(c); });
  make();
  write("a");
  write("b");
  n->run_until_idle();
  EXPECT_THAT(row("a").last_error, HasSubstr("dropped"));
  EXPECT_EQ(row("b").attempts, 0);
  held(done);
  n->run_until_idle();
  EXPECT_EQ(row("b").status, event_status::delivered);
}

TEST_F(Asynchronous, AThrowSaysMoreThanADrop) {
  l.on("t", [&](delivery const&, completion) { throw permanent_failure{"bad address"}; });
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::dead);
  EXPECT_EQ(row("e").last_error, "bad address");
}

TEST_F(Asynchronous, TheFirstAnswerOfManyHandsCounts) {
  std::optional<shared_completion> hands;
  l.on("t", [&](delivery const&, completion c) { hands = std::move(c).share(); });
  make();
  write("e");
  n->run_until_idle();
  auto const other = *hands;
  other(dead{"first"});
  (*hands)(done);
  n->run_until_idle();
  EXPECT_EQ(row("e").last_error, "first");
}

TEST_F(Asynchronous, TheLastCopyDroppedMeansFailed) {
  std::optional<shared_completion> hands;
  l.on("t", [&](delivery const&, completion c) { hands = std::move(c).share(); });
  make();
  write("e");
  n->run_until_idle();
  auto other = std::optional{*hands};
  hands.reset();
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 0);
  other.reset();
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 1);
}

TEST_F(Asynchronous, CrossesACallbackAsAPointer) {
  void* user_data = nullptr;
  l.on("t", [&](delivery const&, completion c) { user_data = c.release(); });
  make();
  write("e");
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 0) << "released is not dropped";
  completion::adopt(user_data)(done);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::delivered);
}

TEST_F(Asynchronous, AnswersAfterItsTimeoutCountForNothing) {
  std::vector<completion> answers;
  l.on("t", [&](delivery const&, completion c) { answers.push_back(std::move(c)); }, {.timeout = 2s});
  make();
  write("e");
  n->run_until_idle();
  clock->advance(2s);
  n->run_until_idle();
  EXPECT_EQ(row("e").attempts, 1);
  EXPECT_THAT(row("e").last_error, HasSubstr("2000 ms"));
  EXPECT_TRUE(n->counters().timed_out == 1);
  answers[0](done);
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::retry);
  EXPECT_EQ(n->counters().late_results, 1U);
}

TEST_F(Asynchronous, AnAnswerThatWaitsForItsWorkerIsInTime) {
  std::optional<completion> answer;
  l.on("t", [&](delivery const&, completion c) { answer = std::move(c); }, {.timeout = 2s});
  make();
  write("e");
  n->run_until_idle();
  (*answer)(done);
  clock->advance(3s);  // past the timeout before anybody looked
  n->run_until_idle();
  EXPECT_EQ(row("e").status, event_status::delivered);
  EXPECT_EQ(n->counters().timed_out, 0U);
}

TEST_F(Asynchronous, MayOutliveTheNode) {
  std::optional<completion> answer;
  l.on("t", [&](delivery const&, completion c) { answer = std::move(c); });
  make();
  write("e");
  n->run_until_idle();
  n.reset();
  EXPECT_EQ(row("e").status, event_status::retry) << "given back, and it says that it was tried";
  EXPECT_EQ(row("e").attempts, 0);
  EXPECT_EQ(row("e").locked_by, "");
  (*answer)(done);
  EXPECT_EQ(row("e").status, event_status::retry);
}

TEST_F(Asynchronous, WhatTheLastNodeLeftOpenMayBeADuplicate) {
  std::optional<completion> answer;
  l.on("t", [&](delivery const&, completion c) { answer = std::move(c); });
  make();
  write("e");
  n->run_until_idle();
  n.reset();
  l.on("t", [](delivery const&) {});
  make();
  ASSERT_THAT(seen->deliveries(), SizeIs(1));
  EXPECT_TRUE(seen->deliveries()[0].maybe_duplicate);
}

TEST_F(Asynchronous, AReadyMadeEventIsWrittenUnderItsId) {
  l.on("t", [](delivery const&) {});
  make();
  memory::transaction tx{*table};
  auto const e = event::json("t", "1");
  EXPECT_EQ(n->writer().write(tx, e).str(), e.id());
  tx.commit();
  n->run_until_idle();
  EXPECT_EQ(row(e.id()).status, event_status::delivered);
}

using Typed = Kinds;

TEST_F(Typed, ACodecIsAskedOncePerWriteAndOncePerDelivery) {
  l.on<paid>([](paid const& p) -> result {
    if (p.amount == 1) return failed{"again"};
    return done;
  });
  make();
  encoded_times = decoded_times = 0;
  memory::transaction tx{*table};
  n->writer().write(tx, paid{2});
  n->writer().write(tx, paid{1});
  tx.commit();
  EXPECT_EQ(encoded_times, 2);
  settle_all();
  EXPECT_EQ(decoded_times, 1 + 3) << "three attempts of the second";
}

TEST_F(Typed, APlainListenerThatCannotDecodeMakesTheEventDeadAtOnce) {
  int amount = 0;
  l.on("paid", [&](delivery const& d) { amount += decode<paid>(d.event).amount; });
  make();
  write("good", "paid", "14");
  write("bad", "paid", "null");
  settle_all();
  EXPECT_EQ(amount, 14);
  EXPECT_EQ(row("bad").status, event_status::dead);
  EXPECT_EQ(row("bad").attempts, 0);
  EXPECT_THAT(row("bad").last_error, HasSubstr("cannot decode the payload of 'paid'"));
  EXPECT_EQ(seen->count("bad"), 1U);
}

using Batches = Kinds;

TEST_F(Batches, TakeWhatWaits) {
  std::vector<std::size_t> sizes;
  l.on_batch("t",
             [&](std::span<delivery const> batch) {
               sizes.push_back(batch.size());
               return std::vector<result>(batch.size(), done);
             },
             {.max_batch = 3});
  make();
  for (auto const* id : {"a", "b", "c", "d"}) write(id);
  n->run_until_idle();
  EXPECT_THAT(sizes, ElementsAre(3, 1));
  EXPECT_EQ(table->inspect().counts().done, 4U);
  EXPECT_THAT(seen->ids(), ElementsAre("a", "b", "c", "d"));
}

TEST_F(Batches, EachEventHasItsOwnResult) {
  l.on_batch("t", [&](std::span<delivery const>) {
    return std::vector<result>{done, failed{"down"}, defer{1s, "wait"}, dead{"bad"}};
  });
  make();
  for (auto const* id : {"a", "b", "c", "d"}) write(id);
  n->run_until_idle();
  EXPECT_EQ(row("a").status, event_status::delivered);
  EXPECT_EQ(row("b").status, event_status::retry);
  EXPECT_EQ(row("c").last_error, "wait");
  EXPECT_EQ(row("d").status, event_status::dead);
}

TEST_F(Batches, AThrowOrAWrongNumberIsAFailureOfAll) {
  bool wrong_number = false;
  l.on_batch("t", [&](std::span<delivery const>) -> std::vector<result> {
    if (wrong_number) return {done};
    throw std::runtime_error{"broker is down"};
  });
  make();
  write("a");
  write("b");
  n->run_until_idle();
  EXPECT_EQ(row("a").last_error, "broker is down");
  EXPECT_EQ(row("b").attempts, 1);
  wrong_number = true;
  clock->advance(1s);
  n->run_until_idle();
  EXPECT_EQ(row("a").last_error, "the listener gave 1 results for 2 events");
}

TEST_F(Batches, OtherRoutesAreNotMixedIn) {
  std::vector<std::string> batch_ids;
  l.on_batch("t", [&](std::span<delivery const> batch) {
    for (auto const& d : batch) batch_ids.push_back(d.id);
    return std::vector<result>(batch.size(), done);
  });
  l.on("other", [](delivery const&) {});
  make();
  write("a");
  write("x", "other");
  write("b");
  n->run_until_idle();
  EXPECT_THAT(batch_ids, ElementsAre("a", "b"));
  EXPECT_EQ(row("x").status, event_status::delivered);
}

TEST_F(Batches, WhatCannotBeDecodedIsDeadAndTheRestIsDelivered) {
  int total = 0;
  l.on_batch<paid>([&](std::span<paid const> values, std::span<delivery const> d) {
    EXPECT_EQ(values.size(), d.size());
    for (auto const& p : values) total += p.amount;
    return std::vector<result>(values.size(), done);
  });
  make();
  write("a", "paid", "40");
  write("bad", "paid", "null");
  write("b", "paid", "2");
  n->run_until_idle();
  EXPECT_EQ(total, 42);
  EXPECT_EQ(row("bad").status, event_status::dead);
  EXPECT_THAT(row("bad").last_error, HasSubstr("cannot decode"));
}

TEST_F(Batches, AWrongNumberIsNoticedAlsoBesideWhatCannotBeDecoded) {
  l.on_batch<paid>([&](std::span<paid const>, std::span<delivery const>) { return std::vector<result>{done, done}; });
  make();
  write("bad", "paid", "null");
  write("good", "paid", "1");
  n->run_until_idle();
  EXPECT_EQ(row("good").last_error, "the listener gave 2 results for 1 events");
  EXPECT_NE(row("bad").status, event_status::delivered);
}

using InFlight = Kinds;

TEST_F(InFlight, ALimitedRouteLeavesTheSlotsToOthers) {
  std::vector<completion> open;
  l.on("slow", [&](delivery const&, completion c) { open.push_back(std::move(c)); },
       {.timeout = 2s, .max_in_flight = 1});
  l.on("t", [](delivery const&) {});
  single_node_options o;
  o.poll.batch = 4;
  o.queue = {.hot = 8, .cold = 8};
  make(std::move(o));
  auto elsewhere = writer_only({.store = table, .log = nullptr, .clock = clock});
  auto const put = [&](std::string const& id, std::string const& type) {
    memory::transaction tx{*table};
    elsewhere.writer().write(tx, type, "1", {.id = id});
    tx.commit();
  };
  for (int i = 0; i < 50; ++i) put("slow" + std::to_string(i), "slow");
  for (int i = 0; i < 20; ++i) write("hot" + std::to_string(i), "slow");
  put("x", "t");
  n->run_until_idle();
  EXPECT_EQ(row("x").status, event_status::delivered) << "although seventy older ones wait";
  EXPECT_LE(n->counters().held, 8U);
  // And the slow ones go on, one at a time.
  for (std::size_t i = 0; i < 70; ++i) {
    ASSERT_EQ(open.size(), i + 1);
    open.back()(done);
    n->run_until_idle();
  }
  EXPECT_EQ(table->inspect().counts().done, 71U);
  EXPECT_EQ(n->counters().timed_out, 0U);
}

TEST_F(InFlight, ARouteHasItsLimitAndOthersGoOn) {
  std::vector<completion> open;
  std::size_t most = 0;
  l.on("slow",
       [&](delivery const&, completion c) {
         open.push_back(std::move(c));
         most = std::max(most, open.size());
       },
       {.max_in_flight = 2});
  l.on("t", [](delivery const&) {});
  make();
  for (auto const* id : {"a", "b", "c"}) write(id, "slow");
  write("x");
  n->run_until_idle();
  EXPECT_EQ(open.size(), 2U);
  EXPECT_EQ(row("x").status, event_status::delivered) << "not behind c";
  open.front()(done);
  open.erase(open.begin());
  n->run_until_idle();
  EXPECT_EQ(open.size(), 2U);
  for (auto& c : open) c(done);
  open.clear();
  n->run_until_idle();
  EXPECT_EQ(table->inspect().counts().done, 4U);
  EXPECT_EQ(most, 2U);
}

TEST_F(InFlight, ATimedOutCallGivesItsPlaceBack) {
  std::vector<completion> open;
  l.on("slow", [&](delivery const&, completion c) { open.push_back(std::move(c)); },
       {.timeout = 1s, .max_in_flight = 1});
  make();
  write("a", "slow");
  write("b", "slow");
  n->run_until_idle();
  ASSERT_THAT(open, SizeIs(1));
  clock->advance(1s);
  n->run_until_idle();
  clock->advance(1s);  // b waited in the queue as long as its own timeout and was given back
  n->run_until_idle();
  EXPECT_GE(open.size(), 2U);
}

TEST_F(InFlight, ZeroIsRefused) {
  EXPECT_THROW(l.on("t", [](delivery const&) {}, {.max_in_flight = 0}), error);
}

using Pauses = Kinds;

TEST_F(Pauses, APausedRouteWaitsAndTheRestGoesOn) {
  l.on("t", [](delivery const&) {}).on("mail", [](delivery const&) {});
  make();
  EXPECT_TRUE(n->pause({"mail"}));
  EXPECT_FALSE(n->pause({"mail"}));
  write("m", "mail");
  write("e");
  n->run_until_idle();
  clock->advance(1h);
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), ElementsAre("e"));
  EXPECT_EQ(row("m").locked_by, "") << "nobody holds it";
  EXPECT_TRUE(n->resume({"mail"}));
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), ElementsAre("e", "m"));
}

TEST_F(Pauses, WhatIsQueuedGoesBack) {
  l.on("mail", [](delivery const&) {});
  make();
  write("m", "mail");  // in the hot queue
  n->pause({"mail"});
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), IsEmpty());
  EXPECT_EQ(row("m").locked_by, "");
  EXPECT_EQ(row("m").crashes, 0);
}

TEST_F(Pauses, ACommitAfterThePauseIsNotDelivered) {
  l.on("mail", [](delivery const&) {});
  make();
  memory::transaction tx{*table};
  n->writer().write(tx, "mail", "1", {.id = "m"});
  n->pause({"mail"});
  tx.commit();
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), IsEmpty());
  EXPECT_EQ(row("m").locked_by, "");
}

TEST_F(Pauses, OtherNodesAndLaterLivesFollow) {
  l.on("mail", [](delivery const&) {});
  make();
  table->backend().pause({"mail", ""});  // a tool did that
  clock->advance(8s);                    // more than a quarter of a lease
  n->run_until_idle();
  write("m", "mail");
  n->run_until_idle();
  EXPECT_THAT(seen->ids(), IsEmpty());
  n.reset();
  l.on("mail", [](delivery const&) {});
  make();
  EXPECT_THAT(seen->ids(), IsEmpty()) << "a new node knows before its first claim";
  EXPECT_THAT(n->paused(), ElementsAre(route_pause{"mail", ""}));
}

TEST_F(Pauses, NeedTextThatAColumnCanHold) {
  make();
  auto const field_of = [&](auto&& call) {
    try {
      call();
    } catch (error const& e) {
      EXPECT_EQ(e.code(), errc::invalid_option);
      return std::string{e.field()};
    }
    return std::string{"accepted"};
  };
  auto const refused = [&](route_pause const& p) {
    EXPECT_EQ(field_of([&] { n->resume(p); }), field_of([&] { n->pause(p); }));
    return field_of([&] { n->pause(p); });
  };
  EXPECT_EQ(refused({}), "pause.event_type");
  EXPECT_EQ(refused({std::string(129, 'x')}), "pause.event_type");
  EXPECT_EQ(refused({"\xFF"}), "pause.event_type");
  EXPECT_EQ(refused({std::string{"a\0b", 3}}), "pause.event_type");
  EXPECT_EQ(refused({"mail", std::string{"\0", 1}}), "pause.aggregate_type");
  EXPECT_EQ(refused({"mail", std::string(65, 'x')}), "pause.aggregate_type");
  EXPECT_EQ(refused({"mail"}), "accepted");
}

using Stepped = Kinds;

TEST_F(Stepped, DeliversWhatIsDueAndSaysHowMany) {
  l.on("t", [](delivery const&) {});
  make();
  write("a");
  write("b");
  EXPECT_EQ(n->run_until_idle(), 2U);
  EXPECT_EQ(n->run_until_idle(), 0U);
}

TEST_F(Stepped, ManualTimeBringsRetriesAtOnce) {
  l.on("t", [](delivery const& d) -> result {
    if (d.attempt < 3) return failed{"again"};
    return done;
  });
  make();
  write("a");
  EXPECT_EQ(testing::run_until_done(*n, *clock, *table), 3U);
  EXPECT_EQ(seen->count("a"), 3U);
}

TEST_F(Stepped, IsNotForAStartedNodeNorForAStoppedOne) {
  make();
  n->stop();
  EXPECT_THROW(n->run_until_idle(), error);
  auto other = multi_node({.store = table, .log = nullptr});
  other.start();
  EXPECT_THROW(other.run_until_idle(), error);
}

TEST_F(Stepped, IsNotForANodeThatOnlyWrites) {
  make();
  n->stop();
  memory::transaction tx{*table};
  auto writer = writer_only({.store = table, .log = nullptr});
  writer.writer().write(tx, "t", "1", {.id = "a"});
  tx.commit();
  EXPECT_THROW(writer.run_until_idle(), error);
  EXPECT_EQ(row("a").status, event_status::created) << "nobody killed it for want of a listener";
}

TEST_F(Stepped, AListenerMayStopItsNodeButNotRunIt) {
  bool nested = false;
  l.on("t", [&](delivery const&) {
    try {
      n->run_until_idle();
    } catch (error const& e) {
      nested = e.code() == errc::lifecycle;
    }
    EXPECT_FALSE(n->stop()) << "it only asks";
  });
  make();
  write("a");
  write("b");
  n->run_until_idle();
  EXPECT_TRUE(nested);
  EXPECT_TRUE(n->stop());
}

TEST_F(Stepped, StopSaysWhetherEverythingWasFinished) {
  std::optional<completion> open;
  l.on("t", [&](delivery const&, completion c) { open = std::move(c); });
  make();
  write("a");
  n->run_until_idle();
  EXPECT_FALSE(n->stop());
}

TEST_F(Stepped, SomethingWithoutEndIsAnError) {
  l.on("t",
       [](delivery const&) {
         return result{failed{"never", 0ms}};
       },
       {.retry = retry_policy{.max_attempts = 1'000'000}});
  make();
  write("a");
  EXPECT_THROW(n->run_until_idle(), error);
}

TEST(Recording, TheHookHearsOfWritesAndEnds) {
  auto const table = memory::open();
  auto const hook = std::make_shared<testing::recording_hook>();
  auto n = writer_only({.store = table, .hook = hook});
  {
    memory::transaction tx{*table};
    n.writer().write(tx, "t", "1", {.id = "a"});
    tx.commit();
  }
  {
    memory::transaction tx{*table};
    n.writer().write(tx, "t", "1", {.id = "b"});
  }
  EXPECT_THAT(hook->written(), ElementsAre("a", "b"));
  EXPECT_THAT(hook->committed(), ElementsAre("a"));
  EXPECT_THAT(hook->rolled_back(), ElementsAre("b"));
}

}  // namespace
}  // namespace outbox
