// The figures of `outbox bench`: percentiles, buckets, plots, and what they say about the database.
#include <gmock/gmock.h>

#include <clocale>
#include <sstream>

#include "bench/measure.hpp"
#include "cli/shown_text.hpp"
#include "cli/store_url.hpp"
#include "cli/tool_error.hpp"

namespace outbox_tool {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct BenchFigures : ::testing::Test {
  BenchFigures() { std::setlocale(LC_CTYPE, "C.UTF-8"); }
};

samples of(std::vector<double> const& microseconds) {
  samples s;
  for (double const us : microseconds) s.add(std::chrono::nanoseconds{static_cast<std::int64_t>(us * 1000)});
  return s;
}

TEST_F(BenchFigures, PercentilesAreMembersOfTheSample) {
  EXPECT_EQ(samples{}.percentile(0.5), 0);
  auto const s = of({5, 1, 3, 2, 4});
  EXPECT_EQ(s.percentile(0), 1);
  EXPECT_EQ(s.percentile(0.5), 3);
  EXPECT_EQ(s.percentile(1), 5);
  EXPECT_EQ(of({7}).percentile(0.99), 7);
}

TEST_F(BenchFigures, BucketsHaveNoGapAndCountEverySampleOnce) {
  auto const s = of({0, 0.5, 1, 1.25, 1.26, 999.9, 1000, 1'000'000, 59'999'999});
  auto const all = s.buckets();
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum += all[i].count;
    EXPECT_LT(all[i].from, all[i].to);
    EXPECT_EQ(all[i].from, i == 0 ? 0 : all[i - 1].to);
  }
  EXPECT_EQ(sum, s.size());
  EXPECT_EQ(all.front().from, 0);
  EXPECT_EQ(all.front().to, 1);
  EXPECT_EQ(all.front().count, 2U);
  EXPECT_GT(all.back().count, 0U);
  EXPECT_THAT(samples{}.buckets(), IsEmpty());
}

TEST_F(BenchFigures, ADurationBeforeItsBeginningCountsAsNone) {
  samples s;
  s.add(-5us);
  EXPECT_EQ(s.percentile(0.5), 0);
  EXPECT_EQ(s.buckets().size(), 1U);
}

