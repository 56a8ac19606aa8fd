// Rules that hold for every input, tried on many.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <nlohmann/json.hpp>

#include <outbox/error.hpp>
#include <outbox/event.hpp>
#include <outbox/retry.hpp>

#include <outbox/spi/codecs.hpp>
#include "core/base/json_text.hpp"
#include "core/base/text.hpp"
#include "core/base/ulid.hpp"

namespace outbox {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

core::ulid any_ulid() {
  return {*rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 48U), *rc::gen::arbitrary<std::uint16_t>(),
          *rc::gen::arbitrary<std::uint64_t>()};
}

RC_GTEST_PROP(Ulid, TextSortsLikeTheValue, ()) {
  auto const a = any_ulid();
  auto const b = any_ulid();
  RC_ASSERT((a < b) == (to_string(a) < to_string(b)));
}

RC_GTEST_PROP(Ulid, TextIs26LettersOfTheAlphabet, ()) {
  auto const text = to_string(any_ulid());
  RC_ASSERT(text.size() == 26U);
  RC_ASSERT(text.find_first_not_of(alphabet) == std::string::npos);
}

RC_GTEST_PROP(Ulid, TheTimeCanBeReadBack, ()) {
  auto const u = any_ulid();
  auto const text = to_string(u);
  std::uint64_t ms = 0;
  for (char const c : text.substr(0, 10)) ms = ms * 32 + alphabet.find(c);
  RC_ASSERT(ms == u.milliseconds);
}

RC_GTEST_PROP(Ulid, TheNextIsGreaterWhateverTheClockDoes, (std::uint16_t high, std::uint64_t low)) {
  auto const last = any_ulid();
  RC_PRE(last.milliseconds < (std::uint64_t{1} << 48U) - 2);
  auto const ms = *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 48U);
  RC_ASSERT(last < core::next_ulid(last, ms, high, low));
}

TEST(Ulid, CarriesOverAtTheEndOfItsBits) {
  core::ulid const full{5, 0xFFFF, UINT64_MAX};
  EXPECT_EQ(core::next_ulid(full, 5, 1, 1), (core::ulid{6, 0, 0}));
  core::ulid const low{5, 3, UINT64_MAX};
  EXPECT_EQ(core::next_ulid(low, 5, 1, 1), (core::ulid{5, 4, 0}));
}

RC_GTEST_PROP(Backoff, StaysWithinHalfAndOneAndAHalfOfTheWait, ()) {
  auto const base = *rc::gen::inRange<std::int64_t>(1, 100'000);
  auto const cap = *rc::gen::inRange<std::int64_t>(base, 10'000'000);
  auto const failures = *rc::gen::inRange<std::int32_t>(1, 2'000'000'000);
  auto const jitter = *rc::gen::map(rc::gen::inRange(0, 1'000'000), [](int n) { return n / 1e6; });
  auto const d = backoff{milliseconds{base}, milliseconds{cap}}.delay(failures, jitter).count();
  RC_ASSERT(d >= base / 2);
  RC_ASSERT(d <= cap + cap / 2);
}

RC_GTEST_PROP(Backoff, NeverShrinksWithMoreFailures, ()) {
  auto const failures = *rc::gen::inRange<std::int32_t>(1, 1000);
  backoff const b;
  RC_ASSERT(b.delay(failures, 0.5) <= b.delay(failures + 1, 0.5));
}

TEST(Backoff, WithoutJitterTheWaitsAreExact) {
  using namespace std::chrono_literals;
  retry_policy const p{.max_attempts = 5, .backoff = {.base = 100ms, .cap = 1600ms}, .jitter = false};
  for (double const random : {0.0, 0.3, 0.999}) {
    EXPECT_EQ(p.wait(1, random), 100ms);
    EXPECT_EQ(p.wait(2, random), 200ms);
    EXPECT_EQ(p.wait(3, random), 400ms);
    EXPECT_EQ(p.wait(4, random), 800ms);
  }
  EXPECT_EQ((retry_policy{.backoff = {.base = 100ms}}.wait(1, 0.0)), 50ms) << "with jitter, as by default";
}

TEST(Backoff, FollowsTheFormulaOfTheSpecification) {
  backoff const b{milliseconds{100}, milliseconds{1000}};
  EXPECT_EQ(b.delay(1, 0.5), milliseconds{100});
  EXPECT_EQ(b.delay(2, 0.5), milliseconds{200});
  EXPECT_EQ(b.delay(4, 0.5), milliseconds{800});
  EXPECT_EQ(b.delay(5, 0.5), milliseconds{1000});
  EXPECT_EQ(b.delay(5, 0.0), milliseconds{500}) << "jitter comes after the cap";
}

// Text of one to four bytes a character, without NUL.
rc::Gen<std::string> any_text() {
  return rc::gen::map(rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 0x10FFFF)),
                      [](auto const& points) {
                        std::string s;
                        for (auto p : points) {
                          if (p >= 0xD800 && p <= 0xDFFF) p = 0x41;
                          if (p < 0x80) {
                            s += static_cast<char>(p);
                          } else if (p < 0x800) {
                            s += static_cast<char>(0xC0U | (p >> 6U));
                            s += static_cast<char>(0x80U | (p & 63U));
                          } else if (p < 0x10000) {
                            s += static_cast<char>(0xE0U | (p >> 12U));
                            s += static_cast<char>(0x80U | ((p >> 6U) & 63U));
                            s += static_cast<char>(0x80U | (p & 63U));
                          } else {
                            s += static_cast<char>(0xF0U | (p >> 18U));
                            s += static_cast<char>(0x80U | ((p >> 12U) & 63U));
                            s += static_cast<char>(0x80U | ((p >> 6U) & 63U));
                            s += static_cast<char>(0x80U | (p & 63U));
                          }
                        }
                        return s;
                      });
}

