// Names, addresses, certificates and proxies: what never reaches the receiver.
#include <cstdlib>

#include "fault/webhook/fixture.hpp"
#include "support/free_port.hpp"

namespace outbox {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using how = published::how;
using namespace std::chrono_literals;

TEST_F(Webhook, APrivateAddressIsRefusedByDefault) {
  for (std::string const host : {"127.0.0.1", "localhost", "0x7f000001", "[::ffff:127.0.0.1]"}) {
    auto o = options("http://" + host + ":" + server.port() + "/ok?token=hidden");
    o.allow_private_addresses = false;
    auto const p = with(o);
    EXPECT_EQ(p.what, how::unavailable) << host;
    EXPECT_THAT(p.reason, HasSubstr("allow_private_addresses")) << host;
    EXPECT_THAT(p.reason, Not(HasSubstr("hidden")));
  }
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(Webhook, ANameThatDoesNotExistIsUnavailable) {
  auto o = options("https://receiver.invalid/hook?token=hidden");
  o.timeout = 5s;
  auto const p = with(o);
  EXPECT_EQ(p.what, how::unavailable) << p.reason;
  EXPECT_THAT(p.reason, Not(HasSubstr("hidden")));
}

TEST_F(Webhook, ARefusedConnectionIsCounted) {
  auto const p = with(options("http://127.0.0.1:" + std::to_string(free_port()) + "/hook?token=hidden"));
  EXPECT_EQ(p.what, how::failed) << p.reason;
  EXPECT_THAT(p.reason, Not(HasSubstr("hidden")));
}

TEST_F(Webhook, OverTlsTheCertificateIsVerified) {
  own_certificate const right{"IP:127.0.0.1,DNS:localhost"};
  own_certificate const other{"DNS:other.example"};
  webhook_server secure{right}, impostor{other};

  auto o = options(secure.url("/ok"));
  o.allow_http = false;
  auto const unknown = with(o);
  EXPECT_EQ(unknown.what, how::unavailable) << "no authority of the system signed it";
  EXPECT_THAT(unknown.reason, HasSubstr("certificate"));

  o.ca_file = right.path();
  EXPECT_EQ(with(o).what, how::stored);

  o.url = impostor.url("/ok");
  o.ca_file = other.path();
  auto const wrong_host = with(o);
  EXPECT_EQ(wrong_host.what, how::unavailable) << "it is the certificate of another host";
  EXPECT_EQ(impostor.requests(), 0);

  o.url = "https://127.0.0.1:" + server.port() + "/ok";
  EXPECT_EQ(with(o).what, how::unavailable) << "the receiver does not speak TLS";
  EXPECT_EQ(server.requests(), 0);
}

TEST_F(Webhook, OverTlsConnectionsAreReusedAndMayBreak) {
  own_certificate const c{"IP:127.0.0.1"};
  webhook_server secure{c};
  auto o = options(secure.url("/ok"));
  o.ca_file = c.path();
  auto const to = webhook::open(o);
  for (int i = 0; i < 10; ++i) {
    send(*to, "e" + std::to_string(i));
    ASSERT_EQ(report("e" + std::to_string(i)).what, how::stored);
  }
  EXPECT_EQ(secure.connections(), 1);
  o.url = secure.url("/close");
  EXPECT_EQ(with(o).what, how::unsure);
}

// Variables of the process are read when a request is made.
TEST_F(Webhook, ProxiesOfTheEnvironmentAreIgnored) {
  auto const dead = "http://127.0.0.1:" + std::to_string(free_port());
  own_certificate const c{"IP:127.0.0.1"};
  webhook_server secure{c};
  for (auto const* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) {
    ::setenv(name, dead.c_str(), 1);
  }
  EXPECT_EQ(at("/ok").what, how::stored);
  auto o = options(secure.url("/ok"));
  o.ca_file = c.path();
  EXPECT_EQ(with(o).what, how::stored);
  for (auto const* name : {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) ::unsetenv(name);
}

}  // namespace
}  // namespace outbox
