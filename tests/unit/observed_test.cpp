// What can be observed from outside: metrics, log lines, errors, and what hooks and operators are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <latch>
#include <map>
#include <mutex>
#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/testing.hpp>
#include <set>
#include <thread>

#include <outbox/spi/forwarding_store.hpp>
#include "support/log_lines.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace spi;

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct amount {
  static constexpr std::string_view event_type = "amount";
};

}  // namespace

template <>
struct codec<amount> {
  static encoded encode(amount const&) { return {"2"}; }
  static amount decode(event const& e) {
    if (e.payload() != "2") throw std::runtime_error{"not two"};
    return {};
  }
};

namespace {

struct recording_metrics final : metrics {
  void add(counter c, std::uint64_t n) noexcept override { counters[full_name(c)] += n; }
  void set(gauge g, std::int64_t v) noexcept override {
    gauges[full_name(g)] = v;
    most[full_name(g)] = std::max(most[full_name(g)], v);
  }
  std::map<std::string, std::uint64_t> counters;
  std::map<std::string, std::int64_t> gauges, most;
};

/// Keeps what has a route. Only for a node without threads.
struct route_metrics final : metrics {
  void add(counter c, std::uint64_t n) noexcept override { counters[{full_name(c), "all"}] += n; }
  void add_for_route(counter c, std::uint64_t n, std::string_view route) noexcept override {
    counters[{full_name(c), std::string{route}}] += n;
  }
  void set(gauge, std::int64_t) noexcept override {}
  void attach(std::span<std::string const> names) override { routes.assign(names.begin(), names.end()); }
  void observe(histogram h, double value, std::string_view route) noexcept override {
    observed[{full_name(h), std::string{route}}].push_back(value);
  }
  [[nodiscard]] std::vector<double> of(histogram h, std::string const& route = {}) const {
    auto const found = observed.find({full_name(h), route});
    return found == observed.end() ? std::vector<double>{} : found->second;
  }
  std::vector<std::string> routes;
  std::map<std::pair<std::string, std::string>, std::uint64_t> counters;
  std::map<std::pair<std::string, std::string>, std::vector<double>> observed;
};

class Observed : public ::testing::Test {
 protected:
  single_node_options options() {
    single_node_options o{.store = faulty, .listeners = std::move(l)};
    o.clock = clock;
    o.metrics = figures;
    o.retry = {.max_attempts = 2, .backoff = {.base = 100ms, .cap = 100ms}};
    o.log = [this](log_line const& line) { log.push_back(without_source(line)); };
    return o;
  }
  void write(node& n, std::string const& id, std::string const& type = "t", event_options o = {}) {
    memory::transaction tx{*table};
    o.id = id;
    n.writer().write(tx, type, "1", std::move(o));
    tx.commit();
  }
  void fail(testing::operation what, testing::fault how, int times = 1) {
    what_fails = what;
    how_it_fails = how;
    failures = times;
  }
  int times(testing::operation what) { return asked.at(static_cast<std::size_t>(what)); }
  row_view row(std::string const& id) { return table->inspect().find(id).value(); }

