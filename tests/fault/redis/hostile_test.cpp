// Servers that hang, end, or do not speak the protocol of Redis.
#include <csignal>
#include <latch>

#include "link_fixture.hpp"
#include "support/free_port.hpp"

namespace outbox {
namespace {

class RedisHostile : public RedisLink {
 protected:
  using client = scripted_server::client;

  // A link whose waits are short: for a server that does not answer.
  static error late(std::string const& url) {
    return thrown_by([&] { link{parse_url(url), impatience, impatience}.call({"ECHO", "x"}); });
  }

  // What becomes of a command whose answer is this, and nothing behind it.
  static error answered(std::string const& text, bool closed) {
    scripted_server server{[&](client& c) {
      if (meet(c, "ECHO") && c.say(text) && !closed) c.read_to_end();
    }};
    link l{parse_url(url_of(server)), patience, closed ? patience : std::chrono::milliseconds{impatience}};
    auto e = thrown_by([&] { l.call({"ECHO", "x"}); });
    EXPECT_FALSE(l.alive());
    EXPECT_EQ(thrown_by([&] { static_cast<void>(l.next()); }).code(), e.code()) << "it is of no use any more";
    return e;
  }
};

TEST_F(RedisHostile, AServerThatSaysNothingIsUnavailable) {
  scripted_server server{[](client& c) { c.read_to_end(); }};
  for (std::string const scheme : {"redis://", "rediss://", "redis://bob:s3cret@"}) {
    auto const e = late(scheme + server.address());
    EXPECT_EQ(e.code(), errc::unavailable);
    EXPECT_THAT(e.what(), AllOf(HasSubstr(server.address()), HasSubstr("in time")));
  }
}

// One byte after the other, each of them soon.
TEST_F(RedisHostile, AServerThatNeverCompletesItsAnswerIsUnavailable) {
  scripted_server server{[](client& c) {
    if (!meet(c, "ECHO") || !c.say("$1000000000\r\n")) return;
    while (c.say("x")) {
    }
  }};
  link l{parse_url(url_of(server)), patience, impatience};
  auto const e = thrown_by([&] { l.call({"ECHO", "x"}); });
  EXPECT_EQ(e.code(), errc::unavailable);
  EXPECT_THAT(e.what(), HasSubstr("did not answer in time"));
  EXPECT_FALSE(l.alive()) << "the rest of the answer would be taken for another";
}

TEST_F(RedisHostile, AServerThatHangsOrEndsInTheMiddleOfAnAnswerIsUnavailable) {
  for (std::string const part : {"", "$", "$5\r\nhe", "$5\r\nhello\r", "*2\r\n$1\r\na\r\n", "*2\r\n*1\r\n", ":1", "+O",
                                 "$9223372036854775807\r\n", "$2147483647\r\nx", "*1000000\r\n"}) {
    auto const hung = answered(part, false);
    EXPECT_EQ(hung.code(), errc::unavailable) << part;
    EXPECT_THAT(hung.what(), HasSubstr("did not answer in time")) << part;
    auto const ended = answered(part, true);
    EXPECT_EQ(ended.code(), errc::unavailable) << part;
    EXPECT_THAT(ended.what(), AllOf(HasSubstr("was lost"), HasSubstr("127.0.0.1:"))) << part;
  }
}

TEST_F(RedisHostile, AServerThatDoesNotSpeakTheProtocolIsUnavailable) {
  for (std::string const& text : std::vector<std::string>{
           "HTTP/1.1 400 Bad Request\r\n\r\n", std::string(10, '\0'), "\r\n", "$x\r\n", "*99999999999999999999\r\n",
           "$-2\r\nx", "*-2\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"}) {
    auto const e = answered(text, false);
    EXPECT_EQ(e.code(), errc::unavailable) << text;
    EXPECT_THAT(e.what(), HasSubstr("does not speak the protocol of Redis")) << text;
  }
}

// The parser takes memory for a list before its elements have come.
TEST_F(RedisHostile, AnAnnouncedListOfBillionsIsRefusedAtOnce) {
  for (std::string const text : {"*2147483647\r\n", "*16777217\r\n", "*1\r\n*2\r\n:1\r\n*16777217\r\n"}) {
    auto const e = answered(text, false);
    EXPECT_EQ(e.code(), errc::unavailable) << text;
    EXPECT_THAT(e.what(), HasSubstr("too large")) << text;
  }
}

TEST_F(RedisHostile, WhatItWasNotAskedForIsNotTakenForAnAnswer) {
  for (std::string const text : {"+more\r\n", "+", "*1\r\n", "x"}) {
    scripted_server server{[&](client& c) {
      if (meet(c, "ECHO") && c.say("+x\r\n" + text)) c.read_to_end();
    }};
    auto const l = to(url_of(server));
    EXPECT_EQ(l->call({"ECHO", "x"}).text(), "x");
    EXPECT_TRUE(eventually([&] { return !l->alive(); })) << text;
    EXPECT_FALSE(l->alive()) << "asked again";
  }
}

TEST_F(RedisHostile, AServerThatSpeaksFirstSaysWhyItEndsTheConnection) {
  scripted_server server{[](client& c) { c.say("-DENIED Redis is running in protected mode\r\n"); }};
  for (int i = 0; i < 50; ++i) {
    auto const e = refusal_of("redis://bob:s3cret@" + server.address());
    EXPECT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), HasSubstr("DENIED"));
  }
}

