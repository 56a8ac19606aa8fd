// The checks of the doctor that need no database.
#include <gmock/gmock.h>

#include "doctor_checks.hpp"

namespace outbox_tool {
namespace {

using namespace std::chrono_literals;
using outbox::instant;
using outbox::spi::finding;
using outbox::spi::finding_level;
using ::testing::HasSubstr;

// A clock that is this far ahead of ours, over a network whose round trips take these times.
finding skew(std::chrono::milliseconds ahead, std::vector<std::chrono::milliseconds> trips) {
  finding_list found;
  instant now{1000s};
  std::size_t next = 0;
  auto const there = [&] {
    auto const trip = trips.at(next++ % trips.size());
    now += trip;  // the answer was slow, the question was not
    return now - trip + ahead;
  };
  check_clocks(
      there, [&] { return now; }, {}, found);
  return found.at(0);
}

TEST(DoctorChecks, ClocksThatDifferAreFound) {
  EXPECT_EQ(skew(0ms, {2ms}).level, finding_level::passed);
  EXPECT_EQ(skew(249ms, {0ms}).level, finding_level::passed);
  EXPECT_EQ(skew(300ms, {2ms}).level, finding_level::warning);
  EXPECT_EQ(skew(-300ms, {2ms}).level, finding_level::warning);
  EXPECT_THAT(skew(-301ms, {2ms}).text, HasSubstr("302 ms behind"));
  EXPECT_EQ(skew(5s, {2ms}).level, finding_level::problem);
  EXPECT_THAT(skew(5s, {2ms}).text, HasSubstr("4999 ms ahead"));
}

TEST(DoctorChecks, TheSampleWithTheShortestRoundTripCounts) {
  EXPECT_EQ(skew(0ms, {5000ms, 4000ms, 2ms, 6000ms, 9000ms}).level, finding_level::passed);
  EXPECT_EQ(skew(0ms, {5000ms, 4000ms, 7000ms, 6000ms, 9000ms}).level, finding_level::warning) << "no sample is good";
}

TEST(DoctorChecks, AServerThatDoesNotTellItsTimeIsSkipped) {
  finding_list found;
  check_clocks(
      []() -> instant {
        throw outbox::error{outbox::errc::store_failure, "no"};
      },
      [] { return instant{}; }, {}, found);
  EXPECT_EQ(found.at(0).level, finding_level::skipped);
}

TEST(DoctorChecks, ParkedKeysAreNamedWithCommandsThatCanBeCopied) {
  auto const parked = [](std::vector<outbox::parked_key> const& all) {
    finding_list found;
    check_keys(true, all, {}, instant{1000s}, found);
    return found.at(1);
  };
  EXPECT_EQ(parked({}).level, finding_level::passed);
  auto const f = parked({{"=b", "it's; $(reboot)", instant{400s}, 2}, {"=a", "young", instant{900s}, 1}});
  EXPECT_EQ(f.level, finding_level::warning);
  EXPECT_EQ(f.text, "2 keys are parked, and 3 events wait; the first is b behind event it's; $(reboot), for 10 min.");
  EXPECT_THAT(f.fix, HasSubstr("outbox replay 'it'\\''s; $(reboot)'"));
}

// A node announces itself before it makes the index and marks the table.
TEST(DoctorChecks, ATableThatIsNotMarkedMayBeInPreparation) {
  finding_list found;
  check_keys(false, {}, {{.incarnation = "strict:1:x", .name = "strict", .mode = outbox::node_mode::keyed}},
             instant{1000s}, found);
  EXPECT_EQ(found.at(0).code, "order_of_keys");
  EXPECT_EQ(found.at(0).level, finding_level::problem);
  EXPECT_EQ(
      found.at(0).text,
      "The table is not marked as keyed, and keyed nodes are live: strict. Either they are still preparing it, or "
      "its mark was removed.");
  EXPECT_THAT(found.at(0).fix, ::testing::StartsWith("outbox nodes\n"));
  EXPECT_THAT(found.at(0).fix, HasSubstr("restart them"));
}

TEST(DoctorChecks, TypesWithoutARouteAreNamedWithCommandsThatCanBeCopied) {
  auto const fix = [](std::string const& type, bool keyed) {
    finding_list found;
    check_routes({{.incarnation = "n:1:x",
                   .name = "n",
                   .started_at = instant{1s},
                   .active = true,
                   .routes = {{"mail", "mail"}}}},
                 {{.event_type = type, .aggregate_type = "order", .counts = {.created = 1}}}, keyed, found);
    EXPECT_EQ(found.at(0).level, finding_level::problem);
    return found.at(0).fix;
  };
  EXPECT_EQ(fix("order.placed", false),
            "outbox list --type order.placed\n-- then deploy a node with a listener for it, or: outbox cancel --type "
            "order.placed");
  EXPECT_THAT(fix("order.placed", true), ::testing::EndsWith("until you run: outbox discard --type order.placed"));
  EXPECT_THAT(fix("my type; $(reboot)", true), HasSubstr("outbox list --type 'my type; $(reboot)'\n"));
}

}  // namespace
}  // namespace outbox_tool