  std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>();
  std::shared_ptr<outbox::store> table = memory::open({.clock = clock});
  testing::operation what_fails{};
  testing::fault how_it_fails = testing::fault::none;
  int failures = 0;
  std::array<std::atomic<int>, 16> asked{};  ///< How often, by operation; the node's threads count too.
  std::shared_ptr<outbox::store> faulty =
      std::make_shared<testing::faulty_store>(table, [this](testing::operation what) {
        asked.at(static_cast<std::size_t>(what)) += 1;
        return what == what_fails && failures > 0 ? (--failures, how_it_fails) : testing::fault::none;
      });
  std::shared_ptr<recording_metrics> figures = std::make_shared<recording_metrics>();
  std::vector<std::string> log;
  listeners l;
};

TEST_F(Observed, OutcomesAndDurationsHaveTheirRoute) {
  l.on("paid",
       [&](delivery const& d) -> result {
         clock->advance(250ms);
         if (d.id == "bad") return dead{"x"};
         return done;
       },
       {.name = "billing"});
  l.on("shipped", [](delivery const&) {});
  auto const by_route = std::make_shared<route_metrics>();
  auto o = options();
  o.metrics = by_route;
  auto n = single_node(std::move(o));
  write(n, "late", "paid", {.occurred_at = clock->now() - 2s});
  n.run_until_idle();
  write(n, "bad", "paid", {.occurred_at = clock->now()});
  write(n, "parcel", "shipped", {.occurred_at = clock->now() + 1h});
  write(n, "nobody", "unknown");
  n.run_until_idle();
  using key = std::pair<std::string, std::string>;
  EXPECT_EQ((by_route->counters.at(key{"outbox.dispatch.success", "billing"})), 1U);
  EXPECT_EQ((by_route->counters.at(key{"outbox.dispatch.dead", "billing"})), 1U);
  EXPECT_EQ((by_route->counters.at(key{"outbox.dispatch.success", "shipped"})), 1U);
  EXPECT_EQ((by_route->counters.at(key{"outbox.dispatch.dead", ""})), 1U) << "no listener, so no route";
  EXPECT_FALSE(by_route->counters.contains(key{"outbox.dispatch.success", "all"})) << "counted once";
  EXPECT_THAT(by_route->observed.at(key{"outbox.delivery.seconds", "billing"}), ElementsAre(0.25, 0.25));
  EXPECT_THAT(by_route->observed.at(key{"outbox.lag.seconds", "billing"}), ElementsAre(2.25)) << "not the dead one";
  EXPECT_THAT(by_route->observed.at(key{"outbox.lag.seconds", "shipped"}), ElementsAre(0.0))
      << "another clock runs ahead";
}

TEST_F(Observed, AMetricsObjectLearnsTheRoutesWhenTheNodeIsMade) {
  l.on("paid", [](delivery const&) {}, {.name = "billing"});
  l.on("refunded", [](delivery const&) {}, {.name = "billing"});
  l.on_any([](delivery const&) {}, {.name = "archive"});
  auto const by_route = std::make_shared<route_metrics>();
  auto o = options();
  o.metrics = by_route;
  auto const n = single_node(std::move(o));
  EXPECT_THAT(by_route->routes, ElementsAre("archive", "billing")) << "each name once";
}

TEST_F(Observed, WaitsForAListenerAreMeasuredByPath) {
  l.on("t", [&](delivery const&) { clock->advance(1s); }, {.name = "r"});
  auto const seen = std::make_shared<route_metrics>();
  auto o = options();
  o.metrics = seen;
  auto n = single_node(std::move(o));
  n.run_until_idle();
  write(n, "a");
  clock->advance(20ms);
  write(n, "b");
  clock->advance(5ms);
  n.run_until_idle();
  EXPECT_THAT(seen->of(histogram::hot_wait_seconds, "r"), ElementsAre(0.025, 1.005)) << "since the commit of each";
  EXPECT_THAT(seen->of(histogram::cold_wait_seconds, "r"), ElementsAre());
  auto elsewhere = writer_only({.store = table, .log = nullptr, .clock = clock});
  write(elsewhere, "c");
  write(elsewhere, "d");
  clock->advance(1h);
  n.run_until_idle();
  EXPECT_THAT(seen->of(histogram::cold_wait_seconds, "r"), ElementsAre(0, 1)) << "since the claim of both";
  EXPECT_EQ(seen->of(histogram::hot_wait_seconds, "r").size(), 2U);
}

TEST_F(Observed, SettlementsAreMeasuredFromTheResultToTheReply) {
  struct slow_store final : spi::forwarding_store {
    using forwarding_store::forwarding_store;
    settle_reply settle(std::span<settlement const> items) override {
      clock->advance(30ms);
      return forwarding_store::settle(items);
    }
    std::shared_ptr<testing::manual_clock> clock;
  };
  auto const slow = std::make_shared<slow_store>(faulty);
  slow->clock = clock;
  l.on("t", [&](delivery const&) { clock->advance(1s); }, {.name = "r"});
  auto const seen = std::make_shared<route_metrics>();
  auto o = options();
  o.store = slow;
  o.metrics = seen;
  auto n = single_node(std::move(o));
  n.run_until_idle();
  write(n, "a");
  write(n, "b");
  n.run_until_idle();
  EXPECT_THAT(seen->of(histogram::settle_batch_rows), ElementsAre(2));
  EXPECT_THAT(seen->of(histogram::settle_seconds, "r"), ElementsAre(1.03, 0.03)) << "the first waits for the second";
  fail(testing::operation::settle, testing::fault::before);
  write(n, "c");
  n.run_until_idle();
  EXPECT_EQ(seen->of(histogram::settle_seconds, "r").size(), 2U) << "it is not durable yet";
  clock->advance(1s);
  n.run_until_idle();
  EXPECT_THAT(seen->of(histogram::settle_seconds, "r"), ElementsAre(1.03, 0.03, 1.06)) << "the outage counts";
  EXPECT_THAT(seen->of(histogram::settle_batch_rows), ElementsAre(2, 1));
}

TEST_F(Observed, ASettlementWithoutAListenersResultHasNoTime) {
  std::vector<completion> open;
  l.on("t", [&](delivery const&, completion c) { open.push_back(std::move(c)); }, {.name = "r"});
  auto const seen = std::make_shared<route_metrics>();
  auto o = options();
  o.metrics = seen;
  auto n = single_node(std::move(o));
  n.run_until_idle();
  write(n, "a");
  n.run_until_idle();
  n.stop(0ms);
  EXPECT_THAT(seen->of(histogram::settle_batch_rows), ElementsAre(1)) << "it was given back";
  EXPECT_THAT(seen->of(histogram::settle_seconds, "r"), ElementsAre());
}

TEST_F(Observed, DeliveriesThatMayBeDuplicatesAreCounted) {
  int marked = 0;
  l.on("t", [&](delivery const& d) -> result {
    marked += d.maybe_duplicate ? 1 : 0;
    return d.id == "bad" && d.attempt == 1 ? result{failed{"x"}} : result{done};
  });
  auto n = single_node(options());
  n.run_until_idle();
  write(n, "good");
  write(n, "bad");
  n.run_until_idle();
  EXPECT_EQ(figures->counters["outbox.dispatch.maybe_duplicate"], 0U);
  clock->advance(1s);
  n.run_until_idle();
  EXPECT_EQ(marked, 1);
  EXPECT_EQ(figures->counters["outbox.dispatch.maybe_duplicate"], 1U);
  EXPECT_EQ(n.counters().maybe_duplicates, 1U);
}

// What writes is counted, what only reads is not: so commits per event can be told from the counters.
TEST_F(Observed, CommitsOfTheNodesThreadsAreCounted) {
  l.on("t", [](delivery const&) {});
  auto n = single_node(options());
  n.run_until_idle();
  auto& c = figures->counters["outbox.store.commits"];
  auto before = c;
  n.run_until_idle();
  EXPECT_EQ(c, before) << "a claim that finds nothing writes nothing";
  for (int i = 0; i < 10; ++i) write(n, "hot" + std::to_string(i));
  n.run_until_idle();
  EXPECT_EQ(c, before + 1) << "ten events, one settlement";
  auto elsewhere = writer_only({.store = table, .log = nullptr, .clock = clock});
  for (int i = 0; i < 10; ++i) write(elsewhere, "cold" + std::to_string(i));
  n.run_until_idle();
  EXPECT_EQ(c, before + 3) << "one claim, one settlement";
  before = c;
  fail(testing::operation::settle, testing::fault::before);
  write(n, "refused");
  n.run_until_idle();
  EXPECT_EQ(c, before) << "a failed request is none";
  clock->advance(8s);
  n.run_until_idle();
  EXPECT_EQ(c, before + 3) << "the renewal of its row, the settlement, a heartbeat";
  before = c;
  n.stop();
  EXPECT_EQ(c, before + 1) << "the node leaves the registry";
  EXPECT_EQ(n.counters().commits, c);
}

TEST_F(Observed, HealthIsAGauge) {
  l.on("t", [](delivery const&) {});
  auto n = single_node(options());
  n.run_until_idle();
  auto& g = figures->gauges;
  EXPECT_EQ(g.at("outbox.healthy"), 1);
  EXPECT_EQ(g.at("outbox.active"), 1);
  auto standby = single_node({.store = table, .log = nullptr, .metrics = figures, .clock = clock});
  standby.run_until_idle();
  EXPECT_EQ(g.at("outbox.healthy"), 1);
  EXPECT_EQ(g.at("outbox.active"), 0) << "it stands by";
  fail(testing::operation::settle, testing::fault::before);
  write(n, "a");
  n.run_until_idle();
  EXPECT_EQ(g.at("outbox.healthy"), 0);
  clock->advance(1s);
  n.run_until_idle();
  EXPECT_EQ(g.at("outbox.healthy"), 1);
  n.stop();
  EXPECT_EQ(g.at("outbox.healthy"), 0);
  EXPECT_EQ(g.at("outbox.active"), 0);
}

TEST_F(Observed, WaitsForTheStoresConnectionsArePassedOnUntilTheNodeEnds) {
  struct pooled_store final : spi::forwarding_store {
    using forwarding_store::forwarding_store;
    spi::subscription on_wait(std::function<void(std::chrono::nanoseconds)> callback) override {
      tell = std::move(callback);
      return spi::subscription{std::shared_ptr<void>{this, [this](void*) { tell = nullptr; }}};
    }
    std::function<void(std::chrono::nanoseconds)> tell;
  };
  auto const pooled = std::make_shared<pooled_store>(table);
  auto const seen = std::make_shared<route_metrics>();
  {
    auto const n = single_node({.store = pooled, .log = nullptr, .metrics = seen});
    ASSERT_TRUE(pooled->tell);
    pooled->tell(250ms);
    EXPECT_THAT(seen->of(histogram::pool_wait_seconds), ElementsAre(0.25));
  }
  EXPECT_FALSE(pooled->tell);
  auto const silent = single_node({.store = pooled, .log = nullptr});
  EXPECT_FALSE(pooled->tell) << "without metrics the store has nothing to measure";
}

TEST_F(Observed, MetricsByTheirNames) {
  std::map<std::string, result> answers{
      {"done", done}, {"failed", failed{"x"}}, {"deferred", defer{1s}}, {"dead", dead{"x"}}};
  l.on("t", [&](delivery const& d) { return answers.at(d.id); });
  auto o = options();
  o.queue.hot = 4;
  auto n = single_node(std::move(o));
  n.run_until_idle();
  for (auto const* id : {"done", "failed", "deferred", "dead"}) write(n, id);
  answers.insert({"dropped", done});
  write(n, "dropped");
  write(n, "later", "t", {.deliver_after = 1h});
  n.run_until_idle();
  auto& c = figures->counters;
  EXPECT_EQ(c["outbox.enqueue.hot"], 4U);
  EXPECT_EQ(c["outbox.enqueue.hot.dropped"], 1U);
  EXPECT_EQ(c["outbox.enqueue.hot.skipped.delayed"], 1U);
  EXPECT_EQ(c["outbox.enqueue.cold"], 1U);
  EXPECT_EQ(c["outbox.dispatch.success"], 2U);
  EXPECT_EQ(c["outbox.dispatch.failure"], 1U);
  EXPECT_EQ(c["outbox.dispatch.deferred"], 1U);
  EXPECT_EQ(c["outbox.dispatch.dead"], 1U);
}

TEST_F(Observed, GaugesByTheirNames) {
  std::vector<completion> open;
  l.on("t", [&](delivery const&, completion c) { open.push_back(std::move(c)); }, {.max_in_flight = 1});
  auto n = single_node(options());
  n.run_until_idle();
  write(n, "a");
  write(n, "b");
  n.run_until_idle();
  auto& g = figures->gauges;
  EXPECT_EQ(g["outbox.queue.hot.depth"], 1) << "b waits for a";
  EXPECT_EQ(g["outbox.held"], 2);
  auto elsewhere = writer_only({.store = table, .log = nullptr, .clock = clock});
  write(elsewhere, "c");
  clock->advance(3s);
  n.run_until_idle();
  EXPECT_EQ(g["outbox.queue.cold.depth"], 1);
  EXPECT_EQ(g["outbox.lag.oldest.ms"], 3000);
}

TEST_F(Observed, TheLogNamesWhatHooksAndInterceptorsThrow) {
  struct bad_hook final : writer_hook {
    void after_write(std::span<event const>) override { throw std::runtime_error{"written"}; }
    void after_commit(std::span<event const>) override { throw std::runtime_error{"committed"}; }
    void after_rollback(std::span<event const>) override { throw std::runtime_error{"rolled back"}; }
  };
  l.on("t", [](delivery const&) {});
  auto o = options();
  o.hook = std::make_shared<bad_hook>();
  o.interceptors = {intercept_after([](delivery const&, result const&) { throw std::runtime_error{"after"}; })};
  auto n = single_node(std::move(o));
  n.run_until_idle();
  write(n, "a");
  {
    memory::transaction tx{*table};
    n.writer().write(tx, "t", "1");
    tx.rollback();
  }
  n.run_until_idle();
  auto const times = [&](std::string const& line) { return std::ranges::count(log, line); };
  EXPECT_EQ(times("warning: a writer hook failed: written"), 2);
  EXPECT_EQ(times("warning: a writer hook failed: committed"), 1);
  EXPECT_EQ(times("warning: a writer hook failed: rolled back"), 1);
  EXPECT_THAT(log, Contains("warning: an interceptor failed after a delivery: after"));
  EXPECT_EQ(row("a").status, event_status::delivered);
}

TEST_F(Observed, TheLogSaysThatAHookThrewWhatIsNoException) {
  struct odd_hook final : writer_hook {
    void after_write(std::span<event const>) override { throw 42; }
    void after_commit(std::span<event const>) override { throw "text"; }
  };
  l.on("t", [](delivery const&) {});
  auto o = options();
  o.hook = std::make_shared<odd_hook>();
  auto n = single_node(std::move(o));
  n.run_until_idle();
  EXPECT_NO_THROW(write(n, "a"));
  n.run_until_idle();
  EXPECT_EQ(std::ranges::count(log, "warning: a writer hook threw something that is not an exception"), 2);
  EXPECT_EQ(row("a").status, event_status::delivered);
}

// What a row cannot be read for, and what a payload cannot be decoded for, are both reasons to die: loudly.
TEST_F(Observed, TheLogSaysWhatCannotBeDecoded) {
  struct torn_store final : spi::forwarding_store {
    using forwarding_store::forwarding_store;
    claim_reply claim(claim_request const& r) override {
      auto reply = forwarding_store::claim(r);
      for (auto& row : reply.rows)
        if (row.handle.id == "torn") row.malformed = "headers are no object";
      return reply;
    }
  };
  l.on<amount>([](amount const&) {});
  auto o = options();
  o.store = std::make_shared<torn_store>(table);
  auto n = single_node(std::move(o));
  auto elsewhere = writer_only({.store = table, .log = nullptr, .clock = clock});
  write(elsewhere, "torn", "amount");
  write(elsewhere, "undecodable", "amount");
  n.run_until_idle();
  EXPECT_THAT(
      log,
      Contains("error: event torn (amount) of route 'amount' is DEAD: the row cannot be read: headers are no object"));
  EXPECT_THAT(log, Contains("error: event undecodable (amount) of route 'amount' is DEAD: cannot decode the payload of "
                            "'amount': not two"));
  EXPECT_EQ(row("torn").status, event_status::dead);
  EXPECT_EQ(row("undecodable").status, event_status::dead);
}

TEST_F(Observed, InterceptorsAreToldWhatAListenerAnsweredOrThrew) {
  l.on("t", [](delivery const& d) -> result {
    if (d.id == "throws") throw std::runtime_error{"broken pipe"};
    if (d.id == "gives up") throw permanent_failure{"no such user"};
    if (d.id == "fails") return failed{"down"};
    if (d.id == "waits") return defer{1h, "not ready"};
    return done;
  });
  std::map<std::string, std::string> told;
  auto o = options();
  o.interceptors = {intercept_after([&](delivery const& d, result const& r) {
    auto const& v = r.value();
    told[d.id] = std::holds_alternative<failed>(v)  ? "failed: " + std::get<failed>(v).reason
                 : std::holds_alternative<dead>(v)  ? "dead: " + std::get<dead>(v).reason
                 : std::holds_alternative<defer>(v) ? "deferred: " + std::get<defer>(v).reason
                                                    : "done";
  })};
  auto n = single_node(std::move(o));
  n.run_until_idle();
  for (auto const* id : {"throws", "gives up", "fails", "waits", "works"}) write(n, id);
  n.run_until_idle();
  EXPECT_EQ(told, (std::map<std::string, std::string>{{"throws", "failed: broken pipe"},
                                                      {"gives up", "dead: no such user"},
                                                      {"fails", "failed: down"},
                                                      {"waits", "deferred: not ready"},
                                                      {"works", "done"}}));
}

TEST_F(Observed, AnErrorThatIsNotTransientIsLoggedOnceAtErrorLevel) {
  auto n = single_node(options());
  n.run_until_idle();
  log.clear();
  fail(testing::operation::claim, testing::fault::refused, 3);
  for (int i = 0; i < 5; ++i) {
    clock->advance(10s);
    n.run_until_idle();
  }
  EXPECT_EQ(std::ranges::count_if(
                log, [](auto const& line) { return line.starts_with("error: the store refuses (cannot claim)"); }),
            1);
}

TEST_F(Observed, AnInterceptorThatThrowsIsAFailureUpToItsEnd) {
  std::vector<bool> told_of_failures;
  l.on("t", [](delivery const&) {});
  auto o = options();
  o.interceptors = {intercept_after([&](delivery const&, result const& r) {
                      told_of_failures.push_back(std::holds_alternative<failed>(r.value()));
                    }),
                    intercept_before([](delivery const&) { throw std::runtime_error{"not today"}; })};
  auto n = single_node(std::move(o));
  n.run_until_idle();
  write(n, "a");
  testing::run_until_done(n, *clock, *table);
  EXPECT_EQ(row("a").status, event_status::dead);
  EXPECT_EQ(row("a").attempts, 2);
  EXPECT_EQ(row("a").last_error, "not today");
  EXPECT_THAT(told_of_failures, ElementsAre(true, true)) << "the one before it was told of both";
}

TEST_F(Observed, AWriterOnlyNodeDeletesByAge) {
  auto n =
      writer_only({.store = table, .purge = age_purge_options{.keep = 1h, .batch = 2}, .log = nullptr, .clock = clock});
  for (int i = 0; i < 5; ++i) write(n, "old" + std::to_string(i));
  clock->advance(1h);
  write(n, "young");
  EXPECT_EQ(n.purge_once(), 5U);
  EXPECT_EQ(table->inspect().counts().pending(), 1U);
}

TEST_F(Observed, ARunningWriterOnlyNodeDeletesByAge) {
  auto n = writer_only({.store = table,
                        .purge = age_purge_options{.keep = 1h, .batch = 2, .every = 1s},
                        .log = nullptr,
                        .clock = clock});
  n.start();
  for (int i = 0; i < 5; ++i) write(n, "old" + std::to_string(i));
  clock->advance(2h);
  write(n, "young");
  EXPECT_TRUE(eventually([&] {
    clock->advance(100ms);  // its schedule is on this clock too
    return table->inspect().counts().pending() == 1;
  }));
  EXPECT_TRUE(table->inspect().find("young"));
  EXPECT_TRUE(n.stop(60s));
}

TEST_F(Observed, PurgeTakesABatchPerTransactionAndSaysHowMany) {
  l.on("t", [](delivery const&) {});
  auto o = options();
  o.purge = purge_options{.keep = 1h, .batch = 2};
  auto n = single_node(std::move(o));
  n.run_until_idle();
  for (int i = 0; i < 5; ++i) write(n, "e" + std::to_string(i));
  n.run_until_idle();
  clock->advance(2h);
  EXPECT_EQ(n.purge_once(), 5U);
  EXPECT_EQ(times(testing::operation::purge), 3);
  EXPECT_THAT(log, Contains("info: purged 5 rows"));
}

TEST_F(Observed, APurgeThatFailsReportsTheRowsDeletedSoFar) {
  l.on("t", [](delivery const&) {});
  auto n = single_node(options());
  n.run_until_idle();
  for (auto const* id : {"a", "b", "c"}) write(n, id);
  n.run_until_idle();
  clock->advance(1ms);
  int purges = 0;
  auto const counting = std::make_shared<testing::faulty_store>(table, [&](testing::operation what) {
    return what == testing::operation::purge && ++purges == 2 ? testing::fault::before : testing::fault::none;
  });
  auto p =
      single_node({.store = counting, .log = nullptr, .clock = clock, .purge = purge_options{.keep = 0ms, .batch = 2}});
  try {
    p.purge_once();
    FAIL() << "nothing failed";
  } catch (error const& e) {
    EXPECT_EQ(e.rows_changed(), 2U);
    EXPECT_TRUE(e.transient());
  }
}

TEST_F(Observed, AScheduledPurgeThatFailsIsLoggedAndTriedAgain) {
  fail(testing::operation::purge, testing::fault::before);
  auto o = options();
  o.clock = nullptr;  // the schedule is real
  o.purge = purge_options{.keep = 0ms, .every = 1s};
  auto n = single_node(std::move(o));
  n.start();
  EXPECT_TRUE(eventually([&] { return times(testing::operation::purge) >= 2; }));
  n.stop();
  EXPECT_THAT(log, Contains(HasSubstr("error: cannot purge")));
}

TEST_F(Observed, OperatorsAreToldWhenTheStoreFails) {
  auto n = single_node(options());
  fail(testing::operation::dead, testing::fault::before, 2);
  EXPECT_THROW(static_cast<void>(n.dead_events().query()), error);
  EXPECT_THROW(static_cast<void>(n.dead_events().count()), error);
  fail(testing::operation::replay, testing::fault::before, 2);
  EXPECT_THROW(n.dead_events().replay("x"), error);
  EXPECT_THROW(n.dead_events().replay_all(), error);
  fail(testing::operation::purge, testing::fault::before);
  EXPECT_THROW(n.purge_once(), error);
}

TEST_F(Observed, AReplayThatFailsReportsTheRowsReplayedSoFar) {
  l.on("t", [](delivery const&) -> result { return dead{"no"}; });
  auto n = single_node(options());
  n.run_until_idle();
  for (int i = 0; i < 5; ++i) write(n, "e" + std::to_string(i));
  n.run_until_idle();
  int calls = 0;
  auto const flaky = std::make_shared<testing::faulty_store>(table, [&](testing::operation what) {
    return what == testing::operation::replay && ++calls == 3 ? testing::fault::before : testing::fault::none;
  });
  dead_events const tool{flaky};
  try {
    tool.replay_all({}, /*batch=*/2);
    FAIL() << "nothing failed";
  } catch (error const& e) {
    EXPECT_EQ(e.rows_changed(), 4U);
    EXPECT_TRUE(e.transient()) << "what went wrong is said too";
  }
  EXPECT_EQ(tool.count(), 1U);
  EXPECT_EQ(tool.replay_all({}, 2), 1U) << "the rest";
}

TEST_F(Observed, UnreadablePausesAreLoggedOnceAndIgnored) {
  l.on("t", [](delivery const&) {});
  auto n = single_node(options());
  n.run_until_idle();
  fail(testing::operation::pause, testing::fault::refused, 1000);
  for (int i = 0; i < 5; ++i) {
    clock->advance(8s);
    n.run_until_idle();
  }
  EXPECT_EQ(
      std::ranges::count_if(log, [](auto const& line) { return line.find("what is paused") != std::string::npos; }), 1);
  write(n, "a");
  n.run_until_idle();
  EXPECT_EQ(row("a").status, event_status::delivered);
}

TEST_F(Observed, AStartThatFailsLeavesNoTraceInTheRegistry) {
  auto n = single_node(options());
  fail(testing::operation::pause, testing::fault::before);
  EXPECT_THROW(n.start(), error);
  EXPECT_TRUE(table->inspect().nodes().empty());
}

// Notes which of a node's threads asks for what, and in which order they end.
class watched_store final : public spi::forwarding_store {
 public:
  using forwarding_store::forwarding_store;

