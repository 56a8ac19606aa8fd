// The exporter for Prometheus: names, labels, values, several nodes, hostile names, many threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <outbox/error.hpp>
#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <outbox/prometheus.hpp>
#include <outbox/testing.hpp>
#include <sstream>
#include <stop_token>
#include <thread>

#include "support/exposition.hpp"
#include "support/temporary_directory.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

class Prometheus : public ::testing::Test {
 protected:
  single_node_options options(listeners l, std::shared_ptr<metrics> to) {
    single_node_options o{.store = table, .listeners = std::move(l), .log = nullptr};
    o.clock = clock;
    o.metrics = std::move(to);
    o.retry = {.max_attempts = 2, .backoff = {.base = 100ms, .cap = 100ms}};
    return o;
  }
  void write(node& n, std::string const& id, std::string const& type = "t") {
    memory::transaction tx{*table};
    n.writer().write(tx, type, "1", {.id = id, .occurred_at = clock->now()});
    tx.commit();
  }
  std::map<std::string, double> scrape() { return samples_of(figures->text()); }

  std::shared_ptr<testing::manual_clock> clock = std::make_shared<testing::manual_clock>();
  std::shared_ptr<outbox::store> table = memory::open({.clock = clock});
  std::shared_ptr<prometheus::registry> figures = std::make_shared<prometheus::registry>();
};

TEST_F(Prometheus, EveryFigureOfANodeHasItsNameItsHelpAndItsType) {
  listeners l;
  l.on("t", [](delivery const&) {});
  auto n = single_node(options(std::move(l), figures->exporter()));
  n.run_until_idle();
  auto const text = figures->text();
  auto const is = [&](std::string const& name, char const* type) {
    EXPECT_THAT(text, HasSubstr("# HELP " + name + " "));
    EXPECT_THAT(text, HasSubstr("# TYPE " + name + " " + type + "\n"));
  };
  for (auto const c : all_counters()) is(full_name(c, "outbox", '_') + "_total", "counter");
  for (auto const g : all_gauges()) {
    is(g == gauge::oldest_lag_ms ? "outbox_lag_oldest_seconds" : full_name(g, "outbox", '_'), "gauge");
  }
  for (auto const h : all_histograms()) is(full_name(h, "outbox", '_'), "histogram");
  EXPECT_THAT(text, Not(HasSubstr("_ms"))) << "seconds are the unit";
}

