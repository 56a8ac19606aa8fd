// The rules of webhooks that need no network: addresses, signatures, waits, options.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <outbox/error.hpp>
#include <outbox/sinks/webhook.hpp>

#include "sinks/webhook/address_rules.hpp"
#include "sinks/webhook/answer.hpp"
#include "sinks/webhook/signature.hpp"

namespace outbox {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

std::string kind_of(std::string const& text) {
  ::sockaddr_storage all{};
  auto& v4 = reinterpret_cast<::sockaddr_in&>(all);
  auto& v6 = reinterpret_cast<::sockaddr_in6&>(all);
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
  } else {
    return "(not an address)";
  }
  auto const& address = reinterpret_cast<::sockaddr const&>(all);
  EXPECT_EQ(webhook::address_text(address), text);
  return std::string{webhook::not_public(address)};
}

TEST(WebhookAddress, WhatIsNotPublicIsKnown) {
  for (std::string const a : {"0.0.0.0",
                              "0.255.255.255",
                              "10.0.0.0",
                              "10.255.255.255",
                              "100.64.0.0",
                              "100.127.255.255",
                              "127.0.0.1",
                              "127.255.255.255",
                              "169.254.169.254",
                              "172.16.0.0",
                              "172.31.255.255",
                              "192.0.0.1",
                              "192.0.2.1",
                              "192.88.99.1",
                              "192.168.0.0",
                              "192.168.255.255",
                              "198.18.0.0",
                              "198.19.255.255",
                              "198.51.100.1",
                              "203.0.113.255",
                              "224.0.0.1",
                              "239.255.255.255",
                              "240.0.0.1",
                              "255.255.255.255",
                              "::",
                              "::1",
                              "fc00::1",
                              "fdff::1",
                              "fe80::1",
                              "febf::1",
                              "fec0::1",
                              "ff02::1",
                              "2001::1",
                              "2001:db8::1",
                              "3fff::1",
                              "100::1",
                              "::ffff:127.0.0.1",
                              "::ffff:8.8.8.8",
                              "2002:808:808::1",
                              "64:ff9b::7f00:1",
                              "64:ff9b::a00:1",
                              "64:ff9b:1::1",
                              "4000::1",
                              "::127.0.0.1"}) {
    EXPECT_NE(kind_of(a), "") << a;
  }
}

TEST(WebhookAddress, NeighboursOfTheRangesArePublic) {
  for (std::string const a :
       {"1.0.0.0",      "9.255.255.255", "11.0.0.0",        "100.63.255.255", "100.128.0.0",     "126.255.255.255",
        "128.0.0.0",    "169.253.0.1",   "169.255.0.1",     "172.15.255.255", "172.32.0.0",      "192.0.1.1",
        "192.0.3.1",    "192.167.0.1",   "192.169.0.1",     "198.17.255.255", "198.20.0.0",      "198.51.101.1",
        "203.0.112.1",  "203.0.114.1",   "223.255.255.255", "8.8.8.8",        "2001:200::1",     "2001:db9::1",
        "2606:4700::1", "2a00:1450::1",  "2003::1",         "3ffe::1",        "64:ff9b::808:808"}) {
    EXPECT_EQ(kind_of(a), "") << a;
  }
}

TEST(WebhookAddress, AnotherFamilyIsNotPublic) {
  ::sockaddr a{};
  a.sa_family = AF_UNIX;
  EXPECT_NE(webhook::not_public(a), "");
}

// Made by: printf 'msg_1.1614265330.{"test": 2432232314}' | openssl dgst -sha256 -mac HMAC -macopt hexkey:… -binary
TEST(WebhookSignature, IsTheHmacOfIdTimestampAndBody) {
  auto const key = webhook::key_of_secret("whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=");
  ASSERT_TRUE(key);
  EXPECT_EQ(*key, "0123456789abcdef0123456789abcdef");
  EXPECT_EQ(webhook::signature({*key}, "msg_1", 1614265330, R"({"test": 2432232314})"),
            "v1,aTF4+pE6A/FmvKM0YSVBBUfRhLIlBiaBUR+EjGls6Mc=");
}

TEST(WebhookSignature, OnlySecretsOfTheRightFormAndLengthAreTaken) {
  auto const taken = [](std::string const& s) { return webhook::key_of_secret(s).has_value(); };
  std::string const four = "AAAA";  // three bytes
  auto const digits = [&](int groups) {
    std::string all = "whsec_";
    for (int i = 0; i < groups; ++i) all += four;
    return all;
  };
  EXPECT_TRUE(taken(digits(8))) << "24 bytes";
  EXPECT_FALSE(taken(digits(7) + "AAA=")) << "23 bytes";
  EXPECT_TRUE(taken(digits(21) + "AA==")) << "64 bytes";
  EXPECT_FALSE(taken(digits(21) + "AAA=")) << "65 bytes";
  EXPECT_FALSE(taken(digits(22))) << "66 bytes";
  EXPECT_FALSE(taken(digits(2000)));
  EXPECT_FALSE(taken(digits(8).substr(6))) << "without the prefix";
  EXPECT_FALSE(taken("whsec_"));
  EXPECT_FALSE(taken(digits(8) + "A"));
  EXPECT_FALSE(taken(digits(8) + "A==="));
  EXPECT_FALSE(taken(digits(8) + "A=A="));
  EXPECT_FALSE(taken(digits(8) + "AA A"));
  EXPECT_FALSE(taken(digits(8) + "AA-_")) << "the digits of the other base64";
  EXPECT_FALSE(taken(digits(8) + "\n"));
}

