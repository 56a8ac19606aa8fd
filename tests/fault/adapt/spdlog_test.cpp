// Lines of a node in a logger of spdlog.
#include <outbox/adapt/spdlog.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <outbox/memory.hpp>
#include <outbox/outbox.hpp>
#include <sstream>

namespace outbox {
namespace {

using ::testing::HasSubstr;

class Spdlog : public ::testing::Test {
 protected:
  std::ostringstream out;
  std::shared_ptr<spdlog::logger> logger = [this] {
    auto l = std::make_shared<spdlog::logger>("shop", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
    l->set_pattern("%l %v");
    return l;
  }();
};

TEST_F(Spdlog, ALineHasItsLevelMessageAndFields) {
  log_field const fields[] = {{"event", "e"}, {"error", "no\nstock"}};
  auto const log = log_to(logger);
  log({.level = log_level::error, .message = "event e is DEAD: {} {0} %s", .fields = fields});
  log({log_level::warning, "a warning"});
  log({log_level::info, "told"});
  EXPECT_EQ(out.str(),
            "error event e is DEAD: {} {0} %s event=e error=\"no\\u000astock\"\nwarning a warning\ninfo told\n");
}

TEST_F(Spdlog, TheLevelOfTheLoggerDecides) {
  auto const log = log_to(logger);
  log({log_level::debug, "left out"});
  EXPECT_EQ(out.str(), "");
  logger->set_level(spdlog::level::debug);
  log({log_level::debug, "told"});
  EXPECT_EQ(out.str(), "debug told\n");
}

TEST_F(Spdlog, NoLoggerIsNoLog) { EXPECT_FALSE(log_to(nullptr)); }

TEST_F(Spdlog, ANodeLogsADeadEvent) {
  auto const store = memory::open();
  listeners l;
  l.on("t", [](delivery const&) -> result { return dead{"no"}; });
  auto n = single_node({.store = store, .listeners = std::move(l), .log = log_to(logger)});
  n.run_until_idle();
  memory::transaction tx{*store};
  n.writer().write(tx, "t", "1", {.id = "e"});
  tx.commit();
  n.run_until_idle();
  EXPECT_THAT(out.str(), HasSubstr("error event e (t) of route 't' is DEAD: no node="));
  EXPECT_THAT(out.str(), HasSubstr(" event=e type=t route=t attempt=1 error=no\n"));
}

}  // namespace
}  // namespace outbox