TEST_F(RedisHostile, AServerThatEndsEveryConnectionIsUnavailable) {
  scripted_server server{[](client&) {}};
  for (std::string const scheme : {"redis://", "rediss://"}) {
    for (int i = 0; i < 50; ++i) {
      auto const e = refusal_of(scheme + server.address());
      EXPECT_EQ(e.code(), errc::unavailable) << e.what();
      EXPECT_THAT(e.what(), HasSubstr(server.address()));
    }
  }
}

// A write to a connection that has ended raises SIGPIPE, which would end this process.
TEST_F(RedisHostile, AServerThatIsKilledIsNoticed) {
  redis_server server;
  auto const idle = to(server.url());
  auto const busy = to(server.url());
  busy->call({"SET", "x", "1"});
  server.kill_hard();
  EXPECT_TRUE(eventually([&] { return !idle->alive(); }));
  for (int i = 0; i < 3; ++i) {
    busy->add({"SET", "x", std::string(1'000'000, 'x')});
    EXPECT_EQ(thrown_by([&] { static_cast<void>(busy->next()); }).code(), errc::unavailable);
  }
  server.start();
  EXPECT_EQ(to(server.url())->call({"GET", "x"}).text(), "1");
  EXPECT_FALSE(idle->alive()) << "it does not connect again by itself";
}

// A server that is stopped still has its sockets, and the system takes bytes for it until they are full.
TEST_F(RedisHostile, AServerThatTakesNoCommandsIsUnavailable) {
  redis_server const server;
  link large{parse_url(server.url()), patience, impatience};
  link small{parse_url(server.url()), patience, impatience};
  ASSERT_EQ(::kill(server.pid(), SIGSTOP), 0);
  EXPECT_EQ(thrown_by([&] { small.call({"ECHO", "x"}); }).code(), errc::unavailable);
  large.add({"ECHO", std::string(50'000'000, 'x')});
  EXPECT_THAT(thrown_by([&] { large.flush(); }).what(), HasSubstr("in time"));
  EXPECT_EQ(late(server.url()).code(), errc::unavailable);
  ASSERT_EQ(::kill(server.pid(), SIGCONT), 0);
  EXPECT_FALSE(small.alive()) << "its answer may come yet";
  EXPECT_FALSE(large.alive());
  EXPECT_EQ(to(server.url())->call({"ECHO", "x"}).text(), "x");
}

// The buffers between the two take a part of it.
TEST_F(RedisHostile, AServerThatTakesOnlyAPartOfACommandIsUnavailable) {
  std::latch over{1};
  scripted_server server{[&](client& c) {
    if (meet(c, "PING") && c.say("+PONG\r\n")) over.wait();
  }};
  link l{parse_url(url_of(server)), patience, impatience};
  l.call({"PING"});
  l.add({"ECHO", std::string(50'000'000, 'x')});
  EXPECT_THAT(thrown_by([&] { l.flush(); }).what(), HasSubstr("did not answer in time"));
  over.count_down();
}

// A server that loads its data takes connections, and says so to every command.
TEST_F(RedisHostile, AServerThatLoadsItsDataIsUnavailable) {
  scripted_server server{[](client& c) {
    if (meet(c, "ECHO") && c.say("-LOADING Redis is loading the dataset in memory\r\n")) c.read_to_end();
  }};
  auto const l = to(url_of(server));
  EXPECT_EQ(thrown_by([&] { l->call({"ECHO", "x"}); }).code(), errc::unavailable);
}

// A signal that arrives in the middle of a wait neither ends it nor makes it longer.
TEST_F(RedisHostile, SignalsDoNotDisturbAWait) {
  struct ::sigaction quiet {};
  struct ::sigaction before {};
  quiet.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &quiet, &before), 0);  // without SA_RESTART
  auto const us = ::pthread_self();
  scripted_server server{[&](client& c) {
    if (!meet(c, "ECHO")) return;
    for (int i = 0; i < 100; ++i) ::pthread_kill(us, SIGUSR1);
    c.say("+x\r\n");
    c.read_to_end();
  }};
  EXPECT_EQ(to(url_of(server))->call({"ECHO", "x"}).text(), "x");
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace outbox
