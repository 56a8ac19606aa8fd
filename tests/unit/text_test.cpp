#include "core/base/text.hpp"

#include <gtest/gtest.h>

#include <outbox/spi/codecs.hpp>
#include "core/base/json_text.hpp"

namespace outbox::core {
namespace {

TEST(Utf8, CountsCharacters) {
  EXPECT_EQ(utf8_length(""), 0U);
  EXPECT_EQ(utf8_length("abc"), 3U);
  EXPECT_EQ(utf8_length("é\xE2\x82\xAC😀"), 3U);
}

TEST(Utf8, RefusesWhatTheStandardRefuses) {
  for (auto const* bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80",
                          "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "a\xFF", "\xC3\x28"}) {
    EXPECT_FALSE(utf8_length(bad)) << bad;
  }
  for (auto const* good :
       {"\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(utf8_length(good), 1U) << good;
  }
}

// Text is looked at in words of eight bytes.
TEST(Utf8, LooksAtEveryByteOfAWord) {
  for (std::size_t length = 1; length <= 24; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      std::string text(length, 'a');
      text[at] = '\xFF';
      EXPECT_FALSE(utf8_length(text)) << length << ", " << at;
      text.replace(at, 1, "é");
      EXPECT_EQ(utf8_length(text), length);
    }
  }
}

TEST(Scrub, MakesAnythingStorable) {
  EXPECT_EQ(scrub("fine é", 100), "fine é");
  EXPECT_EQ(scrub(std::string{"a\0b", 3}, 100),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(scrub("a\xFF", 100), "a\xEF\xBF\xBD");
  EXPECT_EQ(scrub("ééé", 2), "éé");
  EXPECT_EQ(utf8_length(scrub(std::string(10'000, '\xF0'), 4000)), 4000U);
}

TEST(JsonDepth, CountsBracketsOutsideStrings) {
  EXPECT_EQ(json_depth("1"), 0U);
  EXPECT_EQ(json_depth("[]"), 1U);
  EXPECT_EQ(json_depth(R"({"a":[{"b":1}],"c":[]})"), 3U);
  EXPECT_EQ(json_depth(R"("[[[\"[[[")"), 0U);
  EXPECT_EQ(json_depth(std::string(100, '[') + std::string(100, ']')), 100U);
  EXPECT_FALSE(json_depth(std::string(100, '[') + std::string(99, ']') + "}"));
}

// Strings are looked at in words of eight bytes.
TEST(JsonDepth, LooksAtEveryByteOfAString) {
  for (std::size_t length = 1; length <= 24; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      auto const with = [&](std::string_view piece) {
        return '"' + std::string(length, 'a').replace(at, 1, piece) + '"';
      };
      for (char const* bad : {"\"", "\n", "\x1F", "\x01", "\xFF", "\x80", "\\x"}) {
        EXPECT_FALSE(json_depth(with(bad))) << length << ", " << at << ": " << bad;
      }
      EXPECT_FALSE(json_depth(with(std::string_view{"\0", 1})));
      for (char const* good : {" ", "!", "#", "[", "]", "~", "\x7F", "é", "\\\"", "\\u0041"}) {
        EXPECT_EQ(json_depth(with(good)), 0U) << length << ", " << at << ": " << good;
      }
    }
  }
}

TEST(JsonProblem, SaysWhereAndWhetherItIsText) {
  EXPECT_EQ(json_problem("[1,2]"), "");
  EXPECT_EQ(json_problem("{'a':1}"), "is not valid JSON at offset 1");
  EXPECT_EQ(json_problem("[1,]"), "is not valid JSON at offset 3");
  EXPECT_EQ(json_problem("{} {}"), "is not valid JSON at offset 3");
  EXPECT_EQ(json_problem("[1 2]"), "is not valid JSON at offset 3");
  EXPECT_EQ(json_problem("[nul]"), "is not valid JSON at offset 1");
  EXPECT_EQ(json_problem("[1.x]"), "is not valid JSON at offset 3");
  EXPECT_EQ(json_problem(R"(["a\x"])"), "is not valid JSON at offset 3") << "where the escape begins";
  EXPECT_EQ(json_problem(R"(["\u00z"])"), "is not valid JSON at offset 2");
  EXPECT_EQ(json_problem(R"(["\ud800"])"), "is not valid JSON at offset 2");
  EXPECT_EQ(json_problem("\"a\nb\""), "is not valid JSON at offset 2");
  EXPECT_EQ(json_problem("\xEF\xBB\xBF{}"), "is not valid JSON at offset 0") << "a byte order mark";
  EXPECT_EQ(json_problem("[\"\xC3\xA9\xFF\"]"), "is not valid UTF-8 at offset 4");
  EXPECT_EQ(json_problem("\xFF"), "is not valid UTF-8 at offset 0");
  EXPECT_EQ(json_problem(""), "is not valid JSON: it ends too early, after 0 bytes");
  EXPECT_EQ(json_problem("[1,"), "is not valid JSON: it ends too early, after 3 bytes");
  EXPECT_EQ(json_problem("\"a"), "is not valid JSON: it ends too early, after 2 bytes");
  EXPECT_EQ(json_problem(R"("a\u00)"), "is not valid JSON: it ends too early, after 6 bytes");
}

TEST(PauseCodec, InvalidEntriesAreLeftOutAndCounted) {
  auto const pauses = std::vector<route_pause>{{"mail", ""}, {"order", "user \"x\""}};
  EXPECT_EQ(spi::decode_pauses(spi::encode_pauses(pauses)).pauses, pauses);
  EXPECT_EQ(spi::decode_pauses(spi::encode_pauses(pauses)).ignored, 0U);
  EXPECT_EQ(spi::decode_pauses("").ignored, 0U);
  for (auto const* text : {"{}", "[", "7", "\"mail\"", "\xFF", "[[]]", "[{}]", R"([{"event_type":["mail"]}])",
                           R"([{"event_type":"mail","aggregate_type":1}])"}) {
    EXPECT_EQ(spi::decode_pauses(text).ignored, 1U) << text;
    EXPECT_EQ(spi::decode_pauses(text).pauses, std::vector<route_pause>{}) << text;
  }
}

TEST(HeaderCodec, EmptyTextMeansNoHeaders) {
  EXPECT_EQ(spi::encode_headers({}), "");
  for (auto const* none : {"", "  \n", "null", " null "}) EXPECT_EQ(spi::decode_headers(none), headers{}) << none;
}

TEST(HeaderCodec, RefusesWhatIsNotAnObjectOfStrings) {
  for (auto const* bad : {"[]", "1", "{\"a\":1}", "{\"a\":\"b\"", "x"}) EXPECT_FALSE(spi::decode_headers(bad)) << bad;
}

TEST(HeaderCodec, ANullEntryIsLeftOut) {
  EXPECT_EQ(spi::decode_headers(R"({"a":null,"b":"c"})"), (headers{{"b", "c"}}));
  EXPECT_EQ(spi::decode_headers(R"({"a":null})"), headers{});
}

TEST(HeaderCodec, ReadsForeignObjects) {
  EXPECT_EQ(spi::decode_headers(" { \"a\" : \"\\u00e9\" , \"\": \"\" } "), (headers{{"a", "é"}, {"", ""}}));
}

}  // namespace
}  // namespace outbox::core