TEST_F(Prometheus, WhatANodeDidIsInTheText) {
  listeners l;
  l.on("t",
       [&](delivery const& d) -> result {
         clock->advance(20ms);
         return d.id == "bad" && d.attempt == 1 ? result{failed{"x"}} : result{done};
       },
       {.name = "billing"});
  auto n = single_node(options(std::move(l), figures->exporter({.table = "orders"})));
  n.run_until_idle();
  auto seen = scrape();
  EXPECT_EQ(seen.at(R"(outbox_dispatch_success_total{table="orders",route="billing"})"), 0)
      << "a series is there before its first event, so that its increase is seen";
  for (auto const* id : {"a", "b", "bad"}) write(n, id);
  clock->advance(3ms);
  n.run_until_idle();
  clock->advance(2s);
  n.run_until_idle();
  seen = scrape();
  EXPECT_EQ(seen.at(R"(outbox_enqueue_hot_total{table="orders"})"), 3);
  EXPECT_EQ(seen.at(R"(outbox_enqueue_cold_total{table="orders"})"), 1);
  EXPECT_EQ(seen.at(R"(outbox_dispatch_success_total{table="orders",route="billing"})"), 3);
  EXPECT_EQ(seen.at(R"(outbox_dispatch_failure_total{table="orders",route="billing"})"), 1);
  EXPECT_EQ(seen.at(R"(outbox_dispatch_maybe_duplicate_total{table="orders"})"), 1);
  EXPECT_EQ(seen.at(R"(outbox_delivery_seconds_count{table="orders",route="billing"})"), 4);
  EXPECT_NEAR(seen.at(R"(outbox_delivery_seconds_sum{table="orders",route="billing"})"), 0.08, 1e-9);
  EXPECT_EQ(seen.at(R"(outbox_delivery_seconds_bucket{table="orders",route="billing",le="0.01"})"), 0);
  EXPECT_EQ(seen.at(R"(outbox_delivery_seconds_bucket{table="orders",route="billing",le="0.05"})"), 4);
  EXPECT_EQ(seen.at(R"(outbox_delivery_seconds_bucket{table="orders",route="billing",le="+Inf"})"), 4);
  EXPECT_EQ(seen.at(R"(outbox_wait_hot_seconds_count{table="orders",route="billing"})"), 3);
  EXPECT_NEAR(seen.at(R"(outbox_wait_hot_seconds_sum{table="orders",route="billing"})"), 0.003 + 0.023 + 0.043, 1e-9);
  EXPECT_EQ(seen.at(R"(outbox_wait_cold_seconds_count{table="orders",route="billing"})"), 1);
  EXPECT_EQ(seen.at(R"(outbox_settle_batch_rows_sum{table="orders"})"), 4);
  EXPECT_EQ(seen.at(R"(outbox_healthy{table="orders"})"), 1);
  EXPECT_NEAR(seen.at(R"(outbox_lag_oldest_seconds{table="orders"})"), 0, 2);
  n.stop();
  EXPECT_EQ(scrape().at(R"(outbox_healthy{table="orders"})"), 0);
  EXPECT_EQ(scrape().at(R"(outbox_active{table="orders"})"), 0);
}

TEST_F(Prometheus, ALagInMillisecondsBecomesSeconds) {
  auto const e = figures->exporter();
  e->set(gauge::oldest_lag_ms, 1500);
  EXPECT_EQ(scrape().at("outbox_lag_oldest_seconds"), 1.5);
}

TEST_F(Prometheus, AValueOnABoundIsInItsBucket) {
  auto const e = figures->exporter();
  for (double const rows : {1.0, 1000.0, 1001.0}) e->observe(histogram::settle_batch_rows, rows, {});
  auto const seen = scrape();
  EXPECT_EQ(seen.at(R"(outbox_settle_batch_rows_bucket{le="1"})"), 1);
  EXPECT_EQ(seen.at(R"(outbox_settle_batch_rows_bucket{le="500"})"), 1);
  EXPECT_EQ(seen.at(R"(outbox_settle_batch_rows_bucket{le="1000"})"), 2);
  EXPECT_EQ(seen.at(R"(outbox_settle_batch_rows_bucket{le="+Inf"})"), 3);
  EXPECT_EQ(seen.at("outbox_settle_batch_rows_count"), 3);
  EXPECT_EQ(seen.at("outbox_settle_batch_rows_sum"), 2002);
}

TEST_F(Prometheus, NodesThatShareARegistryHaveTheirOwnSeries) {
  auto const a = figures->exporter({.table = "a"});
  auto const b = figures->exporter({.table = "b"});
  auto const named = figures->exporter({.table = "b", .node = "second"});
  a->add(counter::lost, 1);
  b->add(counter::lost, 2);
  named->add(counter::lost, 3);
  b->set(gauge::held, 7);
  auto const seen = scrape();
  EXPECT_EQ(seen.at(R"(outbox_settle_lost_total{table="a"})"), 1);
  EXPECT_EQ(seen.at(R"(outbox_settle_lost_total{table="b"})"), 2);
  EXPECT_EQ(seen.at(R"(outbox_settle_lost_total{table="b",node="second"})"), 3);
  EXPECT_EQ(seen.at(R"(outbox_held{table="b"})"), 7);
  EXPECT_FALSE(seen.contains(R"(outbox_held{table="a"})")) << "it has not told yet";
}

