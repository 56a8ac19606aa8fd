// One connection to a Redis server: commands, answers, accounts and addresses.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "link_fixture.hpp"
#include "support/free_port.hpp"

namespace outbox {
namespace {

TEST_F(RedisLink, CommandsAreAnsweredInTheirOrder) {
  auto const l = to(redis_server::shared().url());
  std::string const binary{"a\0b\r\n\xFF", 6};
  EXPECT_EQ(l->call({"ECHO", binary}).text(), binary);
  EXPECT_EQ(l->call({"ECHO", {}}).text(), "");
  for (int i = 0; i < 1000; ++i) l->add({"ECHO", std::to_string(i)});
  EXPECT_FALSE(l->alive()) << "the next command would get the answer of another";
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(l->next().number(), i);
  EXPECT_TRUE(l->alive());
}

TEST_F(RedisLink, AnswersOfEveryKindAreRead) {
  auto const l = to(redis_server::shared().url());
  auto const a = l->call({"EVAL", "return {1, 'two', false, {3, redis.status_reply('four')}, '-5'}", "0"});
  ASSERT_EQ(a.size(), 5U);
  EXPECT_EQ(a[0].number(), 1);
  EXPECT_EQ(a[1].text(), "two");
  EXPECT_EQ(a[1].number(), 0);
  EXPECT_TRUE(a[2].nil());
  EXPECT_EQ(a[3][0].number(), 3);
  EXPECT_EQ(a[3][1].text(), "four");
  EXPECT_EQ(a[4].number(), -5);
  EXPECT_TRUE(a[5].nil());
  EXPECT_TRUE(a[0][0].nil());
  EXPECT_TRUE(l->call({"GET", "link_test:not_there"}).nil());
}

TEST_F(RedisLink, AnErrorOfTheServerLeavesTheConnectionUsable) {
  auto const l = to(redis_server::shared().url());
  auto const e = thrown_by([&] { l->call({"GET", "a", "b"}); });
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), HasSubstr("cannot run GET: ERR wrong number of arguments"));
  l->add({"NO_SUCH_COMMAND"});
  l->add({"ECHO", "x"});
  EXPECT_TRUE(l->next().failed());
  EXPECT_EQ(l->next().text(), "x");
  EXPECT_TRUE(l->alive());
}

TEST_F(RedisLink, ValuesMayBeLargerThanAnyBuffer) {
  auto const l = to(redis_server::shared().url());
  std::string const large(20'000'000, 'x');
  for (int i = 0; i < 3; ++i) l->add({"ECHO", large});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(l->next().text() == large);
  EXPECT_TRUE(l->alive());
}

// As a proxy does, that has no room for the answers of many commands.
TEST_F(RedisLink, AnswersAreReadWhileCommandsAreSent) {
  std::string const answers = "$1000000\r\n" + std::string(1'000'000, 'y') + "\r\n";
  scripted_server server{[&](auto& c) {
    if (!c.read_until("outbox\r\n") || !c.say(greeting)) return;
    while (c.read_until("\n") && c.say(answers)) {
    }
  }};
  auto const l = to(url_of(server));
  std::string const large(1'000'000, 'x');
  for (int i = 0; i < 50; ++i) l->add({"ECHO", large});
  l->flush();
  EXPECT_EQ(l->next().text().size(), 1'000'000U);
}

TEST_F(RedisLink, TheServerKnowsTheNameOfTheClientAndTheClientTheServer) {
  auto const l = to(redis_server::shared().url(3));
  EXPECT_EQ(l->call({"CLIENT", "GETNAME"}).text(), "outbox");
  EXPECT_THAT(std::string{l->call({"INFO", "server"}).text()}, HasSubstr("redis_version:" + l->server().version));
  EXPECT_NE(l->server().version, "");
  EXPECT_FALSE(l->server().cluster);
  EXPECT_FALSE(l->server().replica);
  EXPECT_THAT(std::string{l->call({"CLIENT", "LIST"}).text()}, HasSubstr(" db=3 "));
}

TEST_F(RedisLink, ADatabaseThatTheServerDoesNotHaveIsRefused) {
  redis_server const server;
  auto const e = refusal_of(server.url(16));
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("index is out of range"), HasSubstr(std::to_string(server.port()))));
}

std::string with_account(redis_server const& s, std::string const& account) {
  return "redis://" + account + "@127.0.0.1:" + std::to_string(s.port());
}

