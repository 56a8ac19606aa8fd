// A line of the log as text and as logfmt, with values that would break it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/log.hpp>
#include <vector>

namespace outbox {
namespace {

std::string logfmt_of(std::string_view value) {
  log_field const one{"error", value};
  return log_line{.fields = {&one, 1}}.logfmt();
}

TEST(LogLine, TheTextSaysWhoAndWhat) {
  EXPECT_EQ((log_line{.message = "stopped", .source = "node 'n' on t"}.text()), "node 'n' on t: stopped");
  EXPECT_EQ((log_line{.message = "the relay runs"}.text()), "the relay runs");
}

TEST(LogLine, FieldsAreInTheOrderOfTheLine) {
  std::vector<log_field> const all{{"node", "web-1"}, {"attempt", "3"}, {"error", "no stock"}};
  EXPECT_EQ(log_line{.fields = all}.logfmt(), "node=web-1 attempt=3 error=\"no stock\"");
  EXPECT_EQ(log_line{}.logfmt(), "");
}

TEST(LogLine, WhatHasAMeaningInLogfmtIsQuoted) {
  EXPECT_EQ(logfmt_of("a/b:c,'d'"), "error=a/b:c,'d'");
  EXPECT_EQ(logfmt_of(""), "error=\"\"");
  EXPECT_EQ(logfmt_of("a=b"), "error=\"a=b\"");
  EXPECT_EQ(logfmt_of("say \"no\""), "error=\"say \\\"no\\\"\"");
  EXPECT_EQ(logfmt_of("C:\\x"), "error=\"C:\\\\x\"");
  EXPECT_EQ(logfmt_of("Gr\xc3\xb6\xc3\x9f"
                      "e"),
            "error=\"Gr\xc3\xb6\xc3\x9f"
            "e\"");
}

TEST(LogLine, AHostileValueStaysOnItsLineAndInItsField) {
  EXPECT_EQ(logfmt_of("a\nlevel=error\r"), "error=\"a\\u000alevel=error\\u000d\"");
  EXPECT_EQ(logfmt_of("\x1b[2J\x7f"), "error=\"\\u001b[2J\\u007f\"") << "terminals obey these";
  EXPECT_EQ(logfmt_of("\xc2\x9b"
                      "2J"),
            "error=\"\\u009b2J\"")
      << "and this one";
  EXPECT_EQ(logfmt_of(std::string_view{"a\0b", 3}), "error=\"a\\u0000b\"");
  EXPECT_EQ(logfmt_of("\xff\xc3"), "error=\"\\ufffd\\ufffd\"");
  EXPECT_EQ(logfmt_of("\xed\xa0\x80"), "error=\"\\ufffd\\ufffd\\ufffd\"") << "half of a surrogate pair";
}

}  // namespace
}  // namespace outbox
