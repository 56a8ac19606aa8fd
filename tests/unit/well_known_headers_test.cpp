// The headers `topic` and `schema_version`: what may be written, and what is read of rows that other programs wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <outbox/error.hpp>
#include <outbox/result.hpp>
#include <outbox/well_known_headers.hpp>
#include <type_traits>

namespace outbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// As a store restores it: nothing has checked its headers.
event event_with(headers h) {
  event_record r;
  r.id = "e";
  r.type = "t";
  r.payload = "1";
  r.headers = std::move(h);
  return event::restore(std::move(r));
}

error refusal_of(well_known_headers const& known, headers more = {}) {
  try {
    static_cast<void>(make_headers(known, std::move(more)));
  } catch (error const& e) {
    return e;
  }
  return error{errc::lifecycle, "it was taken"};
}

template <class F>
std::string death_by(F&& read) {
  try {
    static_cast<void>(read());
  } catch (permanent_failure const& e) {
    return e.what();
  }
  return "(read)";
}

TEST(WellKnownHeaders, AreHeadersByTheirNamesBesideTheOthers) {
  EXPECT_THAT(make_headers({.topic = "shop.orders", .schema_version = 2}, {{"region", "eu"}}),
              ElementsAre(Pair("region", "eu"), Pair("schema_version", "2"), Pair("topic", "shop.orders")));
  EXPECT_THAT(make_headers({.schema_version = 1}), ElementsAre(Pair("schema_version", "1")));
  EXPECT_THAT(make_headers({}), IsEmpty());
}

TEST(WellKnownHeaders, ComeBackFromTheEventThatWasMadeWithThem) {
  auto const e =
      event::json("t", "1", {.headers = make_headers({.topic = "bücher/日本", .schema_version = 2147483647})});
  EXPECT_EQ(topic_of(e), "bücher/日本");
  EXPECT_EQ(required_topic(e), "bücher/日本");
  EXPECT_EQ(schema_version_of(e), 2147483647);
  EXPECT_EQ(required_schema_version(e), 2147483647);
  static_assert(std::is_same_v<decltype(schema_version_of(e)), std::optional<std::int32_t>>);
}

TEST(WellKnownHeaders, ATopicIsRefusedByItsNameAndItsLimit) {
  std::string const longest(249, 'x');
  EXPECT_EQ(make_headers({.topic = longest}).at("topic"), longest);
  std::string characters;
  for (int i = 0; i < 249; ++i) characters += "é";
  EXPECT_EQ(make_headers({.topic = characters}).at("topic"), characters) << "characters count, not bytes";
  struct one {
    std::string topic, problem;
  };
  for (auto const& [topic, problem] : {one{"", "must not be empty"},
                                       {longest + "x", "has 250 characters, the limit is 249"},
                                       {characters + "x", "has 250 characters, the limit is 249"},
                                       {"a\nb", "contains a line break"},
                                       {"a\r", "contains a line break"},
                                       {std::string{"a\0b", 3}, "contains a NUL character"},
                                       {"a\xff", "is not valid UTF-8"}}) {
    auto const e = refusal_of({.topic = topic});
    EXPECT_EQ(e.code(), errc::invalid_event) << problem;
    EXPECT_EQ(e.field(), "topic") << problem;
    EXPECT_THAT(e.what(), HasSubstr(problem));
    EXPECT_EQ(topic_of(event_with({{"topic", topic}})), std::nullopt) << "nor is it read: " << problem;
  }
}

TEST(WellKnownHeaders, AVersionIsRefusedByItsNameAndItsLimits) {
  for (std::int32_t const version : {0, -1, std::numeric_limits<std::int32_t>::min()}) {
    auto const e = refusal_of({.schema_version = version});
    EXPECT_EQ(e.code(), errc::invalid_event);
    EXPECT_EQ(e.field(), "schema_version");
    EXPECT_EQ(std::string{e.what()},
              "schema_version is " + std::to_string(version) + ", the limits are 1 and 2147483647");
  }
}

TEST(WellKnownHeaders, ANameThatIsAmongTheOtherHeadersTooIsRefused) {
  EXPECT_EQ(refusal_of({.topic = "a"}, {{"topic", "b"}}).field(), "topic");
  EXPECT_EQ(refusal_of({.schema_version = 1}, {{"schema_version", "1"}}).field(), "schema_version");
  EXPECT_EQ(make_headers({.schema_version = 1}, {{"topic", "b"}}).at("topic"), "b") << "it was named once";
}

TEST(WellKnownHeaders, AnEventWithoutThemHasNone) {
  for (auto const& e : {event_with({}), event_with({{"Topic", "a"}, {"schema-version", "1"}})}) {
    EXPECT_EQ(topic_of(e), std::nullopt);
    EXPECT_EQ(schema_version_of(e), std::nullopt);
    EXPECT_EQ(death_by([&] { return required_topic(e); }), "the event has no header 'topic'");
    EXPECT_EQ(death_by([&] { return required_schema_version(e); }), "the event has no header 'schema_version'");
  }
}

TEST(WellKnownHeaders, WhatIsNoVersionIsNotReadAsOne) {
  for (std::string const text : {"", "0", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "v1", "one", "2147483648",
                                 "4294967297", "99999999999999999999", "1\n"}) {
    auto const e = event_with({{"schema_version", text}});
    EXPECT_EQ(schema_version_of(e), std::nullopt) << text;
    EXPECT_EQ(death_by([&] { return required_schema_version(e); }),
              "the header 'schema_version' is '" + text + "', which is no whole number from 1 to 2147483647");
  }
}

TEST(WellKnownHeaders, AnErrorQuotesAHostileValueInPart) {
  auto const e = event_with({{"schema_version", std::string(100'000, '\xff')}, {"topic", std::string{"\0", 1}}});
  auto const why = death_by([&] { return required_schema_version(e); });
  EXPECT_LT(why.size(), 300U);
  EXPECT_THAT(why, HasSubstr("\xEF\xBF\xBD"));
  EXPECT_THAT(death_by([&] { return required_topic(e); }), HasSubstr("which is no topic of 1 to 249 characters"));
}

TEST(WellKnownHeaders, AnEventThatWasMovedFromHasNone) {
  auto e = event_with({{"topic", "a"}, {"schema_version", "1"}});
  auto const moved = std::move(e);
  EXPECT_EQ(topic_of(moved), "a");
  EXPECT_EQ(topic_of(e), std::nullopt);           // NOLINT(bugprone-use-after-move): that is the case
  EXPECT_EQ(schema_version_of(e), std::nullopt);  // NOLINT(bugprone-use-after-move)
}

RC_GTEST_PROP(WellKnownHeaders, EveryVersionFromOneOnComesBack, ()) {
  auto const version = *rc::gen::inRange<std::int32_t>(1, std::numeric_limits<std::int32_t>::max());
  RC_ASSERT(schema_version_of(event_with(make_headers({.schema_version = version}))) == version);
}

// Whatever the bytes are: what is taken comes back, and what is not is never read.
RC_GTEST_PROP(WellKnownHeaders, ATopicIsReadIfAndOnlyIfItCouldBeWritten, (std::string const& text)) {
  auto const read = topic_of(event_with({{"topic", text}})).has_value();
  RC_ASSERT(read == (refusal_of({.topic = text}).code() == errc::lifecycle));
}

}  // namespace
}  // namespace outbox
