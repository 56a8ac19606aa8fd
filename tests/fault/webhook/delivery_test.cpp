// What arrives at a receiver, how many requests at a time, and on how many connections.
#include <fstream>
#include <sstream>
#include <thread>

#include "fault/webhook/fixture.hpp"

namespace outbox {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using namespace std::chrono_literals;

// The signature as the openssl program makes it, of the key in hexadecimal digits.
std::string by_openssl(std::string const& key, std::string const& content) {
  temporary_directory dir;
  std::ofstream{dir / "content", std::ios::binary} << content;
  auto text = output_of("openssl dgst -sha256 -mac HMAC -macopt hexkey:" + key + " -binary " + (dir / "content") +
                        " | openssl base64 -A");
  return "v1," + text;
}
constexpr auto first_key = "3031323334353637383961626364656630313233343536373839616263646566";
constexpr auto second_key = "6665646362613938373635343332313066656463626139383736353433323130";

std::string signed_content(webhook_server::request const& r) {
  return r.headers.at("webhook-id") + "." + r.headers.at("webhook-timestamp") + "." + r.body;
}

TEST_F(Webhook, ARequestCarriesTheEvent) {
  auto o = options(server.url("/ok?token=t"));
  o.headers = {{"Authorization", "Bearer b"}};
  auto const to = webhook::open(o);
  auto const e = event::json("order.placed", R"({"cents": 1999})",
                             {.id = "e1",
                              .aggregate = {"order", "42"},
                              .tenant = "acme",
                              .headers = {{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
                                          {"tracestate", "a=1,b=2"},
                                          {"Host", "evil"},
                                          {"webhook-id", "forged"},
                                          {"AUTHORIZATION", "forged"},
                                          {"content-length", "3"},
                                          {"Empty", ""}}});
  to->publish(envelope{{.headers = {{"shop", "{aggregate_id}"}}}}.make(e), report_of("e1"), steady_time::max());
  ASSERT_EQ(report("e1").what, published::how::stored) << report("e1").reason;
  auto const r = server.at(0);
  EXPECT_EQ(r.method, "POST");
  EXPECT_EQ(r.target, "/ok?token=t");
  EXPECT_EQ(r.body, R"({"cents": 1999})");
  EXPECT_THAT(r.headers, Contains(Pair("webhook-id", "e1")));
  EXPECT_THAT(r.headers, Contains(Pair("content-type", "application/json")));
  EXPECT_THAT(r.headers, Contains(Pair("event-type", "order.placed")));
  EXPECT_THAT(r.headers, Contains(Pair("aggregate-type", "order")));
  EXPECT_THAT(r.headers, Contains(Pair("aggregate-id", "42")));
  EXPECT_THAT(r.headers, Contains(Pair("tenant", "acme")));
  EXPECT_THAT(r.headers, Contains(Pair("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")));
  EXPECT_THAT(r.headers, Contains(Pair("tracestate", "a=1,b=2")));
  EXPECT_THAT(r.headers, Contains(Pair("shop", "42")));
  EXPECT_THAT(r.headers, Contains(Pair("Authorization", "Bearer b")));
  EXPECT_THAT(r.headers, Contains(Pair("Empty", "")));
  EXPECT_THAT(r.headers, Contains(Pair("Host", "127.0.0.1:" + server.port())));
  EXPECT_FALSE(r.headers.contains("AUTHORIZATION"));
  EXPECT_FALSE(r.headers.contains("Expect"));
  EXPECT_FALSE(r.headers.contains("event_id")) << "webhook-id says it";
}

// Another program wrote the row, so nothing has checked its headers.
TEST_F(Webhook, AContextOfATraceInjectsNothing) {
  auto const to = webhook::open(options(server.url("/ok")));
  event_record r;
  r.id = "e1";
  r.type = "t";
  r.payload = "1";
  r.headers = {{"traceparent", "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-\r\nevil: 1"},
               {"tracestate", "a=1\r\nevil: 1"}};
  to->publish(envelope{{.cloud_events = "/shop"}}.make(event::restore(r)), report_of("e1"), steady_time::max());
  ASSERT_EQ(report("e1").what, published::how::stored) << report("e1").reason;
  auto const got = server.at(0);
  EXPECT_THAT(got.headers, Contains(Pair("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")));
  EXPECT_FALSE(got.headers.contains("tracestate"));
  EXPECT_FALSE(got.headers.contains("evil"));
}

TEST_F(Webhook, TheSignatureIsThatOfOpenssl) {
  auto const to = webhook::open(options(server.url("/ok")));
  auto const before = std::chrono::system_clock::now() - 1s;
  std::string const bytes{"\0\r\n\xff.body", 9};
  to->publish(envelope{}.make(event::bytes("t", bytes, "application/octet-stream", {.id = "b1"})), report_of("b1"),
              steady_time::max());
  ASSERT_EQ(report("b1").what, published::how::stored) << report("b1").reason;
  auto const r = server.at(0);
  EXPECT_EQ(r.body, bytes) << "byte for byte";
  EXPECT_EQ(r.headers.at("webhook-signature"), by_openssl(first_key, signed_content(r)));
  std::chrono::sys_seconds const stamp{std::chrono::seconds{std::stoll(r.headers.at("webhook-timestamp"))}};
  EXPECT_GE(stamp, before);
  EXPECT_LE(stamp, std::chrono::system_clock::now());
}

TEST_F(Webhook, WhileASecretIsReplacedBothSign) {
  auto o = options(server.url("/ok"));
  o.secrets = {first_secret, second_secret};
  ASSERT_EQ(with(o).what, published::how::stored);
  auto const r = server.at(0);
  EXPECT_EQ(r.headers.at("webhook-signature"),
            by_openssl(first_key, signed_content(r)) + " " + by_openssl(second_key, signed_content(r)));
}

TEST_F(Webhook, CloudEventsHaveHyphens) {
  auto const to = webhook::open(options(server.url("/ok")));
  auto const e = event::json("order.placed", "1", {.id = "c1", .aggregate = {"order", "Zo\xc3\xab 100%"}});
  to->publish(envelope{{.cloud_events = "/shop"}}.make(e), report_of("c1"), steady_time::max());
  ASSERT_EQ(report("c1").what, published::how::stored);
  auto const r = server.at(0);
  EXPECT_THAT(r.headers, Contains(Pair("ce-id", "c1")));
  EXPECT_THAT(r.headers, Contains(Pair("ce-specversion", "1.0")));
  EXPECT_THAT(r.headers, Contains(Pair("ce-source", "/shop")));
  EXPECT_THAT(r.headers, Contains(Pair("ce-subject", "Zo%C3%AB%20100%25")));
  EXPECT_THAT(r.headers, Contains(Pair("content-type", "application/json")));
  EXPECT_FALSE(r.headers.contains("ce_id"));
}

TEST_F(Webhook, ConnectionsAreReused) {
  auto const to = webhook::open(options(server.url("/ok")));
  for (int i = 0; i < 20; ++i) {
    send(*to, "e" + std::to_string(i));
    ASSERT_EQ(report("e" + std::to_string(i)).what, published::how::stored);
  }
  EXPECT_EQ(server.requests(), 20);
  EXPECT_EQ(server.connections(), 1);
}

TEST_F(Webhook, AsManyRequestsAsAllowedAreUnderWayAndNoMore) {
  auto o = options(server.url("/held"));
  o.max_in_flight = 5;
  auto const to = webhook::open(o);
  std::jthread const sender{[&] {
    for (int i = 0; i < 40; ++i) send(*to, "e" + std::to_string(i));
  }};
  ASSERT_TRUE(eventually([&] { return server.held() == 5; })) << "many at a time, by one thread";
  ASSERT_TRUE(eventually([&] { return to->health().in_flight >= 10; })) << "as many wait, and the caller too";
  server.release();
  ASSERT_TRUE(reach(40));
  EXPECT_EQ(count(published::how::stored), 40);
  EXPECT_EQ(server.most(), 5);
  EXPECT_LE(server.connections(), 5);
}

TEST_F(Webhook, ACallerGivesUpWhenTheQueueStaysFull) {
  auto o = options(server.url("/held"));
  o.max_in_flight = 1;
  auto const to = webhook::open(o);
  send(*to, "sent");
  ASSERT_TRUE(eventually([&] { return server.held() == 1; }));
  send(*to, "waits");
  to->publish(envelope{}.make(event::json("t", "1", {.id = "late"})), report_of("late"),
              std::chrono::steady_clock::now());
  EXPECT_EQ(report("late").what, published::how::unavailable);
  server.release();
  EXPECT_EQ(report("waits").what, published::how::stored);
  EXPECT_TRUE(to->flush(std::chrono::steady_clock::now() + 60s));
  EXPECT_EQ(to->health().stored, 2U);
  EXPECT_EQ(to->health().in_flight, 0U);
}

TEST_F(Webhook, SeveralThreadsPublish) {
  auto const to = webhook::open(options(server.url("/ok")));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 50; ++i) send(*to, "t" + std::to_string(t) + "-" + std::to_string(i));
      });
    }
  }
  ASSERT_TRUE(reach(200));
  EXPECT_EQ(count(published::how::stored), 200);
  EXPECT_EQ(server.requests(), 200);
}