  using forwarding_store::purge;
  std::size_t purge(purge_request const& r) override { return note("purger"), forwarding_store::purge(r); }
  claim_reply claim(claim_request const& r) override { return note("poller"), forwarding_store::claim(r); }
  settle_reply settle(std::span<settlement const> items) override {
    return note("settler"), forwarding_store::settle(items);
  }
  void heartbeat(node_row const& node) override {  // the thread that renews leases also sends the heartbeat
    note("renewer");
    forwarding_store::heartbeat(node);
  }

  void note(std::string const& who) {
    if (std::this_thread::get_id() == test_) return;
    struct last_word {
      std::function<void()> say;
      ~last_word() {
        if (say) say();
      }
    };
    thread_local last_word word;  // said when the thread ends, before anybody has joined it
    std::lock_guard const lock{mutex_};
    calls_[who] += 1;
    threads_[who].insert(std::this_thread::get_id());
    if (word.say) return;
    word.say = [this, who] {
      std::lock_guard const guard{mutex_};
      ended_.push_back(who);
    };
  }
  int calls(std::string const& who) {
    std::lock_guard const lock{mutex_};
    return calls_[who];
  }
  std::set<std::thread::id> threads(std::string const& who) {
    std::lock_guard const lock{mutex_};
    return threads_[who];
  }
  std::vector<std::string> ended() {
    std::lock_guard const lock{mutex_};
    return ended_;
  }