// As a relay that reads its configuration again.
TEST_F(Prometheus, CountersGoOnWhenANewNodeTakesThePlaceOfAnOldOne) {
  std::vector<std::string> const routes{"r"};
  auto old = figures->exporter({.table = "t"});
  old->attach(routes);
  old->add_for_route(counter::delivered, 5, "r");
  old->observe(histogram::delivery_seconds, 1, "r");
  old->set(gauge::held, 2);
  old->set(gauge::oldest_lag_ms, 1000);
  old->set(gauge::healthy, 1);
  old->set(gauge::active, 1);
  auto const next = figures->exporter({.table = "t"});
  next->attach(routes);
  next->add_for_route(counter::delivered, 1, "r");
  next->set(gauge::held, 3);
  next->set(gauge::oldest_lag_ms, 4000);
  next->set(gauge::healthy, 0);
  next->set(gauge::active, 0);
  auto seen = scrape();
  EXPECT_EQ(seen.at(R"(outbox_dispatch_success_total{table="t",route="r"})"), 6);
  EXPECT_EQ(seen.at(R"(outbox_held{table="t"})"), 5);
  EXPECT_EQ(seen.at(R"(outbox_lag_oldest_seconds{table="t"})"), 4);
  EXPECT_EQ(seen.at(R"(outbox_healthy{table="t"})"), 0);
  EXPECT_EQ(seen.at(R"(outbox_active{table="t"})"), 1);
  old.reset();
  seen = scrape();
  EXPECT_EQ(seen.at(R"(outbox_dispatch_success_total{table="t",route="r"})"), 6) << "counters never fall";
  EXPECT_EQ(seen.at(R"(outbox_delivery_seconds_count{table="t",route="r"})"), 1);
  EXPECT_EQ(seen.at(R"(outbox_held{table="t"})"), 3) << "gauges end with their node";
  EXPECT_EQ(seen.at(R"(outbox_active{table="t"})"), 0);
}

TEST_F(Prometheus, ARouteThatWasNotAnnouncedMakesNoSeries) {
  auto const e = figures->exporter();
  e->attach(std::vector<std::string>{"known"});
  for (int i = 0; i < 100; ++i) e->add_for_route(counter::dead, 1, "from-an-event-" + std::to_string(i));
  EXPECT_EQ(scrape().at("outbox_dispatch_dead_total"), 100);
  EXPECT_THAT(figures->text(), Not(HasSubstr("from-an-event")));
}

TEST_F(Prometheus, HostileNamesGiveAValidText) {
  std::string umlauts;
  for (int i = 0; i < 128; ++i) umlauts += "\xC3\xBC";
  std::vector<std::string> const routes{"\"quoted\"",  "back\\slash", "two\nlines",           umlauts,
                                        "bad\xFF\xFE", "bad\xFD\xFC", std::string{"n\0l", 3}, "} 1\nevil_total 7\n#"};
  auto const e = figures->exporter({.table = "\"t\"\n", .node = "{}"});
  e->attach(routes);
  for (auto const& r : routes) e->add_for_route(counter::delivered, 1, r);
  auto const seen = scrape();
  auto const of = [](std::string const& route) {
    return R"(outbox_dispatch_success_total{table="\"t\"\n",node="{}",route=")" + route + "\"}";
  };
  EXPECT_EQ(seen.at(of(R"(\"quoted\")")), 1);
  EXPECT_EQ(seen.at(of(R"(back\\slash)")), 1);
  EXPECT_EQ(seen.at(of(R"(two\nlines)")), 1);
  EXPECT_EQ(seen.at(of(umlauts)), 1);
  EXPECT_EQ(seen.at(of("bad\xEF\xBF\xBD\xEF\xBF\xBD")), 2) << "names that look the same share a series";
  EXPECT_FALSE(seen.contains("evil_total"));
  temporary_directory const dir;
  std::ofstream{dir / "scrape.txt"} << figures->text();
  if (std::system("command -v promtool >/dev/null") != 0) GTEST_SKIP() << "promtool is not installed";
  EXPECT_EQ(std::system(("promtool check metrics < " + (dir / "scrape.txt")).c_str()), 0);
}

