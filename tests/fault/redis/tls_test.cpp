// Encrypted connections to Redis: who is trusted, and what does not speak TLS.
#include "link_fixture.hpp"
#include "support/certificates.hpp"

namespace outbox {
namespace {

class RedisTls : public RedisLink {
 protected:
  static redis_server::setup with_certificate(certificates const& files, std::string const& name) {
    return {.settings = {"tls-cert-file " + files(name + ".crt"), "tls-key-file " + files(name + ".key")}, .tls = true};
  }

  // The URL of a server with other parameters than its own.
  static std::string with(redis_server const& s, std::string const& parameters, std::string const& host = "127.0.0.1") {
    return "rediss://" + host + ":" + std::to_string(s.port()) + "?" + parameters;
  }

  static bool connects(std::string const& url) { return to(url)->call({"ECHO", "x"}).text() == "x"; }
};

TEST_F(RedisTls, TheServerMustBeTheOneOfTheUrl) {
  redis_server const server{{.tls = true}};
  auto const& files = server.files();
  auto const ca = "ssl_ca=" + files("ca.crt");
  EXPECT_TRUE(connects(server.url()));
  EXPECT_TRUE(connects(with(server, ca, "localhost")));
  EXPECT_TRUE(connects(with(server, ca + "&ssl=on")));
  EXPECT_TRUE(connects(with(server, "ssl=on"))) << "without a check";
  EXPECT_TRUE(connects("redis://127.0.0.1:" + std::to_string(server.port()) + "?ssl=verify&" + ca));

  auto const other_ca = "ssl_ca=" + files("other_ca.crt");
  for (auto const& wrong : {std::string{}, std::string{"ssl=verify"}, other_ca, other_ca + "&ssl=on"}) {
    auto const e = refusal_of(with(server, wrong));
    EXPECT_EQ(e.code(), errc::store_failure) << wrong;
    EXPECT_THAT(e.what(), AllOf(HasSubstr("certificate"), HasSubstr("127.0.0.1:" + std::to_string(server.port()))));
  }
}

TEST_F(RedisTls, ACertificateOfAnotherHostIsRefused) {
  certificates const files;
  redis_server const server{with_certificate(files, "elsewhere")};
  auto const ca = "ssl_ca=" + files("ca.crt");
  for (std::string const host : {"127.0.0.1", "localhost"}) {
    auto const e = refusal_of(with(server, ca, host));
    EXPECT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), HasSubstr("mismatch"));
    EXPECT_TRUE(connects(with(server, ca + "&ssl=on", host))) << "the authority alone is checked";
  }
}

TEST_F(RedisTls, AnExpiredCertificateIsRefused) {
  certificates const files;
  redis_server const server{with_certificate(files, "expired")};
  for (std::string const how : {"ssl=verify", "ssl=on"}) {
    auto const e = refusal_of(with(server, how + "&ssl_ca=" + files("ca.crt")));
    EXPECT_EQ(e.code(), errc::store_failure);
    EXPECT_THAT(e.what(), HasSubstr("expired"));
  }
  EXPECT_TRUE(connects(with(server, "ssl=on")));
}

// In TLS 1.3 the server refuses the client after the handshake, when it may have answered already or ended.
TEST_F(RedisTls, AClientMayHaveToShowWhoItIs) {
  for (std::string const version : {"TLSv1.2", "TLSv1.3"}) {
    redis_server const server{{.settings = {"tls-auth-clients yes", "tls-protocols " + version}, .tls = true}};
    auto const& files = server.files();
    auto const known = server.url() + "&ssl_cert=" + files("client.crt") + "&ssl_key=" + files("client.key");
    EXPECT_TRUE(connects(known)) << version;
    for (int i = 0; i < 50; ++i) {
      auto const e = refusal_of(server.url());
      EXPECT_EQ(e.code(), errc::store_failure) << version << ": " << e.what();
      EXPECT_THAT(e.what(), HasSubstr("refuses TLS")) << version;
    }
  }
}