 private:
  std::thread::id const test_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::map<std::string, int> calls_;
  std::map<std::string, std::set<std::thread::id>> threads_;
  std::vector<std::string> ended_;
};

class Closing : public ::testing::Test {
 protected:
  // With one worker that calls a listener, and a purger that has been at work.
  node started(std::function<void()> listener = {}) {
    single_node_options o{.store = watched, .workers = 1, .poll = {.every = 20ms}, .log = nullptr};
    o.purge = purge_options{.keep = 0ms, .every = 1s};
    o.listeners.on("t", [this, listener](delivery const& d) {
      watched->note("worker");
      if (d.id == "first") return;
      if (listener) listener();
    });
    auto n = single_node(std::move(o));
    n.start();
    write(n, "first");
    EXPECT_TRUE(eventually([&] {
      return watched->calls("purger") > 0 && watched->calls("poller") > 0 && watched->calls("worker") > 0 &&
             watched->calls("settler") > 0 && watched->calls("renewer") > 0;
    }));
    return n;
  }
  void write(node& n, std::string const& id) {
    memory::transaction tx{*table};
    n.writer().write(tx, "t", "1", {.id = id});
    tx.commit();
  }
  std::shared_ptr<outbox::store> table = memory::open();
  std::shared_ptr<watched_store> watched = std::make_shared<watched_store>(table);
};

TEST_F(Closing, PurgerPollerWorkersSettlerRenewer) {
  auto n = started();
  EXPECT_TRUE(n.stop(60s));
  EXPECT_THAT(watched->ended(), ElementsAre("purger", "poller", "worker", "settler", "renewer"));
}

TEST_F(Closing, SettlerAndRenewerStayWhileAListenerRuns) {
  std::latch began{1};
  std::latch gate{1};
  {
    auto n = started([&] {
      began.count_down();
      gate.wait();
    });
    write(n, "slow");
    began.wait();
    EXPECT_FALSE(n.stop(1ms));
    EXPECT_TRUE(eventually([&] { return watched->ended().size() >= 2; }));
    EXPECT_THAT(watched->ended(), ElementsAre("purger", "poller"));
    gate.count_down();
  }
  EXPECT_THAT(watched->ended(), ElementsAre("purger", "poller", "worker", "settler", "renewer"));
  EXPECT_EQ(table->inspect().find("slow")->status, event_status::delivered) << "settled after the stop";
}

TEST_F(Closing, EveryLoopIsOneThread) {
  auto n = started();
  EXPECT_TRUE(eventually([&] { return watched->calls("purger") >= 2 && watched->calls("poller") >= 2; }));
  n.stop();
  std::set<std::thread::id> all;
  for (auto const* who : {"purger", "poller", "worker", "settler", "renewer"}) {
    EXPECT_EQ(watched->threads(who).size(), 1U) << who;
    all.merge(watched->threads(who));
  }
  EXPECT_EQ(all.size(), 5U) << "and each its own";
}

TEST(Modes, EachNeedsAStore) {
  auto const refused = [](auto&& make) {
    try {
      static_cast<void>(make());
    } catch (error const& e) {
      return std::string{e.field()};
    }
    return std::string{"accepted"};
  };
  EXPECT_EQ(refused([] { return single_node({}); }), "store");
  EXPECT_EQ(refused([] { return multi_node({}); }), "store");
  EXPECT_EQ(refused([] { return ordered({}); }), "store");
  EXPECT_EQ(refused([] { return writer_only({}); }), "store");
}

// A store that is atomic without a transaction takes a write without one, and only if the caller says so.
TEST(Transactions, AStoreThatNeedsNoneTakesAWriteWithoutOne) {
  struct no_transactions final : spi::forwarding_store {
    using forwarding_store::forwarding_store;
    store_capabilities capabilities() const noexcept override {
      auto c = forwarding_store::capabilities();
      c.requires_transaction = !atomic;
      return c;
    }
    void insert(transaction_ref, std::span<insertion const> rows, std::shared_ptr<insert_receipt> const&) override {
      inserted += rows.size();
    }
    bool atomic = true;
    std::size_t inserted = 0;
  };
  auto const table = memory::open();
  auto const store = std::make_shared<no_transactions>(table);
  auto n = writer_only({.store = store, .log = nullptr});
  EXPECT_TRUE(n.writer().write(no_transaction, "t", "1"));
  EXPECT_EQ(store->inserted, 1U);
  memory::transaction ended{*table};
  ended.rollback();
  EXPECT_THROW(n.writer().write(ended, "t", "1"), error);
  store->atomic = false;
  EXPECT_THROW(n.writer().write(no_transaction, "t", "1"), error);
}

}  // namespace
}  // namespace outbox