TEST_F(BenchFigures, TextsHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(microseconds_text(0), "0 µs");
  EXPECT_EQ(microseconds_text(42.14), "42.1 µs");
  EXPECT_EQ(microseconds_text(999.7), "1 ms");
  EXPECT_EQ(microseconds_text(2140), "2.14 ms");
  EXPECT_EQ(microseconds_text(999'800), "1 s");
  EXPECT_EQ(microseconds_text(1'300'000), "1.3 s");
}

TEST_F(BenchFigures, APlotFitsItsWidthAndShowsTheRarestSample) {
  std::vector<double> many(10'000, 100.0);
  many.push_back(90'000);
  for (std::size_t const width : {40U, 80U, 133U}) {
    auto const text = plot(of(many), width);
    std::istringstream lines{text};
    for (std::string line; std::getline(lines, line);) EXPECT_LE(width_of(line), width) << text;
    EXPECT_THAT(text, HasSubstr("█"));
    EXPECT_THAT(text, HasSubstr("▁")) << "one of ten thousand";
    EXPECT_THAT(text, HasSubstr("10,000 ┤"));
    EXPECT_THAT(text, HasSubstr("100 µs"));
  }
  EXPECT_EQ(plot(samples{}, 80), "");
  EXPECT_THAT(plot(of({0, 3}), 80), HasSubstr("         0 ")) << "a logarithm has none, and the axis has";
  EXPECT_THAT(plot(of({5, 5, 5}), 80), HasSubstr("5 µs"));
}

measurements figures(double round_trip, double write, double growth) {
  measurements m;
  m.round_trip = of({round_trip});
  m.write_one = of({write});
  m.one = {1000, 1};
  m.several = {static_cast<std::uint64_t>(1000 * growth), 1};
  return m;
}

TEST_F(BenchFigures, AWriteThatTakesMuchLongerThanItsRoundTripsWaitsForTheDisk) {
  measure_options const o;
  EXPECT_THAT(explain(figures(50, 2100, 1), o, 2).one, HasSubstr("2.1 ms: the server's disk (fsync)"));
  EXPECT_THAT(explain(figures(900, 2100, 1), o, 2).one, HasSubstr("2 round trips of 900 µs"));
  EXPECT_THAT(explain(figures(50, 150, 1), o, 2).one, HasSubstr("2 round trips"));
  EXPECT_THAT(explain(figures(120, 150, 1), o, 1).one, HasSubstr("a round trip of 120 µs is most of it"));
  EXPECT_THAT(explain(figures(20, 150, 1), o, 2).one, HasSubstr("the server's work"));
  EXPECT_THAT(explain(figures(2, 2100, 1), o, 0).one, HasSubstr("the disk (fsync)"));
  EXPECT_THAT(explain(figures(2, 40, 1), o, 0).one, HasSubstr("not at all"));
}

TEST_F(BenchFigures, ListenersThatBeganBeforeTheCommitReturnedAreCounted) {
  measurements m;
  m.hot = of({0, 0, 5, 5});
  EXPECT_THAT(explain(m, {}, 2).hot, HasSubstr("50 % of the listeners"));
  m.hot = of({5, 5});
  EXPECT_THAT(explain(m, {}, 2).hot, HasSubstr("threads of this machine"));
}

TEST_F(BenchFigures, SeveralConnectionsAreComparedWithOne) {
  measure_options const four{.connections = 4};
  EXPECT_THAT(explain(figures(50, 100, 3.9), four, 2).several, HasSubstr("more would write more"));
  EXPECT_THAT(explain(figures(50, 100, 2.0), four, 2).several, HasSubstr("2.0 times"));
  EXPECT_THAT(explain(figures(50, 100, 0.9), four, 2).several, HasSubstr("wait for each other"));
  EXPECT_THAT(explain(figures(2, 100, 0.9), four, 0).several, HasSubstr("one transaction writes at a time"));
  EXPECT_THAT(explain(figures(50, 100, 1), {.connections = 1}, 2).several, IsEmpty());
  EXPECT_THAT(explain({}, four, 2).one, IsEmpty()) << "nothing was measured";
}

TEST(StoreUrl, OwnParametersAreApartFromThoseOfTheClient) {
  auto const u = store_url::parse("postgresql://a:b@h/db?sslmode=require&outbox.schema=s&x=1&outbox.table=t", "bench");
  EXPECT_EQ(u.kind, database_kind::postgres);
  EXPECT_EQ(u.connection, "postgresql://a:b@h/db?sslmode=require&x=1");
  EXPECT_EQ(u.parameter("schema"), "s");
  EXPECT_EQ(u.parameter("none", "x"), "x");
  EXPECT_EQ(u.text(), "postgresql://a:b@h/db?sslmode=require&x=1&outbox.schema=s&outbox.table=t");
  auto const file = store_url::parse("sqlite:///tmp/a.db?table=t", "bench");
  EXPECT_EQ(file.connection, "/tmp/a.db");
  EXPECT_EQ(file.text(), "sqlite:/tmp/a.db?table=t");
  EXPECT_EQ(store_url::parse("sqlite:a.db", "bench").text(), "sqlite:a.db");
}

TEST(StoreUrl, TheDatabaseOfAPathIsDecoded) {
  auto const database = [](std::string const& url) { return store_url::parse(url, "grants").database_in_path(); };
  EXPECT_EQ(database("mysql://u:p@h:3306/shop?ssl=on"), "shop");
  EXPECT_EQ(database("mariadb://h/a%60b%2fc"), "a`b/c");
  EXPECT_EQ(database("mysql://h"), "");
  EXPECT_EQ(database("mysql://h/"), "");
  EXPECT_EQ(database("mysql://h/100%"), "100%");
}

TEST(StoreUrl, TheNameOfAnOutboxIsDecoded) {
  auto const name = [](std::string const& url) { return store_url::parse(url, "grants").outbox_name(); };
  EXPECT_EQ(name("redis://h"), "outbox");
  EXPECT_EQ(name("rediss://h/3?ssl_ca=ca.pem&outbox.name=%7Bshop%7D%3aoutbox"), "{shop}:outbox");
  EXPECT_EQ(store_url::parse("redis://h/3", "grants").database_in_path(), "3");
}

TEST(StoreUrl, WhatIsNoDatabaseIsRefusedWithoutShowingIt) {
  for (auto const* const url : {"", "shop.db", "memory:", "secret@h/db", "oracle://secret@h", "?"}) {
    try {
      static_cast<void>(store_url::parse(url, "bench"));
      ADD_FAILURE() << url;
    } catch (tool_error const& e) {
      EXPECT_EQ(e.status(), exit_usage) << url;
      EXPECT_THAT(e.what(), Not(HasSubstr("secret")));
    }
  }
}

}  // namespace
}  // namespace outbox_tool
