// One connection to a Redis server, and everything that can go wrong on it.
#include <gmock/gmock.h>

#include <outbox/error.hpp>

#include "redis/link.hpp"
#include "support/redis_server.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using redis::link;
using redis::parse_url;

// Long enough for a machine that is busy.
constexpr auto patience = 60s;

TEST(RedisLink, CommandsAreAnsweredInTheirOrder) {
  auto& server = redis_server::shared();
  link l{parse_url(server.url()), patience, patience};
  std::string const binary{"a\0b\r\n\xFF", 6};
  EXPECT_EQ(l.call({"ECHO", binary}).text(), binary);
  EXPECT_EQ(l.call({"ECHO", ""}).text(), "");
  for (int i = 0; i < 1000; ++i) l.add({"ECHO", std::to_string(i)});
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(l.next().number(), i);
  EXPECT_TRUE(l.alive());
}

}  // namespace
}  // namespace outbox
