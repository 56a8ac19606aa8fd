#include "core/base/log_book.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace outbox::core {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class LogBook : public ::testing::Test {
 protected:
  std::vector<std::string> lines, fields;
  log_book book{[this](log_line const& line) {
                  lines.push_back(line.text());
                  fields.push_back(line.logfmt());
                },
                "node 'n'",
                {{"node", "n"}}};
  steady_time now{};
};

TEST_F(LogBook, EveryLineSaysWhoseItIs) {
  book.say(log_level::info, "started", {}, now);
  EXPECT_THAT(lines, ElementsAre("node 'n': started"));
  EXPECT_THAT(fields, ElementsAre("node=n"));
}

TEST_F(LogBook, TheFieldsOfALineFollowThoseOfTheNode) {
  book.say(log_level::error, "event 1 is DEAD", "dead", now, {{"event", "1"}, {"error", "no stock"}});
  EXPECT_THAT(fields, ElementsAre("node=n event=1 error=\"no stock\""));
}

TEST_F(LogBook, AMessageIsOneLineWhateverItsTextIs) {
  book.say(log_level::error, "ERROR: no\r\nLINE 1: SELECT\t\x1b[2J\x7f", {}, now, {{"error", "a\nb"}});
  EXPECT_THAT(lines, ElementsAre("node 'n': ERROR: no  LINE 1: SELECT  [2J "));
  EXPECT_THAT(fields, ElementsAre("node=n error=\"a\\u000ab\""));
}

TEST_F(LogBook, LinesOfOneKindAreLimitedAndTheNextOneCountsThem) {
  for (int i = 0; i < 100; ++i) book.say(log_level::error, "event " + std::to_string(i) + " is DEAD", "dead", now);
  EXPECT_THAT(lines, SizeIs(10));
  book.say(log_level::error, "something else", {}, now);
  EXPECT_THAT(lines, SizeIs(11)) << "another kind has a limit of its own";
  now += 11s;
  book.say(log_level::error, "event 100 is DEAD", "dead", now);
  EXPECT_EQ(lines.back(), "node 'n': event 100 is DEAD (90 lines like this one were left out)");
  EXPECT_EQ(fields.back(), "node=n left_out=90");
  book.say(log_level::error, "event 101 is DEAD", "dead", now);
  EXPECT_EQ(lines.back(), "node 'n': event 101 is DEAD");
}

TEST_F(LogBook, WithoutAKindOnlyRepetitionsAreLimited) {
  for (int i = 0; i < 30; ++i) book.say(log_level::info, "line " + std::to_string(i), {}, now);
  EXPECT_THAT(lines, SizeIs(30));
  for (int i = 0; i < 30; ++i) book.say(log_level::info, "the same", {}, now);
  EXPECT_THAT(lines, SizeIs(40));
}

TEST(LogBookCalls, ALogThatLogsIsNotCalledWithinItself) {
  int depth = 0;
  int deepest = 0;
  std::vector<std::string> lines;
  log_book* self = nullptr;
  log_book book{[&](log_line const& line) {
                  deepest = std::max(deepest, ++depth);
                  lines.push_back(line.text());
                  if (line.message == "first") self->say(line.level, "second", {}, {});
                  --depth;
                },
                "",
                {}};
  self = &book;
  book.say(log_level::info, "first", {}, {});
  EXPECT_THAT(lines, ElementsAre("first", "second"));
  EXPECT_EQ(deepest, 1);
}

TEST(LogBookCalls, OneCallAtATimeFromManyThreads) {
  std::atomic<int> inside = 0;
  std::atomic<bool> overlapped = false;
  std::atomic<int> lines = 0;
  {
    log_book book{[&](log_line const&) {
                    if (inside.fetch_add(1) != 0) overlapped = true;
                    ++lines;
                    --inside;
                  },
                  "",
                  {}};
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&book, t] {
        for (int i = 0; i < 50; ++i) book.say(log_level::info, std::to_string(t * 50 + i), {}, {});
      });
    }
  }
  EXPECT_FALSE(overlapped);
  EXPECT_EQ(lines, 200);
}

TEST(LogBookCalls, ALogThatThrowsIsIgnored) {
  int calls = 0;
  log_book book{[&](log_line const&) {
                  ++calls;
                  throw 42;
                },
                "",
                {}};
  book.say(log_level::info, "a", {}, {});
  book.say(log_level::info, "b", {}, {});
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace outbox::core
