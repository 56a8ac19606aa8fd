// How a store learns that another process has committed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sqlite3.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <outbox/sqlite.hpp>

#include "sqlite/change_watch.hpp"
#include "sqlite/file_events.hpp"
#include "support/temporary_directory.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;

// No check except after a write that was heard.
constexpr sqlite::watch_limits only_heard{.heard_slowest = 1h, .deaf_first = 1h, .deaf_slowest = 1h};

class Watch : public ::testing::Test {
 protected:
  void write(std::string const& text) { std::ofstream{file, std::ios::app} << text; }

  temporary_directory dir;
  std::string file = dir / "a.db-wal";
  std::atomic<std::int64_t> version = 1;
  std::atomic<int> pushed = 0;

  spi::subscription subscribe(sqlite::change_watch& w) {
    return w.subscribe([&] { ++pushed; }, [&] { return std::optional{version.load()}; });
  }
};

TEST_F(Watch, ACommitOfAnotherProcessIsHeard) {
  auto const path = dir / "shop.db";
  sqlite::connection db{path};
  db.execute("CREATE TABLE t (i INT)");
  sqlite::change_watch watch{path + "-wal", only_heard};
  auto const s = watch.subscribe([&] { ++pushed; },
                                 [&] { return std::optional{db.query<std::int64_t>("PRAGMA data_version").at(0)}; });
  for (int i = 1; i <= 3; ++i) {
    auto const before = pushed.load();
    ASSERT_EQ(std::system(("sqlite3 '" + path + "' 'INSERT INTO t VALUES (1)'").c_str()), 0);
    EXPECT_TRUE(eventually([&] { return pushed > before; })) << i;
  }
}

// The file is written before the commit can be seen.
TEST_F(Watch, ACommitThatIsSeenOnlyLaterIsPushed) {
  write("x");
  sqlite::change_watch watch{file, only_heard};
  std::atomic<int> checks = 0;
  auto const s = watch.subscribe([&] { ++pushed; }, [&] { return ++checks, std::optional{version.load()}; });
  write("y");
  ASSERT_TRUE(eventually([&] { return checks > 3; }));
  EXPECT_EQ(pushed, 0);
  version = 2;
  EXPECT_TRUE(eventually([&] { return pushed == 1; }));
}

TEST_F(Watch, WithoutAFileItChecks) {
  sqlite::change_watch watch{dir / "missing/a.db-wal"};
  auto const s = subscribe(watch);
  version = 2;
  EXPECT_TRUE(eventually([&] { return pushed == 1; }));
}

TEST_F(Watch, AFileThatIsMadeLaterIsHeard) {
  sqlite::change_watch watch{file, {.heard_slowest = 1h}};
  auto const s = subscribe(watch);
  write("x");
  version = 2;
  EXPECT_TRUE(eventually([&] { return pushed > 0; }));
}

TEST_F(Watch, ADeletedFileIsHeardOfAgainWhenItIsMadeAgain) {
  write("x");
  auto const heard = [&](sqlite::file_events& e) {
    ::pollfd p{e.descriptor(), POLLIN, 0};
    return ::poll(&p, 1, 0) == 1 && e.take();
  };
  sqlite::file_events events{file};
  ASSERT_TRUE(events.listen());
  EXPECT_FALSE(heard(events));
  write("y");
  EXPECT_TRUE(heard(events));
  EXPECT_FALSE(heard(events));

  std::ifstream const open{file};  // as SQLite has it
  std::filesystem::remove(file);
  EXPECT_FALSE(heard(events));
  EXPECT_FALSE(events.listening());
  EXPECT_FALSE(events.listen());
  write("z");
  EXPECT_TRUE(events.listen());
  write("z");
  EXPECT_TRUE(heard(events));

  // Another file takes its place at once.
  std::ofstream{dir / "other"} << "o";
  std::filesystem::rename(dir / "other", file);
  EXPECT_FALSE(heard(events));
  EXPECT_TRUE(events.listening());
  write("o");
  EXPECT_TRUE(heard(events));
}

TEST_F(Watch, WhatIsWrittenWhileItDoesNotListenIsNotHeard) {
  write("x");
  sqlite::file_events events{file};
  ASSERT_TRUE(events.listen());
  events.stop();
  EXPECT_FALSE(events.listening());
  write("y");
  EXPECT_FALSE(events.take());
  ASSERT_TRUE(events.listen());
  write("z");
  EXPECT_TRUE(events.take());
}

// During a stream of commits the writers do not pay for being heard. The changes are found by the clock.
TEST_F(Watch, AfterAStreamOfCommitsItListensAgain) {
  write("x");
  sqlite::change_watch watch{file, {.heard_first = 1h, .heard_slowest = 1h, .deaf_first = 1h, .deaf_slowest = 1h}};
  std::atomic<bool> stream = true;
  std::atomic<int> unchanged = 0;
  auto const s = watch.subscribe([&] { ++pushed; },
                                 [&] {
                                   if (stream) return std::optional{++version};
                                   ++unchanged;
                                   return std::optional{version.load()};
                                 });
  write("y");
  for (int i = 0; i < 3; ++i) {
    auto const before = pushed.load();
    ASSERT_TRUE(eventually([&] { return pushed > before + 20; })) << "nothing is written meanwhile";
    stream = false;
    unchanged = 0;
    ASSERT_TRUE(eventually([&] { return unchanged >= 2; })) << "one that finds the end, and one that has listened";
    stream = true;
    write("z");
  }
}

TEST_F(Watch, APaceGrowsSlowerUntilAWriteIsHeard) {
  sqlite::watch_pace pace{{}};
  EXPECT_EQ(pace.delay(), 1s);
  pace.heard();
  EXPECT_EQ(pace.delay(), 0s);
  pace.checked(false, false);
  EXPECT_EQ(pace.delay(), 250us);
  pace.checked(false, false);
  EXPECT_EQ(pace.delay(), 500us);
  for (int i = 0; i < 20; ++i) pace.checked(false, false);
  EXPECT_EQ(pace.delay(), 1s);
  pace.checked(false, true);
  EXPECT_EQ(pace.delay(), 100ms) << "at most ten a second where nothing is heard";
}

TEST_F(Watch, AStreamOfCommitsIsPushedAtMostEveryTenMilliseconds) {
  sqlite::watch_pace pace{{}};
  pace.checked(true, false);
  EXPECT_EQ(pace.delay(), 1ms);
  EXPECT_FALSE(pace.may_wake());
  EXPECT_FALSE(pace.in_a_stream());
  for (int i = 0; i < 10; ++i) pace.checked(true, false);
  EXPECT_EQ(pace.delay(), 10ms);
  EXPECT_TRUE(pace.in_a_stream());
  pace.checked(false, true);
  EXPECT_FALSE(pace.in_a_stream());
  EXPECT_EQ(pace.delay(), 0ms) << "it must listen again before it waits";
  EXPECT_TRUE(pace.may_wake());
  pace.checked(true, false);
  EXPECT_EQ(pace.delay(), 1ms);
}

}  // namespace
}  // namespace outbox