RC_GTEST_PROP(HeaderCodec, WhatIsEncodedComesBack, ()) {
  headers h;
  for (auto const& [k, v] :
       *rc::gen::container<std::vector<std::pair<std::string, std::string>>>(rc::gen::pair(any_text(), any_text())))
    h[k] = v;
  RC_ASSERT(spi::decode_headers(spi::encode_headers(h)) == h);
}

RC_GTEST_PROP(HeaderCodec, AnyBytesAreReadOrRefusedNeverWorse, (std::string const& bytes)) {
  static_cast<void>(spi::decode_headers(bytes));
}

RC_GTEST_PROP(Scrub, TheResultIsAlwaysStorable, (std::string const& bytes)) {
  auto const limit = *rc::gen::inRange<std::size_t>(0, 50);
  auto const clean = core::scrub(bytes, limit);
  auto const length = core::utf8_length(clean);
  RC_ASSERT(length.has_value());
  RC_ASSERT(*length <= limit);
  RC_ASSERT(clean.find('\0') == std::string::npos);
}

RC_GTEST_PROP(Scrub, GoodTextIsLeftAlone, ()) {
  auto const text = *any_text();
  RC_ASSERT(core::scrub(text, 100'000) == text);
}

// Either an event is made and every rule holds for it, or it is refused with the name of a field.
RC_GTEST_PROP(EventValidation, AcceptsOrNamesAField,
              (std::string const& type, std::string const& id, std::string const& tenant, std::string const& payload)) {
  try {
    auto const e = event::json(type, payload, {.id = id, .tenant = tenant});
    RC_ASSERT(!e.type().empty());
    RC_ASSERT(core::utf8_length(e.type()).value() <= 128U);
    RC_ASSERT(core::utf8_length(e.id()).value() <= 36U);
    RC_ASSERT(core::utf8_length(e.tenant()).value() <= 64U);
    RC_ASSERT(e.payload() == payload);
  } catch (error const& e) {
    RC_ASSERT(e.code() == errc::invalid_event);
    RC_ASSERT(!e.field().empty());
  }
}

// Text that is nearly JSON, of pieces that make up JSON; the judge is another parser.
RC_GTEST_PROP(Json, IsValidWhenAnotherParserSaysSo, ()) {
  static constexpr std::string_view pieces[] = {"{",        "}",
                                                "[",        "]",
                                                ",",        ":",
                                                "\"",       "\"a\"",
                                                " ",        "\n",
                                                "1",        "-",
                                                "0",        "01",
                                                "1.5",      ".",
                                                "1e3",      "E",
                                                "+",        "true",
                                                "fals",     "null",
                                                "nul",      "\\",
                                                "\\u0041",  "\\uD83D\\uDE00",
                                                "\\uD800",  "\\uDC00",
                                                "\\n",      "\\x",
                                                "\xC3\xA9", "\xC3",
                                                "\xFF",     "\t",
                                                "\x01"};
  auto const chosen =
      *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, std::size(pieces)));
  std::string text;
  for (auto const i : chosen) text += pieces[i];
  RC_ASSERT(core::is_json(text) == nlohmann::json::accept(text));
}

// What is JSON stays so until one byte is another.
RC_GTEST_PROP(Json, AgreesOnValidTextWithOneByteChanged, (std::vector<std::string> const& words)) {
  nlohmann::json value = nlohmann::json::array();
  for (auto const& w : words) value.push_back({{"k", w.size()}, {"w", nlohmann::json::array({true, nullptr, 1.5e10})}});
  auto text = value.dump();
  RC_ASSERT(core::json_depth(text) == (words.empty() ? 1U : 3U));
  auto const at = *rc::gen::inRange<std::size_t>(0, text.size());
  text[at] = static_cast<char>(*rc::gen::inRange(1, 256));
  RC_ASSERT(core::is_json(text) == nlohmann::json::accept(text));
}

}  // namespace
}  // namespace outbox
