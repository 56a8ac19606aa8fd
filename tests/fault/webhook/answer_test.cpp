// What the answers of a receiver mean, and what half an answer means.
#include "fault/webhook/fixture.hpp"

namespace outbox {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using how = published::how;
using namespace std::chrono_literals;

TEST_F(Webhook, TheStatusDecides) {
  std::map<how, std::vector<int>> const all = {{how::stored, {200, 201, 202, 204, 299}},
                                               {how::rejected, {400, 409, 410, 413, 415, 422}},
                                               {how::unavailable, {401, 403, 404, 407}},
                                               {how::unsure, {502, 504}},
                                               {how::failed, {301, 307, 308, 402, 408, 418, 429, 500, 501, 503, 599}}};
  for (auto const& [what, statuses] : all) {
    for (int const status : statuses) {
      auto const p = at("/status/" + std::to_string(status));
      EXPECT_EQ(p.what, what) << status << ": " << p.reason;
      if (what != how::stored) {
        EXPECT_THAT(p.reason, HasSubstr("HTTP " + std::to_string(status)));
      }
    }
  }
}

TEST_F(Webhook, ARedirectIsNotFollowed) {
  auto const p = at("/redirect");
  EXPECT_EQ(p.what, how::failed);
  EXPECT_THAT(p.reason, HasSubstr("redirects are not followed"));
  EXPECT_EQ(server.requests(), 1);
}

TEST_F(Webhook, RetryAfterDefers) {
  for (std::string const status : {"429", "503"}) {
    auto const p = at("/status/" + status + "?120");
    EXPECT_EQ(p.what, how::deferred) << status;
    EXPECT_EQ(p.after, 120s);
  }
  auto const date = at("/status/503?Thu,+31+Dec+2099+23:59:59+GMT");
  EXPECT_EQ(date.what, how::deferred);
  EXPECT_EQ(date.after, 24h) << "at most";
  EXPECT_EQ(at("/status/429?soon").what, how::failed) << "which is neither a number nor a date";
  EXPECT_EQ(at("/status/500?120").what, how::failed) << "the receiver failed and did not ask for time";
}

TEST_F(Webhook, AReceiverThatAsksForTimeGetsNoOtherRequest) {
  auto const to = webhook::open(options(server.url("/status/429?3600")));
  send(*to, "first");
  ASSERT_EQ(report("first").what, how::deferred);
  send(*to, "second");
  auto const p = report("second");
  EXPECT_EQ(p.what, how::deferred);
  EXPECT_GT(p.after, 30min);
  EXPECT_LE(p.after, 1h);
  EXPECT_EQ(server.requests(), 1);
}

TEST_F(Webhook, WhatWaitsBehindAClosedDoorIsNotSent) {
  auto o = options(server.url("/held/403"));
  o.max_in_flight = 1;
  auto const to = webhook::open(o);
  send(*to, "first");
  ASSERT_TRUE(eventually([&] { return server.held() == 1; }));
  send(*to, "waits");
  server.release();
  EXPECT_EQ(report("first").what, how::unavailable);
  EXPECT_EQ(report("waits").what, how::unavailable);
  EXPECT_EQ(report("waits").reason, "HTTP 403");
  EXPECT_EQ(server.requests(), 1);
}

TEST_F(Webhook, AnAnswerBeforeTheAnswerIsNone) { EXPECT_EQ(at("/interim").what, how::stored); }

TEST_F(Webhook, AConnectionThatEndsBeforeTheAnswerIsUnsure) {
  auto const closed = at("/close");
  EXPECT_EQ(closed.what, how::unsure);
  EXPECT_THAT(closed.reason, HasSubstr("it may have been received"));
  EXPECT_EQ(at("/half-header").what, how::unsure) << "the status is not all of the answer";
}

TEST_F(Webhook, TheHeaderIsTheReceipt) {
  EXPECT_EQ(at("/half-body").what, how::stored) << "the body does not matter";
  EXPECT_EQ(at("/endless").what, how::stored) << "and is not read to its end";
}

TEST_F(Webhook, AReceiverThatHangsIsUnsureAfterTheTimeout) {
  auto o = options(server.url("/hang"));
  o.timeout = 500ms;
  auto const to = webhook::open(o);
  send(*to, "hung");
  auto const p = report("hung");
  EXPECT_EQ(p.what, how::unsure);
  EXPECT_EQ(server.requests(), 1);
  ASSERT_TRUE(to->flush(std::chrono::steady_clock::now() + 60s));
  EXPECT_EQ(to->health().unsure, 1U);
  EXPECT_FALSE(to->health().healthy);
}

TEST_F(Webhook, TheEndGivesUpWhatHasNoReport) {
  {
    auto o = options(server.url("/hang"));
    o.max_in_flight = 3;
    auto const to = webhook::open(o);
    for (int i = 0; i < 6; ++i) send(*to, "e" + std::to_string(i));
    ASSERT_TRUE(eventually([&] { return server.requests() == 3; }));
    EXPECT_FALSE(to->flush(std::chrono::steady_clock::now()));
  }
  ASSERT_TRUE(reach(6));
  EXPECT_EQ(count(how::unsure), 3) << "they were sent";
  EXPECT_EQ(count(how::unavailable), 3) << "they were not";
}

}  // namespace
}  // namespace outbox
