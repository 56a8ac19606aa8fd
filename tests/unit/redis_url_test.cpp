// URLs of Redis servers, and what the errors of a server mean.
#include <gmock/gmock.h>

#include <cstring>
#include <outbox/error.hpp>

#include "redis/link.hpp"
#include "redis/url.hpp"

namespace outbox {
namespace {

using redis::parse_url;
using redis::shown;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RedisUrl, ItsPartsAreRead) {
  auto const a = parse_url(
      "rediss://bob:pa%20ss%2F%40%3A%3F%23%25@db.example.com:7000/12?ssl=on&ssl_ca=/a%26b&ssl_cert=c&ssl_key=k");
  EXPECT_EQ(a.user, "bob");
  EXPECT_EQ(a.password, "pa ss/@:?#%");
  EXPECT_EQ(a.host, "db.example.com");
  EXPECT_EQ(a.port, 7000U);
  EXPECT_EQ(a.database, 12U);
  EXPECT_EQ(a.tls, redis::tls::on);
  EXPECT_EQ(a.ca, "/a&b");
  EXPECT_EQ(a.certificate, "c");
  EXPECT_EQ(a.key, "k");
  EXPECT_EQ(shown(a), "db.example.com:7000");
}

TEST(RedisUrl, WhatItDoesNotSayHasADefault) {
  auto const a = parse_url("redis://h");
  EXPECT_EQ(a.user + a.password + a.socket + a.ca + a.certificate + a.key, "");
  EXPECT_EQ(a.port, 6379U);
  EXPECT_EQ(a.database, 0U);
  EXPECT_EQ(a.tls, redis::tls::off);
  EXPECT_EQ(parse_url("redis://").host, "localhost");
  EXPECT_EQ(parse_url("redis:///3").database, 3U);
  EXPECT_EQ(parse_url("redis://h/").database, 0U);
}

TEST(RedisUrl, AnAccountMayBeAPasswordAlone) {
  auto const a = parse_url("redis://:s3cret@h");
  EXPECT_EQ(a.user, "");
  EXPECT_EQ(a.password, "s3cret");
  auto const b = parse_url("redis://bob@h");
  EXPECT_EQ(b.user, "bob");
  EXPECT_EQ(b.password, "");
}

TEST(RedisUrl, TheSchemeOrAParameterAsksForTls) {
  EXPECT_EQ(parse_url("rediss://h").tls, redis::tls::verify);
  EXPECT_EQ(parse_url("rediss://h?ssl=on").tls, redis::tls::on);
  EXPECT_EQ(parse_url("redis://h?ssl=on").tls, redis::tls::on);
  EXPECT_EQ(parse_url("redis://h?ssl=verify").tls, redis::tls::verify);
  EXPECT_EQ(parse_url("redis://h?ssl=off").tls, redis::tls::off);
}

TEST(RedisUrl, AMessageNamesTheServerSoThatItCanBeCopied) {
  EXPECT_EQ(shown(parse_url("redis://bob:s3cret@h/1")), "h:6379");
  EXPECT_EQ(shown(parse_url("redis://[::1]:7/1")), "[::1]:7");
  EXPECT_EQ(shown(parse_url("redis://:s3cret@h?socket=/run/a%20b")), "/run/a b");
}

std::string refused(std::string const& url) {
  try {
    static_cast<void>(parse_url(url));
    ADD_FAILURE() << url << " was read";
    return {};
  } catch (error const& e) {
    EXPECT_EQ(e.code(), errc::invalid_option) << url;
    EXPECT_EQ(e.field(), "url") << url;
    return e.what();
  }
}

TEST(RedisUrl, WhatIsWrongIsSaid) {
  for (std::string const url : {"", "redis", "redis:", "redis:/h", "mysql://h", "REDIS://h", " redis://h", "host:6379",
                                "redisx://h", "redis+tls://h"}) {
    EXPECT_THAT(refused(url), HasSubstr("redis:// or rediss://")) << url;
  }
  for (std::string const scheme : {"redis+sentinel", "rediss+sentinel", "redis-sentinel", "sentinel"}) {
    EXPECT_THAT(refused(scheme + "://h:26379/mymaster"), HasSubstr("Sentinel")) << scheme;
  }
  for (std::string const database : {"x", "-1", "+1", "1x", " 1", "99999999999", "2147483648", "0x1", "mymaster"}) {
    EXPECT_THAT(refused("redis://h/" + database), HasSubstr("database")) << database;
  }
  for (std::string const port : {"", "0", "65536", "x", "6379x", "-1"}) {
    EXPECT_THAT(refused("redis://h:" + port + "/1"), HasSubstr("port")) << port;
  }
  EXPECT_THAT(refused("redis://h?ssl=try"), HasSubstr("off, on or verify"));
  EXPECT_THAT(refused("rediss://h?ssl=off"), HasSubstr("ssl=off"));
  EXPECT_THAT(refused("redis://h?ssl_ca=/ca"), HasSubstr("no TLS"));
  EXPECT_THAT(refused("redis://h?ssl=off&ssl_key=k"), HasSubstr("no TLS"));
  EXPECT_THAT(refused("rediss://h?ssl_key=k"), HasSubstr("no ssl_cert"));
  EXPECT_THAT(refused("rediss://h?socket=/s"), HasSubstr("unix socket"));
  EXPECT_THAT(refused("redis://h?socket=/" + std::string(107, 's')), HasSubstr("too long"));
  EXPECT_THAT(refused("redis://h?colour=red"), HasSubstr("unknown parameter"));
}

// Whatever becomes of a URL on its way into a program.
TEST(RedisUrl, NoPartOfAWrongUrlIsShown) {
  std::string_view const marks = "/@?#:%[]&=, \\\"'+;";
  for (char const first : marks) {
    for (char const second : marks) {
      for (std::string const begin : {"redis://bob:s3cret", "rediss://:10", "sentinel://bob:s3cret", "s3cret://bob:"}) {
        auto const url = begin + first + "s3cret" + second + "s3cret@h:1/1";
        try {
          // What can be read has the password where no message shows it.
          EXPECT_THAT(shown(parse_url(url)), Not(HasSubstr("s3cret"))) << url;
        } catch (error const& e) {
          EXPECT_THAT(e.what(), Not(HasSubstr("s3cret"))) << url;
        }
      }
    }
  }
}

// An error as the parser returns it.
class RedisErrors : public ::testing::Test {
 protected:
  redis::answer_view say(std::string const& text) {
    text_ = text;
    reply_.type = REDIS_REPLY_ERROR;
    reply_.str = text_.data();
    reply_.len = text_.size();
    return redis::answer_view{&reply_};
  }

