#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <latch>
#include <outbox/error.hpp>
#include <outbox/event.hpp>
#include <set>
#include <thread>

namespace outbox {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// The field that a refused event blames, and what it says.
std::pair<std::string, std::string> refusal(std::function<void()> const& make) {
  try {
    make();
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_event);
    EXPECT_FALSE(e.transient());
    return {std::string{e.field()}, e.what()};
  }
  return {"accepted", ""};
}

std::pair<std::string, std::string> refused(event_options options) {
  return refusal([&] { static_cast<void>(event::json("t", "1", std::move(options))); });
}
std::string refused_field(event_options options) { return refused(std::move(options)).first; }

TEST(Event, HasDefaults) {
  auto const before = std::chrono::system_clock::now();
  auto const e = event::json("order.placed", "{}");
  EXPECT_EQ(e.id().size(), 26U);
  EXPECT_EQ(e.aggregate_type(), "__GLOBAL__");
  EXPECT_EQ(e.aggregate_id(), "");
  EXPECT_EQ(e.tenant(), "");
  EXPECT_TRUE(e.headers().empty());
  EXPECT_EQ(e.content_type(), "application/json");
  EXPECT_GE(e.occurred_at(), std::chrono::floor<std::chrono::microseconds>(before));
  EXPECT_FALSE(e.delayed());
}

TEST(Event, KeepsWhatItWasGiven) {
  auto const e = event::bytes("t", std::string{"\0\xff", 2}, "application/protobuf",
                              {.id = "id", .aggregate = {"order", "42"}, .tenant = "acme", .headers = {{"a", "b"}}});
  EXPECT_EQ(e.id(), "id");
  EXPECT_EQ(e.payload(), (std::string{"\0\xff", 2}));
  EXPECT_EQ(e.kind(), payload_kind::bytes);
  EXPECT_EQ(e.content_type(), "application/protobuf");
  EXPECT_EQ(e.aggregate_id(), "42");
}

TEST(Event, BytesFromASpan) {
  std::byte const raw[] = {std::byte{0}, std::byte{255}};
  EXPECT_EQ(event::bytes("t", raw, "x").payload(), (std::string{"\0\xff", 2}));
}

TEST(Event, TakesJsonAsAnyText) {
  std::string const text = "[1]";
  EXPECT_EQ(event::json("t", text).payload(), text);
  EXPECT_EQ(event::json("t", std::string_view{text}).payload(), text);
  EXPECT_EQ(event::json("t", text.c_str()).payload(), text);
  EXPECT_EQ(event::json("t", std::string(100, '1')).payload().size(), 100U);
}

TEST(Event, CopiesShareTheirMemory) {
  auto const a = event::json("t", "[1,2,3]");
  auto const b = a;  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(&a.payload(), &b.payload());
}

TEST(Event, WhatTheCallerDoesWithItsBuffersAfterwardsChangesNothing) {
  std::string json = R"({"n":1})";
  std::vector<std::byte> raw{std::byte{1}, std::byte{2}};
  event_options options{.headers = {{"k", "v"}}};
  auto const a = event::json("t", json, options);
  auto const b = event::bytes("t", raw, "x");
  json[5] = '2';
  raw[0] = std::byte{9};
  options.headers["k"] = "w";
  EXPECT_EQ(a.payload(), R"({"n":1})");
  EXPECT_EQ(a.headers().at("k"), "v");
  EXPECT_EQ(b.payload(), "\x01\x02");
}

TEST(EventRefused, PayloadOverTheLimitNamesBoth) {
  auto const [field, text] =
      refusal([] { static_cast<void>(event::json("t", '"' + std::string(1 << 20, 'x') + '"')); });
  EXPECT_EQ(field, "payload");
  EXPECT_THAT(text, HasSubstr("1048578 bytes, the limit is 1048576"));
}

