// What is a valid context of a trace, by the rules of the W3C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <outbox/trace.hpp>
#include <set>
#include <thread>

namespace outbox {
namespace {

constexpr std::string_view w3c_parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

std::string w3c_with(std::size_t at, std::string_view text) {
  std::string p{w3c_parent};
  return p.replace(at, text.size(), text);
}

std::string w3c_state(std::string_view state) { return trace_context::parse(w3c_parent, state).value().tracestate(); }

TEST(TraceContext, IsReadAndWrittenUnchanged) {
  auto const c = trace_context::parse(w3c_parent, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->trace_id(), "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(c->span_id(), "b7ad6b7169203331");
  EXPECT_TRUE(c->sampled());
  EXPECT_EQ(c->traceparent(), w3c_parent);
  EXPECT_EQ(c->tracestate(), "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
  EXPECT_FALSE(trace_context::parse(w3c_with(53, "00"))->sampled());
}

TEST(TraceContext, ABrokenParentIsRefused) {
  std::vector<std::string> const broken = {
      "",
      "00",
      std::string{w3c_parent.substr(0, 54)},
      std::string{w3c_parent} + "0",
      std::string{w3c_parent} + "-01",  // version 00 has no more fields
      std::string{w3c_parent} + " ",
      " " + std::string{w3c_parent},
      w3c_with(0, "ff"),  // the version that is never used
      w3c_with(0, "FF"),
      w3c_with(0, "0g"),
      w3c_with(2, "_"),
      w3c_with(35, "_"),
      w3c_with(52, "_"),
      w3c_with(3, "00000000000000000000000000000000"),
      w3c_with(36, "0000000000000000"),
      w3c_with(3, "0AF7"),
      w3c_with(36, "B7"),
      w3c_with(3, "0af7651916cd43dd8448eb211c80319g"),
      w3c_with(53, "0A"),
      w3c_with(53, "0x"),
      w3c_with(10, std::string_view{"\0", 1}),
      w3c_with(10, "\n"),
      w3c_with(10, "\xc3\xa9"),
  };
  for (auto const& p : broken) EXPECT_FALSE(trace_context::parse(p)) << p;
}

TEST(TraceContext, OfALaterVersionTheFirstFieldsAreRead) {
  EXPECT_EQ(trace_context::parse(w3c_with(0, "cc")).value().traceparent(), w3c_parent) << "and written in our version";
  EXPECT_EQ(trace_context::parse(w3c_with(0, "01") + "-what-the-future-brings").value().traceparent(), w3c_parent);
  EXPECT_EQ(trace_context::parse(w3c_with(0, "01") + "-\r\nx: y").value().traceparent(), w3c_parent)
      << "nothing else is kept";
  EXPECT_FALSE(trace_context::parse(w3c_with(0, "01") + ".what"));
  EXPECT_FALSE(trace_context::parse(w3c_with(0, "01") + "0"));
}

TEST(TraceContext, UnknownFlagsAreNotPassedOn) {
  EXPECT_EQ(trace_context::parse(w3c_with(53, "ff")).value().traceparent(), w3c_with(53, "03"));
  EXPECT_EQ(trace_context::parse(w3c_with(53, "fc")).value().traceparent(), w3c_with(53, "00"));
}

TEST(TraceContext, AStateThatIsNotValidIsLeftOut) {
  for (auto const* state : {"foo", "foo=", "=1", "Foo=1", "foo=a=b", "foo=\x7f", "foo=a\tb", "foo=\xc3\xa9",
                            "foo @bar=1", "@bar=1", "foo@=1", "foo@Bar=1", "foo@bar@baz=1", "foo@1=1", "1foo=1",
                            "foo=1,bar", "f\r\no=1", "foo=1\r\nx: y", "foo@abcdefghijklmno=1"}) {
    EXPECT_EQ(w3c_state(state), "") << state;
  }
  EXPECT_EQ(w3c_state(std::string(257, 'a') + "=1"), "");
  EXPECT_EQ(w3c_state("a=" + std::string(257, 'v')), "");
  EXPECT_TRUE(trace_context::parse(w3c_parent, "foo")) << "the parent is good all the same";
}

TEST(TraceContext, AValidStateIsKept) {
  for (auto const* state :
       {"foo=1", "foo=1,bar=2", "a-_*/0@b-_*/0=x", "0tenant@vendor=1", "foo= a b", "foo=!~", "a=1,a=2"}) {
    EXPECT_EQ(w3c_state(state), state);
  }
  EXPECT_EQ(w3c_state(" foo=1 \t, bar=2,, "), "foo=1,bar=2") << "blanks and empty members mean nothing";
  auto const longest = std::string(256, 'k') + "=" + std::string(255, 'v');
  EXPECT_EQ(w3c_state(longest), longest) << "512 characters";
}

TEST(TraceContext, MoreThan32MembersAreTooMany) {
  std::string state;
  for (int i = 0; i < 32; ++i) state += (i == 0 ? "" : ",") + std::string{"k"} + std::to_string(i) + "=v";
  EXPECT_EQ(w3c_state(state), state);
  EXPECT_EQ(w3c_state(state + ",one=more"), "");
}

TEST(TraceContext, OfALongStateLongMembersGoFirstThenTheLast) {
  auto const member = [](char key, std::size_t size) { return std::string{key} + "=" + std::string(size - 2, 'v'); };
  auto const a = member('a', 100), b = member('b', 200), c = member('c', 100), d = member('d', 100),
             e = member('e', 100);
  EXPECT_EQ(w3c_state(a + "," + b + "," + c + "," + d), a + "," + b + "," + c + "," + d) << "503 characters";
  EXPECT_EQ(w3c_state(a + "," + b + "," + c + "," + d + "," + e), a + "," + c + "," + d + "," + e);
  EXPECT_EQ(w3c_state(a + "," + c + "," + d + "," + e + "," + member('f', 100) + "," + member('g', 100)),
            a + "," + c + "," + d + "," + e + "," + member('f', 100));
}

TEST(TraceContext, AChildHasTheSameTraceAndAnotherSpan) {
  auto const c = trace_context::parse(w3c_parent, "foo=1").value();
  auto const child = c.child();
  EXPECT_EQ(child.trace_id(), c.trace_id());
  EXPECT_NE(child.span_id(), c.span_id());
  EXPECT_TRUE(child.sampled());
  EXPECT_EQ(child.tracestate(), "foo=1");
  EXPECT_EQ(trace_context::parse(child.traceparent(), child.tracestate()), child) << "it is valid";
}

TEST(TraceContext, OneThatWasMovedFromIsValidStill) {
  auto first = trace_context::parse(w3c_parent, "foo=1").value();
  auto const second = std::move(first);
  EXPECT_EQ(second.tracestate(), "foo=1");
  EXPECT_EQ(first.traceparent(), w3c_parent);  // NOLINT(bugprone-use-after-move): this is what the test is about
  EXPECT_TRUE(first.sampled());
}

TEST(TraceContext, EachNewTraceIsAnother) {
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    auto const c = trace_context::start();
    EXPECT_EQ(trace_context::parse(c.traceparent()), c);
    ids.emplace(c.trace_id());
    ids.emplace(c.span_id());
  }
  EXPECT_EQ(ids.size(), 200U);
  EXPECT_FALSE(trace_context::start(false).sampled());
}

RC_GTEST_PROP(TraceContext, WhateverIsReadIsWrittenSoThatItIsReadAgain, ()) {
  auto const letters = rc::gen::element('a', 'b', '0', '=', '@', ',', ' ', '\t', '\n', '-', 'A', '\x7f');
  auto const state = *rc::gen::container<std::string>(letters);
  auto p = std::string{w3c_parent};
  p[*rc::gen::inRange<std::size_t>(0, p.size())] = *rc::gen::element('0', '1', 'f', '-', 'F', '\r');
  auto const c = trace_context::parse(p, state);
  RC_PRE(c.has_value());
  RC_ASSERT(trace_context::parse(c->traceparent(), c->tracestate()) == c);
  RC_ASSERT(c->tracestate().find_first_of("\t\n\x7f") == std::string::npos);
}

TEST(TraceScope, NestsAndBelongsToItsThread) {
  EXPECT_FALSE(current_trace());
  auto const outer = trace_context::start();
  {
    trace_scope const first{outer};
    EXPECT_EQ(current_trace(), outer);
    {
      trace_scope const second{outer.child()};
      EXPECT_NE(current_trace(), outer);
      trace_scope const third{std::nullopt};
      EXPECT_FALSE(current_trace());
    }
    EXPECT_EQ(current_trace(), outer);
    std::thread{[] { EXPECT_FALSE(current_trace()); }}.join();
  }
  EXPECT_FALSE(current_trace());
}

}  // namespace
}  // namespace outbox