TEST_F(Prometheus, ThePrefixIsAnOption) {
  prometheus::registry const shop{{.prefix = "shop.outbox"}};
  EXPECT_THAT(shop.text(), HasSubstr("shop_outbox_build_info{version="));
  for (auto const* bad : {"", "1a", "a b", "a-b", "a\n"}) {
    EXPECT_THROW(prometheus::registry{{.prefix = bad}}, error) << bad;
  }
}

TEST_F(Prometheus, OtherPartsOfTheProgramAddFigures) {
  double level = 1;
  figures->add([&] {
    using kind = prometheus::figure::kind;
    return std::vector<prometheus::figure>{
        {.name = "sink.in_flight", .help = "x", .labels = {{"sink", "a"}}, .value = level},
        {.name = "sink.stored", .help = "y", .is = kind::counter, .labels = {{"sink", "a"}}, .value = 2},
        {.name = "sink.in_flight", .help = "x", .labels = {{"sink", "b\n"}}, .value = 3},
        {.name = "a b\n", .help = "two\nlines \\", .labels = {{"the-label", "c"}}, .value = 5}};
  });
  figures->add([]() -> std::vector<prometheus::figure> { throw std::runtime_error{"away"}; });
  level = 4;
  auto const seen = scrape();
  EXPECT_EQ(seen.at(R"(outbox_sink_in_flight{sink="a"})"), 4) << "asked at each scrape";
  EXPECT_EQ(seen.at(R"(outbox_sink_in_flight{sink="b\n"})"), 3);
  EXPECT_EQ(seen.at(R"(outbox_sink_stored_total{sink="a"})"), 2);
  EXPECT_EQ(seen.at(R"(outbox_a_b_{the_label="c"})"), 5) << "a careless name gives a valid text";
  EXPECT_THAT(figures->text(), HasSubstr("# HELP outbox_a_b_ two lines  \n"));
}

TEST_F(Prometheus, AProgramThatUsesPrometheusCppCollectsThemItself) {
  auto const e = figures->exporter({.table = "t"});
  e->add(counter::lost, 4);
  auto const collectable = figures->collectable();
  figures.reset();
  for (auto const& f : collectable->Collect()) {
    if (f.name != "outbox_settle_lost_total") continue;
    EXPECT_EQ(f.metric.at(0).counter.value, 4);
    return;
  }
  FAIL() << "it is not there";
}

TEST_F(Prometheus, ThreadsWriteWhileOthersScrape) {
  auto const e = figures->exporter({.table = "t"});
  e->attach(std::vector<std::string>{"r"});
  constexpr int rounds = 2000;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < rounds; ++n) {
          e->observe(histogram::delivery_seconds, 0.25, "r");
          e->add_for_route(counter::delivered, 1, "r");
        }
      });
    }
    threads.emplace_back([&] {
      for (int n = 0; n < 20; ++n)
        figures->exporter({.table = "u"})->attach(std::vector<std::string>{std::to_string(n)});
    });
    for (int n = 0; n < 20; ++n) {
      auto const seen = scrape();
      EXPECT_EQ(seen.at(R"(outbox_delivery_seconds_bucket{table="t",route="r",le="+Inf"})"),
                seen.at(R"(outbox_delivery_seconds_count{table="t",route="r"})"));
    }
  }
  auto const seen = scrape();
  EXPECT_EQ(seen.at(R"(outbox_dispatch_success_total{table="t",route="r"})"), 3 * rounds);
  EXPECT_EQ(seen.at(R"(outbox_delivery_seconds_count{table="t",route="r"})"), 3 * rounds);
  EXPECT_EQ(seen.at(R"(outbox_delivery_seconds_sum{table="t",route="r"})"), 0.25 * 3 * rounds);
}

}  // namespace
}  // namespace outbox
