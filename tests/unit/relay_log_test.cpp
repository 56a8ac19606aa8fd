// The lines of the relay's log: one line each, and JSON where JSON was asked for, whatever a value has in it.
#include "../apps/outbox/log_lines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace outbox_tool {
namespace {

using namespace std::chrono_literals;

outbox::instant const midnight = outbox::instant{std::chrono::sys_days{std::chrono::year{2030} / 1 / 31}} + 1ms;
std::string const hostile{"a \"b\"\nlevel=error\\\xff\x01\0", 21};

outbox::log_field const dead_fields[] = {{"node", "web-1"}, {"event", "01JD"}, {"error", hostile}};
outbox::log_line const dead_line{.level = outbox::log_level::error,
                                 .message = "event 01JD is DEAD: \"no\"",
                                 .source = "node 'web-1' on t",
                                 .fields = dead_fields};

TEST(RelayLog, FieldsAreKeysOfLogfmt) {
  EXPECT_EQ(
      logfmt_line(dead_line, midnight),
      "time=2030-01-31T00:00:00.001Z level=error message=\"event 01JD is DEAD: \\\"no\\\"\" node=web-1 event=01JD "
      "error=\"a \\\"b\\\"\\u000alevel=error\\\\\\ufffd\\u0001\\u0000\"\n");
  EXPECT_EQ(logfmt_line({.message = "the relay runs"}, midnight),
            "time=2030-01-31T00:00:00.001Z level=info message=\"the relay runs\"\n");
}

TEST(RelayLog, FieldsAreMembersOfJson) {
  auto const text = json_line(dead_line, midnight);
  EXPECT_EQ(text.find('\n'), text.size() - 1) << "one line";
  auto const j = nlohmann::json::parse(text);
  EXPECT_EQ(j.at("time"), "2030-01-31T00:00:00.001Z");
  EXPECT_EQ(j.at("level"), "error");
  EXPECT_EQ(j.at("message"), "event 01JD is DEAD: \"no\"");
  EXPECT_EQ(j.at("node"), "web-1");
  EXPECT_EQ(j.at("event"), "01JD");
  EXPECT_EQ(j.at("error").get<std::string>(), (std::string{"a \"b\"\nlevel=error\\\xef\xbf\xbd\x01\0", 23}));
}

// Where a journald listens, the line is there; elsewhere it is on standard error, for people.
TEST(RelayLog, TheJournalGetsNoTextForMachines) {
  ::testing::internal::CaptureStderr();
  log_to(outbox::log_form::journal, outbox::log_level::info)({.message = "a test of the relay's log"});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AnyOf("", "outbox info: a test of the relay's log\n"));
}

}  // namespace
}  // namespace outbox_tool