TEST_F(RedisLink, AnAccountThatTheServerRefusesIsNotTransient) {
  redis_server const open;
  redis_server const closed{{.settings = {"requirepass right", "user bob on >bobs +@all ~*", "user out off >bobs +@all",
                                          "user any on nopass +@all ~*"}}};
  for (std::string const account : {":right", "default:right", "bob:bobs", "any", "any:x"}) {
    EXPECT_EQ(to(with_account(closed, account))->call({"ECHO", "x"}).text(), "x") << account;
  }
  for (auto const& url :
       {closed.url(), with_account(closed, ":s3cret"), with_account(closed, "bob:s3cret"), with_account(closed, "bob"),
        with_account(closed, "nobody:s3cret"), with_account(closed, "out:bobs"), with_account(open, ":s3cret")}) {
    auto const e = refusal_of(url);
    EXPECT_EQ(e.code(), errc::store_failure) << url << ": " << e.what();
    EXPECT_THAT(e.what(), AllOf(HasSubstr("127.0.0.1:"), Not(HasSubstr("s3cret")))) << url;
  }
}

// A server tells the words of a command that it does not know.
TEST_F(RedisLink, APasswordIsNotShownBySomeServersAnswer) {
  redis_server const server{{.settings = {"rename-command AUTH \"\""}}};
  for (auto const& account :
       {std::string{":s3cret"}, std::string{"s3cret:s3cret"}, ":" + std::string(100, 'a') + "s3cret"}) {
    auto const e = refusal_of(with_account(server, account));
    EXPECT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("AUTH"), Not(HasSubstr("s3cret")), Not(HasSubstr("aaa")))) << account;
  }
}

// What an account may not do is written to a log of the server at every attempt.
TEST_F(RedisLink, ToConnectNeedsNoRights) {
  redis_server const server{{.settings = {"user poor on >x resetkeys -@all"}}};
  auto const l = to(with_account(server, "poor:x"));
  EXPECT_NE(l->server().version, "");
  EXPECT_THAT(server.ask({"CLIENT", "LIST"}), HasSubstr("name=outbox"));
  EXPECT_EQ(server.ask({"ACL", "LOG"}), "");
  EXPECT_EQ(thrown_by([&] { l->call({"GET", "x"}); }).code(), errc::store_failure);
}

TEST_F(RedisLink, ASentinelIsRefusedByName) {
  redis_server const sentinel{{.sentinel = true}};
  auto const e = refusal_of(sentinel.url());
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), HasSubstr("Sentinel"));
}

TEST_F(RedisLink, AClusterIsKnownByItsGreeting) {
  redis_server const server{{.cluster = true}};
  auto const l = to(server.url());
  EXPECT_TRUE(l->server().cluster);
  EXPECT_EQ(l->call({"SET", "x", "1"}).text(), "OK");
  auto const e = refusal_of(server.url(1));
  EXPECT_EQ(e.code(), errc::store_failure);
  EXPECT_THAT(e.what(), HasSubstr("cluster mode"));
}

TEST_F(RedisLink, AReplicaIsKnownByItsGreetingAndTakesNoChanges) {
  redis_server primary;
  to(primary.url())->call({"SET", "x", "1"});
  redis_server const replica{{.replica_of = primary.port()}};
  auto const l = to(replica.url());
  EXPECT_TRUE(l->server().replica);
  EXPECT_EQ(l->call({"GET", "x"}).text(), "1");
  l->add({"SET", "x", "2"});
  auto const a = l->next();
  EXPECT_TRUE(leads_elsewhere(a)) << a.text();
  EXPECT_EQ(error_of(a, "").code(), errc::unavailable);
}

TEST_F(RedisLink, AServerWithTooManyClientsIsTransient) {
  redis_server const server{{.settings = {"maxclients 1"}}};
  auto const first = to(server.url());
  for (int i = 0; i < 20; ++i) {  // it says so before it is asked, and closes the connection
    auto const e = refusal_of(with_account(server, ":s3cret"));
    EXPECT_EQ(e.code(), errc::unavailable);
    EXPECT_THAT(e.what(), HasSubstr("max number of clients"));
  }
}

TEST_F(RedisLink, ThroughAUnixSocket) {
  redis_server const server;
  auto const l = to("redis:///2?socket=" + server.socket());
  EXPECT_THAT(std::string{l->call({"CLIENT", "LIST"}).text()}, AllOf(HasSubstr("/socket"), HasSubstr(" db=2 ")));
  auto const e = refusal_of("redis://:s3cret@h?socket=" + server.directory() + "/nowhere");
  EXPECT_EQ(e.code(), errc::unavailable);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("/nowhere"), Not(HasSubstr("s3cret"))));
}

bool has_ipv6() {
  ::sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  a.sin6_addr = in6addr_loopback;
  int const s = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool const bound = s >= 0 && ::bind(s, reinterpret_cast<::sockaddr*>(&a), sizeof a) == 0;
  ::close(s);
  return bound;
}