TEST(EventRefused, ThePayloadLimitCountsBytesNotCharacters) {
  auto const letters = [](std::size_t count) {
    std::string text = "\"";
    for (std::size_t i = 0; i < count; ++i) text += "é";
    return text + "\"";
  };
  EXPECT_NO_THROW(static_cast<void>(event::json("t", letters(524'287)))) << "1,048,576 bytes";
  auto const [field, text] = refusal([&] { static_cast<void>(event::json("t", letters(600'000))); });
  EXPECT_EQ(field, "payload");
  EXPECT_THAT(text, HasSubstr("1200002 bytes, the limit is 1048576"));
}

TEST(EventRefused, PayloadLimitCanBeMoved) {
  event_limits const small{.payload_bytes = 4};
  EXPECT_EQ(refusal([&] { static_cast<void>(event::json("t", "12345", {}, small)); }).first, "payload");
  EXPECT_NO_THROW(static_cast<void>(event::json("t", "1234", {}, small)));
  event_limits const large{.payload_bytes = 4 << 20};
  EXPECT_NO_THROW(static_cast<void>(event::json("t", '"' + std::string(2 << 20, 'x') + '"', {}, large)));
}

TEST(EventRefused, NullPointers) {
  char const* const none = nullptr;
  EXPECT_EQ(refusal([&] { static_cast<void>(event::json("t", none)); }).first, "payload");
}

TEST(EventRefused, EmptyType) {
  EXPECT_EQ(refusal([] { static_cast<void>(event::json("", "1")); }).first, "type");
}

TEST(EventRefused, TooLongNamesAreReportedWithTheirLength) {
  auto const [field, text] = refusal([] { static_cast<void>(event::json(std::string(129, 'x'), "1")); });
  EXPECT_EQ(field, "type");
  EXPECT_THAT(text, HasSubstr("129 characters, the limit is 128"));
  EXPECT_EQ(refused_field({.id = std::string(37, 'x')}), "id");
  EXPECT_EQ(refused_field({.aggregate = {std::string(65, 'x'), ""}}), "aggregate.type");
  EXPECT_EQ(refused_field({.aggregate = {"", std::string(129, 'x')}}), "aggregate.id");
  EXPECT_EQ(refused_field({.tenant = std::string(65, 'x')}), "tenant");
  EXPECT_EQ(refused_field({.ordering_key = std::string(129, 'x')}), "ordering_key");
  EXPECT_EQ(refusal([] { static_cast<void>(event::bytes("t", "", std::string(129, 'x'))); }).first, "content_type");
}

TEST(EventRefused, CharactersAreCountedNotBytes) {
  std::string wide;
  for (int i = 0; i < 64; ++i) wide += "😀";
  EXPECT_EQ(refused_field({.tenant = wide}), "accepted");
}

TEST(EventRefused, NamesThatAreNotText) {
  EXPECT_EQ(refused_field({.tenant = "\xff"}), "tenant");
  EXPECT_EQ(refused_field({.aggregate = {"", "\xc3\x28"}}), "aggregate.id");
  EXPECT_EQ(refused_field({.id = std::string{"a\0b", 3}}), "id");
  EXPECT_EQ(refusal([] { static_cast<void>(event::json("\xed\xa0\x80", "1")); }).first, "type") << "a surrogate";
}

TEST(EventRefused, Headers) {
  EXPECT_EQ(refused_field({.headers = {{"", "x"}}}), "headers");
  EXPECT_EQ(refused_field({.headers = {{"a", "x\r\ny"}}}), "headers");
  EXPECT_EQ(refused_field({.headers = {{"a\n", "x"}}}), "headers");
  EXPECT_EQ(refused_field({.headers = {{"a", std::string{"\0", 1}}}}), "headers");
  EXPECT_EQ(refused_field({.headers = {{"a", "\xff"}}}), "headers");
  EXPECT_EQ(refused_field({.headers = {{"a", std::string(65 << 10, 'x')}}}), "headers");
  headers many;
  for (int i = 0; i < 65; ++i) many["h" + std::to_string(i)] = "x";
  EXPECT_EQ(refused_field({.headers = many}), "headers");
  EXPECT_EQ(refused_field({.headers = {{"a", ""}}}), "accepted");
}

TEST(EventRefused, WhatIsNotJson) {
  for (auto const* text : {"", " ", "{", "{'a':1}", "[1,]", "nul", "NaN", "1 2", "\"\xff\"", "\xEF\xBB\xBF{}",
                           "// x\n1", "{\"a\":1,}", "\"\\ud800\""}) {
    EXPECT_EQ(refusal([&] { static_cast<void>(event::json("t", text)); }).first, "payload") << text;
  }
  EXPECT_EQ(refusal([] { static_cast<void>(event::json("t", std::string{"{}\0{}", 5})); }).first, "payload") << "NUL";
  for (auto const* text : {"null", "0", "-0.0e+5", "\"\"", "[]", " {\"a\" : [ ] } \n", "\"\\u0000\""}) {
    EXPECT_NO_THROW(static_cast<void>(event::json("t", text))) << text;
  }
}

TEST(EventRefused, TheTextSaysWhatAndWhere) {
  EXPECT_EQ(refusal([] { static_cast<void>(event::json("t", "{\"a\":x}")); }).second,
            "payload is not valid JSON at offset 5");
  EXPECT_EQ(refusal([] { static_cast<void>(event::json("t", "\"\xFF\"")); }).second,
            "payload is not valid UTF-8 at offset 1");
  EXPECT_EQ(refused({.headers = {{"a", "x\ny"}}}).second, "headers has an entry 'a' whose value contains a line break");
  EXPECT_EQ(refused({.headers = {{"a", "\xFF"}}}).second, "headers has an entry 'a' whose value is not valid UTF-8");
  EXPECT_EQ(refused({.headers = {{"a\r", "x"}}}).second, "headers has a name that contains a line break");
}

TEST(EventRefused, JsonThatNestsTooDeep) {
  auto const nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(static_cast<void>(event::json("t", nested(512))));
  auto const [field, text] = refusal([&] { static_cast<void>(event::json("t", nested(513))); });
  EXPECT_EQ(field, "payload");
  EXPECT_THAT(text, HasSubstr("513 deep, the limit is 512"));
  EXPECT_NO_THROW(static_cast<void>(event::json("t", '"' + std::string(2000, '[') + '"')))
      << "brackets in a string do not nest";
}

TEST(EventRefused, BytesWithoutAContentType) {
  EXPECT_EQ(refusal([] { static_cast<void>(event::bytes("t", "x", "")); }).first, "content_type");
}

TEST(EventRefused, Delays) {
  instant const now{1'000'000us};
  EXPECT_EQ(refused_field({.deliver_after = 0ms}), "deliver_after");
  EXPECT_EQ(refused_field({.deliver_after = -1ms}), "deliver_after");
  EXPECT_EQ(refused_field({.occurred_at = now, .available_at = now - 1us}), "available_at");
  EXPECT_EQ(refused_field({.occurred_at = now, .available_at = now + 1s, .deliver_after = 1s}), "deliver_after");
  EXPECT_EQ(refused_field({.occurred_at = now, .available_at = now}), "accepted");
}

TEST(EventRefused, InstantsThatADatabaseCannotStore) {
  using namespace std::chrono;
  instant const first{sys_days{year{1} / 1 / 1}};
  instant const last = instant{sys_days{year{10000} / 1 / 1}} - 1us;
  EXPECT_EQ(refused_field({.occurred_at = first}), "accepted");
  EXPECT_EQ(refused_field({.occurred_at = last}), "accepted");
  EXPECT_EQ(refused_field({.occurred_at = first, .available_at = last}), "accepted");
  EXPECT_EQ(refused_field({.occurred_at = first - 1us}), "occurred_at");
  EXPECT_EQ(refused_field({.occurred_at = instant::min()}), "occurred_at");
  EXPECT_EQ(refused_field({.occurred_at = last + 1us}), "occurred_at");
  EXPECT_EQ(refused_field({.available_at = last + 1us}), "available_at");
  EXPECT_EQ(refused_field({.available_at = instant::max()}), "available_at");
  auto const [field, text] = refusal([&] { static_cast<void>(event::json("t", "1", {.occurred_at = last + 1us})); });
  EXPECT_EQ(text, "occurred_at is after year 9999, the limit");
}

TEST(Event, IsDelayedWhenItAsksToBe) {
  instant const now{1'000'000us};
  EXPECT_TRUE(event::json("t", "1", {.deliver_after = 1ms}).delayed());
  EXPECT_TRUE(event::json("t", "1", {.occurred_at = now, .available_at = now + 1us}).delayed());
  EXPECT_FALSE(event::json("t", "1", {.occurred_at = now, .available_at = now}).delayed());
}

TEST(EventId, GrowsWithinAProcess) {
  auto last = new_event_id();
  for (int i = 0; i < 10'000; ++i) {
    auto next = new_event_id();
    ASSERT_LT(last, next);
    last = std::move(next);
  }
}

TEST(EventId, GrowsInEveryThreadAndIsNeverGivenTwice) {
  constexpr std::size_t threads = 8;
  constexpr std::size_t each = 5'000;
  std::vector<std::vector<std::string>> made(threads);
  {
    std::latch all{threads};
    std::vector<std::jthread> running;
    for (auto& mine : made) {
      running.emplace_back([&] {
        all.arrive_and_wait();
        for (std::size_t i = 0; i < each; ++i) mine.push_back(new_event_id());
      });
    }
  }
  std::set<std::string> ids;
  for (auto const& mine : made) {
    EXPECT_TRUE(std::ranges::is_sorted(mine));
    ids.insert(mine.begin(), mine.end());
  }
  EXPECT_EQ(ids.size(), threads * each);
}

TEST(EventId, BeginsWithTheTime) {
  auto const now = [] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  auto const before = now();
  auto const id = new_event_id();
  auto const after = now();
  std::int64_t time = 0;
  for (char const c : id.substr(0, 10)) {
    time = time * 32 + static_cast<std::int64_t>(std::string_view{"0123456789ABCDEFGHJKMNPQRSTVWXYZ"}.find(c));
  }
  EXPECT_GE(time, before);
  EXPECT_LE(time, after + 1) << "many ids of one millisecond may carry over into the next";
}

}  // namespace
}  // namespace outbox
