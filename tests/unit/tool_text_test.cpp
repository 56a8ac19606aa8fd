// What the tool's verbs share: text on a terminal, times, tables, words that are like others.
#include <gmock/gmock.h>

#include <clocale>

#include "cli/error_kind.hpp"
#include "cli/filter_options.hpp"
#include "cli/nearest.hpp"
#include "cli/report.hpp"
#include "cli/rows.hpp"
#include "cli/shown_text.hpp"
#include "cli/time_text.hpp"
#include "cli/tool_error.hpp"

namespace outbox_tool {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

struct ToolText : ::testing::Test {
  ToolText() { std::setlocale(LC_CTYPE, "C.UTF-8"); }
};

TEST_F(ToolText, NothingThatIsShownMovesTheCursorOrTurnsTheLineAround) {
  EXPECT_EQ(shown("plain ünïcode – 漢字"), "plain ünïcode – 漢字");
  EXPECT_EQ(shown("a\033[31mb"), "a\\u{1b}[31mb");
  EXPECT_EQ(shown("a\u202Eb\u2066c\u061Cd"), "a\\u{202e}b\\u{2066}c\\u{61c}d");
  EXPECT_EQ(shown("a\u200Bb\uFEFFc\u2028d"), "a\\u{200b}b\\u{feff}c\\u{2028}d");
  EXPECT_EQ(shown("a\nb\tc\rd\\"), "a\\nb\\tc\\rd\\\\");
  EXPECT_EQ(shown("a\nb", true), "a\nb");
  EXPECT_EQ(shown(std::string_view{"a\0b", 3}), "a\\u{0}b");
  EXPECT_EQ(shown("\u0085\u009B"), "\\u{85}\\u{9b}") << "control characters of eight bits";
}

TEST_F(ToolText, BytesThatAreNotUtf8AreShownAsNumbers) {
  EXPECT_EQ(shown("a\xff\xfe"), "a\\xff\\xfe");
  EXPECT_EQ(shown("\xc0\x80"), "\\xc0\\x80") << "overlong";
  EXPECT_EQ(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair";
  EXPECT_EQ(shown("\xe2\x82"), "\\xe2\\x82") << "cut off";
  EXPECT_EQ(shown("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80") << "beyond the last character";
}

TEST_F(ToolText, WidthsAreThoseOfATerminal) {
  EXPECT_EQ(width_of("abc"), 3U);
  EXPECT_EQ(width_of("漢字"), 4U);
  EXPECT_EQ(width_of("e\u0301"), 1U);
  EXPECT_EQ(cut("abcdef", 6), "abcdef");
  EXPECT_EQ(cut("abcdef", 4), "abc…");
  EXPECT_EQ(cut("漢字漢", 4), "漢…");
  EXPECT_EQ(cut("abc", 0), "");
}

TEST_F(ToolText, KeysAreShownAsTheyWereWritten) {
  EXPECT_EQ(key_text("=k"), "k");
  EXPECT_EQ(key_text("==k"), "=k");
  EXPECT_EQ(key_text("5:order42"), "order/42");
  EXPECT_EQ(key_text("1:ä1"), "ä/1") << "characters, not bytes";
  EXPECT_EQ(key_text("5:a:b:c:d"), "a:b:c/:d");
  EXPECT_EQ(key_text("10:__GLOBAL__42"), "/42");
  EXPECT_EQ(key_text("9:short"), "short/") << "not a key of this library";
  EXPECT_EQ(key_text(""), "");
  EXPECT_EQ(key_text("7"), "7");
}

TEST_F(ToolText, DurationsHaveTwoUnitsAtMost) {
  EXPECT_EQ(duration_text(0s), "0 s");
  EXPECT_EQ(duration_text(340ms), "0.3 s");
  EXPECT_EQ(duration_text(59s), "59 s");
  EXPECT_EQ(duration_text(19min + 4s), "19 min 04 s");
  EXPECT_EQ(duration_text(2h), "2 h");
  EXPECT_EQ(duration_text(2h + 59s), "2 h");
  EXPECT_EQ(duration_text(25h), "1 d 01 h");
  EXPECT_EQ(duration_text(-1s), "0 s");
}

TEST_F(ToolText, DurationsAreReadWithTheirUnit) {
  EXPECT_EQ(parse_duration("500ms"), 500ms);
  EXPECT_EQ(parse_duration("2min"), 2min);
  EXPECT_EQ(parse_duration("7d"), 168h);
  for (auto const* const wrong : {"", "5", "s", "-1s", "1 s", "1m", "1.5h", "99999999999d", "1e3s"}) {
    EXPECT_FALSE(parse_duration(wrong)) << wrong;
  }
}

TEST_F(ToolText, InstantsAreUtc) {
  auto const at =
      outbox::instant{std::chrono::sys_days{std::chrono::year{2030} / 1 / 31}} + 23h + 59min + 59s + 123456us;
  EXPECT_EQ(rfc3339(at), "2030-01-31T23:59:59.123456Z");
  EXPECT_EQ(clock_text(at), "2030-01-31 23:59:59Z");
  EXPECT_EQ(age_text(at, at + 90s), "1 min 30 s ago");
  EXPECT_EQ(age_text(at, at - 5s), "in 5 s");
}

TEST_F(ToolText, NumbersHaveCommas) {
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(999), "999");
  EXPECT_EQ(number_text(1000), "1,000");
  EXPECT_EQ(number_text(12'345'678), "12,345,678");
}

TEST_F(ToolText, AWordThatIsLikeAnotherIsSuggested) {
  std::vector<std::string> const verbs{"status", "list", "replay"};
  EXPECT_EQ(nearest("stauts", verbs), "status");
  EXPECT_EQ(nearest("reply", verbs), "replay");
  EXPECT_EQ(nearest("frobnicate", verbs), std::nullopt);
}

TEST_F(ToolText, ErrorsThatDifferInIdsAreOfOneKind) {
  EXPECT_EQ(kind_of_error("event 01JAB3J6ZK0000000000000010 refused"), "event … refused");
  EXPECT_EQ(kind_of_error("order 3f0e8a52-6f0a-7c1d-9e55-0123456789ab"), "order …");
  EXPECT_EQ(kind_of_error("took 123456 us"), "took … us");
  EXPECT_EQ(kind_of_error("HTTP 503 from carrier-2:8080"), "HTTP 503 from carrier-2:8080");
  EXPECT_EQ(kind_of_error("configuration_of_the_carrier is missing"), "configuration_of_the_carrier is missing");
}

TEST_F(ToolText, AFilterSaysWhatIsWrongWithIt) {
  filter_options f{.states = {"dead", "pending"}, .type = "t", .aggregate = "order/4/2", .older_than = "2h"};
  auto const made = f.filter();
  EXPECT_THAT(made.statuses, ::testing::ElementsAre(outbox::event_status::dead, outbox::event_status::created,
                                                    outbox::event_status::retry));
  EXPECT_EQ(made.aggregate_type, "order");
  EXPECT_EQ(made.aggregate_id, "4/2") << "only the first slash divides";
  EXPECT_EQ(made.older_than, 2h);
  EXPECT_EQ(f.words(), "state=dead,pending type=t aggregate=order/4/2 older_than=2h");
  EXPECT_EQ(filter_options{}.words(), "everything");
  EXPECT_THROW(static_cast<void>(filter_options{.states = {"ded"}}.filter()), tool_error);
  EXPECT_THROW(static_cast<void>(filter_options{.older_than = "soon"}.filter()), tool_error);
}

TEST_F(ToolText, ACountThatReachedItsLimitSaysAtLeast) {
  EXPECT_EQ(count_cell(99'999, 100'000).text, "99,999");
  EXPECT_EQ(count_cell(100'000, 100'000).text, "≥ 100,000");
  EXPECT_TRUE(text_cell("").value.is_null());
}

}  // namespace
}  // namespace outbox_tool