TEST_F(Webhook, TwoSinksDoNotDisturbEachOther) {
  auto const good = webhook::open(options(server.url("/ok")));
  auto const bad = webhook::open(options(server.url("/status/401")));
  for (int i = 0; i < 10; ++i) {
    send(*good, "good" + std::to_string(i));
    send(*bad, "bad" + std::to_string(i));
  }
  ASSERT_TRUE(reach(20));
  EXPECT_EQ(count(published::how::stored), 10);
  EXPECT_EQ(count(published::how::unavailable), 10);
  EXPECT_TRUE(good->health().healthy);
  EXPECT_EQ(bad->health().reason, "HTTP 401");
}

TEST_F(Webhook, WhatCannotBeSentIsRejectedByName) {
  auto const to = webhook::open(options(server.url("/ok")));
  message m = envelope{}.make(event::json("t", "1", {.id = "x"}));
  auto const publish = [&](std::string const& id, std::pair<std::string, std::string> header) {
    auto one = m;
    one.headers.push_back(std::move(header));
    to->publish(std::move(one), report_of(id), steady_time::max());
    return report(id);
  };
  auto const forged = publish("value", {"good-name", "a\r\nwebhook-id: forged"});
  EXPECT_EQ(forged.what, published::how::rejected);
  EXPECT_THAT(forged.reason, HasSubstr("'good-name'"));
  EXPECT_THAT(forged.reason, Not(HasSubstr("forged")));
  auto const name = publish("name", {"bad name", "x"});
  EXPECT_EQ(name.what, published::how::rejected);
  EXPECT_THAT(name.reason, HasSubstr("'bad name'"));
  send(*to, "an.id");
  EXPECT_EQ(report("an.id").what, published::how::rejected) << "what is signed has full stops between its parts";
  EXPECT_EQ(server.requests(), 0);
}

}  // namespace
}  // namespace outbox
