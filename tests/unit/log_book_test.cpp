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
  std::vector<std::string> lines;
  log_book book{[this](log_level, std::string_view text) { lines.emplace_back(text); }, "node 'n': "};
  steady_time now{};
};

TEST_F(LogBook, EveryLineSaysWhoseItIs) {
  book.say(log_level::info, "started", {}, now);
  EXPECT_THAT(lines, ElementsAre("node 'n': started"));
}

TEST_F(LogBook, LinesOfOneKindAreLimitedAndTheNextOneCountsThem) {
  for (int i = 0; i < 100; ++i) book.say(log_level::error, "event " + std::to_string(i) + " is DEAD", "dead", now);
  EXPECT_THAT(lines, SizeIs(10));
  book.say(log_level::error, "something else", {}, now);
  EXPECT_THAT(lines, SizeIs(11)) << "another kind has a limit of its own";
  now += 11s;
  book.say(log_level::error, "event 100 is DEAD", "dead", now);
  EXPECT_EQ(lines.back(), "node 'n': event 100 is DEAD (90 lines like this one were left out)");
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
  log_book book{[&](log_level level, std::string_view text) {
                  deepest = std::max(deepest, ++depth);
                  lines.emplace_back(text);
                  if (text == "first") self->say(level, "second", {}, {});
                  --depth;
                },
                ""};
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
    log_book book{[&](log_level, std::string_view) {
                    if (inside.fetch_add(1) != 0) overlapped = true;
                    ++lines;
                    --inside;
                  },
                  ""};
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
  log_book book{[&](log_level, std::string_view) {
                  ++calls;
                  throw 42;
                },
                ""};
  book.say(log_level::info, "a", {}, {});
  book.say(log_level::info, "b", {}, {});
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace outbox::core