TEST_F(RedisTls, FilesThatCannotBeUsedAreNamedByTheirParameter) {
  redis_server const server{{.tls = true}};
  auto const& files = server.files();
  auto const refused = [&](std::string const& parameters) {
    auto const e = refusal_of(with(server, parameters));
    EXPECT_EQ(e.code(), errc::store_failure);
    return std::string{e.what()};
  };
  EXPECT_THAT(refused("ssl_ca=/nowhere"), HasSubstr("ssl_ca"));
  EXPECT_THAT(refused("ssl_ca=" + files("server.key")), HasSubstr("ssl_ca"));
  EXPECT_THAT(refused("ssl=on&ssl_cert=/nowhere"), HasSubstr("ssl_cert"));
  EXPECT_THAT(refused("ssl=on&ssl_cert=" + files("client.crt")), HasSubstr("ssl_key"));
  EXPECT_THAT(refused("ssl=on&ssl_cert=" + files("client.crt") + "&ssl_key=" + files("server.key")),
              HasSubstr("ssl_key"));
}

TEST_F(RedisTls, APortWithoutTlsIsToldFromOneWithIt) {
  scripted_server talking{[](auto& c) {
    if (!c.read().empty() && c.say("-ERR Protocol error\r\n")) c.read_to_end();
  }};
  auto const plain = refusal_of("rediss://:s3cret@" + talking.address());
  EXPECT_EQ(plain.code(), errc::store_failure);
  EXPECT_THAT(plain.what(), HasSubstr("does not speak TLS"));

  redis_server const open;  // waits for the end of the line, if there is none among random bytes
  auto const waiting = thrown_by([&] {
    link{parse_url("rediss://:s3cret@127.0.0.1:" + std::to_string(open.port())), impatience, patience};
  });
  EXPECT_THAT(waiting.what(), AllOf(HasSubstr("speak TLS"), Not(HasSubstr("s3cret"))));

  redis_server const secure{{.tls = true}};
  for (int i = 0; i < 20; ++i) {
    auto const e = refusal_of("redis://:s3cret@127.0.0.1:" + std::to_string(secure.port()));
    EXPECT_EQ(e.code(), errc::unavailable) << e.what();
    EXPECT_THAT(e.what(), Not(HasSubstr("s3cret")));
  }
}

TEST_F(RedisTls, AServerThatEndsOrHangsInTheHandshakeIsUnavailable) {
  std::string const begin{"\x16\x03\x03\x00\x7A\x02\x00\x00\x76\x03\x03", 11};  // of the server's first message
  for (bool const closed : {false, true}) {
    scripted_server server{[&](auto& c) {
      if (!c.read().empty() && c.say(begin) && !closed) c.read_to_end();
    }};
    auto const e = thrown_by([&] {
      link{parse_url("rediss://" + server.address()), closed ? patience : std::chrono::milliseconds{impatience},
           patience};
    });
    EXPECT_EQ(e.code(), errc::unavailable) << e.what();
  }
}

// A record of TLS has 16 KiB at most.
TEST_F(RedisTls, ValuesMayBeLargerThanARecord) {
  redis_server const server{{.tls = true}};
  auto const l = to(server.url());
  std::string const large(5'000'000, 'x');
  for (int i = 0; i < 3; ++i) l->add({"ECHO", large});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(l->next().text() == large);
  for (int i = 0; i < 20'000; ++i) l->add({"ECHO", std::to_string(i)});
  for (int i = 0; i < 20'000; ++i) ASSERT_EQ(l->next().number(), i);
}

// The server sends tickets that it was not asked for.
TEST_F(RedisTls, AConnectionIsAliveUntilTheServerEndsIt) {
  redis_server server{{.tls = true}};
  auto const l = to(server.url());
  EXPECT_TRUE(l->alive());
  l->call({"ECHO", "x"});
  EXPECT_TRUE(l->alive());
  EXPECT_FALSE(l->wait(0ms, -1));
  server.kill_hard();
  EXPECT_TRUE(eventually([&] { return !l->alive(); }));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(thrown_by([&] { l->call({"ECHO", std::string(1'000'000, 'x')}); }).code(), errc::unavailable);
  }
}

TEST_F(RedisTls, AServerThatIsStoppedIsUnavailable) {
  redis_server const server{{.tls = true}};
  link large{parse_url(server.url()), patience, impatience};
  ASSERT_EQ(::kill(server.pid(), SIGSTOP), 0);
  large.add({"ECHO", std::string(50'000'000, 'x')});
  EXPECT_THAT(thrown_by([&] { large.flush(); }).what(), HasSubstr("in time"));
  auto const e = thrown_by([&] { link{parse_url(server.url()), impatience, impatience}; });
  EXPECT_EQ(e.code(), errc::unavailable);
  ASSERT_EQ(::kill(server.pid(), SIGCONT), 0);
}

}  // namespace
}  // namespace outbox