 private:
  std::string text_;
  redisReply reply_{};
};

TEST_F(RedisErrors, ThoseThatPassAreTransient) {
  for (std::string const text :
       {"LOADING Redis is loading the dataset in memory",
        "ERR Error running script (call to f_4ab): @user_script:7: @user_script: 7: -OOM command not allowed when used "
        "memory > 'maxmemory'.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "READONLY You can't write against a read only replica.", "MISCONF Errors writing to the AOF file",
        "NOREPLICAS Not enough good replicas to write.", "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys request during rehashing of slot", "MOVED 1 127.0.0.1:2", "ASK 1 127.0.0.1:2",
        "ERR max number of clients reached", "ERR max number of clients + cluster connections reached"}) {
    auto const e = error_of(say(text), "cannot claim");
    EXPECT_EQ(e.code(), errc::unavailable) << text;
    EXPECT_EQ(e.what(), "cannot claim: " + text);
  }
}

TEST_F(RedisErrors, AllOthersAreNot) {
  for (std::string const text :
       {"NOPERM User outbox has no permissions to run the 'eval' command", "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.", "WRONGTYPE Operation against a key", "ERR",
        "ERR unknown command 'x'", "NOSCRIPT No matching script.", "CROSSSLOT Keys in request don't hash to one slot",
        "BUSYGROUP Consumer Group name already exists", "BUSYKEY Target key name already exists.", "", " LOADING"}) {
    EXPECT_EQ(error_of(say(text), "cannot claim").code(), errc::store_failure) << text;
    EXPECT_FALSE(leads_elsewhere(say(text))) << text;
  }
}

TEST_F(RedisErrors, WhatAHostileServerSaysIsCutAndMadeValid) {
  auto const e = error_of(say("ERR \xFF" + std::string(100'000, 'x')), "cannot claim");
  EXPECT_LT(std::strlen(e.what()), 1000U);
  EXPECT_THAT(e.what(), HasSubstr("\xEF\xBF\xBD"));
}

TEST_F(RedisErrors, SomeSayThatTheConnectionLeadsToTheWrongServer) {
  for (std::string const text : {"READONLY x", "MASTERDOWN x", "LOADING x", "CLUSTERDOWN x", "MOVED 1 h:2"}) {
    EXPECT_TRUE(leads_elsewhere(say(text))) << text;
  }
  for (std::string const text : {"OOM x", "BUSY x", "ASK 1 h:2", "TRYAGAIN x"}) {
    EXPECT_FALSE(leads_elsewhere(say(text))) << text;
  }
}

TEST_F(RedisErrors, AMovedKeyIsFollowedWithTheSameAccount) {
  auto const from = parse_url("rediss://bob:s3cret@first:7000?ssl_ca=/ca");
  auto const to = moved_to(say("MOVED 3999 10.0.0.7:7001"), from);
  ASSERT_NE(to, nullptr);
  EXPECT_EQ(shown(*to), "10.0.0.7:7001");
  EXPECT_EQ(to->user + ":" + to->password, "bob:s3cret");
  EXPECT_EQ(to->tls, redis::tls::verify);
  EXPECT_EQ(to->ca, "/ca");
  EXPECT_EQ(shown(*moved_to(say("MOVED 3999 ::1:7001"), from)), "[::1]:7001");
  EXPECT_EQ(shown(*moved_to(say("MOVED 3999 :7001"), from)), "first:7001");
  EXPECT_EQ(shown(*moved_to(say("MOVED 3999 h:7001"), parse_url("redis://?socket=/s"))), "h:7001");
  for (std::string const text : {"MOVED", "MOVED 3999", "MOVED 3999 h", "MOVED 3999 h:", "MOVED 3999 h:0",
                                 "MOVED 3999 h:65536", "MOVED 3999 h:x", "MOVED 3999 ?:7001", "ASK 1 h:2", "ERR", ""}) {
    EXPECT_EQ(moved_to(say(text), from), nullptr) << text;
  }
}

}  // namespace
}  // namespace outbox