TEST(WebhookRetryAfter, IsSecondsOrADateUpToADay) {
  constexpr std::time_t now = 1893456000;  // 2030-01-01T00:00:00Z
  EXPECT_EQ(webhook::retry_after("120", now), 120s);
  EXPECT_EQ(webhook::retry_after("  7 ", now), 7s);
  EXPECT_EQ(webhook::retry_after("0", now), 1s) << "a receiver is not called again at once";
  EXPECT_EQ(webhook::retry_after("86401", now), 24h);
  EXPECT_EQ(webhook::retry_after("99999999999999999999999", now), 24h);
  EXPECT_EQ(webhook::retry_after("Tue, 01 Jan 2030 00:01:00 GMT", now), 60s);
  EXPECT_EQ(webhook::retry_after("Tuesday, 01-Jan-30 00:01:00 GMT", now), 60s) << "an old form";
  EXPECT_EQ(webhook::retry_after("Tue Jan  1 00:01:00 2030", now), 60s) << "and an older one";
  EXPECT_EQ(webhook::retry_after("Mon, 31 Dec 2029 23:00:00 GMT", now), 1s) << "it is over";
  EXPECT_EQ(webhook::retry_after("Tue, 01 Jan 2036 00:00:00 GMT", now), 24h);
  for (std::string const garbage : {"", "soon", "-5", "+5", "1.5", "5 minutes", "12:30", "Tue, 99 Foo 2030", "1e3"}) {
    EXPECT_EQ(webhook::retry_after(garbage, now), std::nullopt) << garbage;
  }
}

error refused(webhook::options const& o) {
  try {
    webhook::check(o);
  } catch (error const& e) {
    return e;
  }
  return error{errc::lifecycle, "it was taken"};
}

TEST(WebhookOptions, WrongOnesAreRefusedByNameAndWithoutSecrets) {
  std::string const secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
  webhook::options const good{.url = "https://receiver.example/hook?token=hidden", .secrets = {secret}};
  EXPECT_NO_THROW(webhook::check(good));
  struct one {
    std::string field, problem;
    void (*change)(webhook::options&);
  };
  std::vector<one> const all = {
      {"url", "is empty", [](auto& o) { o.url = ""; }},
      {"url", "is not a URL", [](auto& o) { o.url = "receiver.example/hidden"; }},
      {"url", "is not a URL", [](auto& o) { o.url = "https://a b/hidden"; }},
      {"url", "has no host", [](auto& o) { o.url = "https:///hidden"; }},
      {"url", "allow_http", [](auto& o) { o.url = "http://receiver.example/?hidden"; }},
      {"url", "must begin with https", [](auto& o) { o.url = "ftp://receiver.example/hidden"; }},
      {"url", "must begin with https", [](auto& o) { o.url = "file:///etc/hidden"; }},
      {"url", "a user or a password", [](auto& o) { o.url = "https://user:hidden@receiver.example/"; }},
      {"url", "a fragment", [](auto& o) { o.url = "https://receiver.example/#hidden"; }},
      {"secrets", "is empty", [](auto& o) { o.secrets = {}; }},
      {"secrets", "at position 2", [](auto& o) { o.secrets.emplace_back("whsec_hidden"); }},
      {"secrets", "more than 10", [](auto& o) { o.secrets.assign(11, o.secrets[0]); }},
      {"timeout", "100 ms to 5 min", [](auto& o) { o.timeout = 99ms; }},
      {"timeout", "100 ms to 5 min", [](auto& o) { o.timeout = 301s; }},
      {"max_in_flight", "1 to 1000", [](auto& o) { o.max_in_flight = 0; }},
      {"max_in_flight", "1 to 1000", [](auto& o) { o.max_in_flight = 1001; }},
      {"headers", "'a b'",
       [](auto& o) {
         o.headers = {{"a b", "hidden"}};
       }},
      {"headers", "'Webhook-Id'",
       [](auto& o) {
         o.headers = {{"Webhook-Id", "hidden"}};
       }},
      {"headers", "'HOST'",
       [](auto& o) {
         o.headers = {{"HOST", "hidden"}};
       }},
      {"headers.x", "a control character",
       [](auto& o) {
         o.headers = {{"x", "hidden\r\n"}};
       }},
      {"ca_file", "cannot be read", [](auto& o) { o.ca_file = "/no/such/file"; }},
  };
  for (auto const& w : all) {
    auto o = good;
    w.change(o);
    auto const e = refused(o);
    EXPECT_EQ(e.code(), errc::invalid_option) << w.field << " " << w.problem;
    EXPECT_EQ(e.field(), w.field) << w.problem;
    EXPECT_THAT(e.what(), HasSubstr(w.problem));
    EXPECT_THAT(e.what(), Not(HasSubstr("hidden")));
    EXPECT_THAT(e.what(), Not(HasSubstr("MDEy")));
  }
}

}  // namespace
}  // namespace outbox