TEST_F(RedisLink, ThroughIpv6) {
  if (!has_ipv6()) GTEST_SKIP() << "this machine has no address ::1";
  redis_server const server;
  auto const l = to("redis://[::1]:" + std::to_string(server.port()));
  EXPECT_THAT(std::string{l->call({"CLIENT", "LIST"}).text()}, HasSubstr("laddr=[::1]:"));
}

// A name may have several addresses, and the server listens on one of them.
TEST_F(RedisLink, ByTheNameOfTheHost) {
  redis_server const server{{.settings = {"bind 127.0.0.1"}}};
  EXPECT_EQ(to("redis://localhost:" + std::to_string(server.port()))->call({"ECHO", "x"}).text(), "x");
}

TEST_F(RedisLink, NoServerIsTransientAndNamed) {
  auto const port = std::to_string(free_port());
  for (std::string const& host : {"127.0.0.1:" + port, "localhost:" + port, std::string{"nowhere.invalid:6379"}}) {
    auto const e = refusal_of("redis://bob:s3cret@" + host);
    EXPECT_EQ(e.code(), errc::unavailable) << e.what();
    EXPECT_THAT(e.what(), AllOf(HasSubstr("cannot connect to the server " + host), Not(HasSubstr("s3cret"))));
  }
}

// A program that this one starts must not hold the connection open.
TEST_F(RedisLink, NoOtherProgramInheritsIt) {
  auto const lowest_free = [] {
    int const fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(fd);
    return fd;
  };
  auto& server = redis_server::shared();
  int const fd = lowest_free();
  auto const l = to(server.url());
  ASSERT_NE(lowest_free(), fd) << "the connection has this descriptor";
  EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

// For a subscriber.

class RedisWait : public RedisLink {
 protected:
  RedisWait() {
    if (::pipe2(ends_, O_CLOEXEC) != 0) throw std::runtime_error{"no pipe"};
  }
  ~RedisWait() override {
    for (int const fd : ends_) ::close(fd);
  }
  int interrupt() const noexcept { return ends_[0]; }
  void interrupt_now() const { ASSERT_EQ(::write(ends_[1], "x", 1), 1); }

  std::string const channel = "link_test:" + std::to_string(::getpid());
  std::unique_ptr<link> listener = to(redis_server::shared().url());

 private:
  int ends_[2] = {-1, -1};
};

TEST_F(RedisWait, AMessageIsWaitedFor) {
  listener->add({"SUBSCRIBE", channel});
  ASSERT_TRUE(listener->wait(patience, interrupt()));
  EXPECT_EQ(listener->next()[0].text(), "subscribe");
  EXPECT_TRUE(listener->alive());
  EXPECT_FALSE(listener->wait(0ms, interrupt()));
  auto const speaker = to(redis_server::shared().url());
  speaker->add({"PUBLISH", channel, "one"});
  speaker->add({"PUBLISH", channel, "two"});
  EXPECT_EQ(speaker->next().number() + speaker->next().number(), 2);
  for (std::string const text : {"one", "two"}) {
    ASSERT_TRUE(listener->wait(patience, interrupt()));
    ASSERT_TRUE(listener->wait(0ms, interrupt())) << "it is still there";
    EXPECT_EQ(listener->next()[2].text(), text);
  }
}

TEST_F(RedisWait, AnotherThreadEndsTheWait) {
  listener->add({"SUBSCRIBE", channel});
  EXPECT_EQ(listener->next()[0].text(), "subscribe");
  std::thread other{[&] { interrupt_now(); }};
  EXPECT_FALSE(listener->wait(patience, interrupt()));
  other.join();
  EXPECT_TRUE(listener->alive());
}

TEST_F(RedisWait, AServerThatSendsWithoutAnEndDoesNotProlongIt) {
  scripted_server server{[](auto& c) {
    if (!meet(c, "SUBSCRIBE") || !c.say("$1000000000\r\n")) return;
    while (c.say("x")) {
    }
  }};
  listener = to(url_of(server));
  listener->add({"SUBSCRIBE", channel});
  EXPECT_FALSE(listener->wait(impatience, interrupt()));
  interrupt_now();
  EXPECT_FALSE(listener->wait(patience * 1000, interrupt()));
  listener.reset();
}

TEST_F(RedisWait, TheEndOfTheServerEndsTheWait) {
  redis_server server;
  listener = to(server.url());
  listener->add({"SUBSCRIBE", channel});
  EXPECT_EQ(listener->next()[0].text(), "subscribe");
  std::thread other{[&] { server.kill_hard(); }};
  EXPECT_EQ(thrown_by([&] { static_cast<void>(listener->wait(patience, interrupt())); }).code(), errc::unavailable);
  other.join();
}

}  // namespace
}  // namespace outbox
