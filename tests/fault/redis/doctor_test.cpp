// What the store finds wrong with a Redis server: each thing is broken, found, mended as the finding says, and passed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <outbox/redis.hpp>
#include <outbox/spi/store.hpp>
#include <sstream>

#include "support/findings.hpp"
#include "support/redis_server.hpp"
#include "support/waiting.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;
using spi::finding_level;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A server of its own, with settings that have nothing to complain about.
class RedisDoctor : public ::testing::Test {
 protected:
  RedisDoctor() : server{{.settings = {"appendfsync always"}}}, store{open({})} {}

  [[nodiscard]] std::shared_ptr<outbox::store> open(redis::options o) const {
    o.log = nullptr;
    return redis::open(server.url(), std::move(o));
  }
  spi::finding found(std::string const& code) { return finding_of(*store, code); }

  // Sends what the finding says, as an operator does.
  void mend(spi::finding const& f) const {
    std::istringstream in{f.fix};
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    ASSERT_GE(words.size(), 3U) << f.fix;
    server.ask(words);
  }
  void expect_mended(std::string const& code, finding_level complains) {
    auto const f = found(code);
    EXPECT_EQ(f.level, complains) << f.text;
    EXPECT_NE(f.why, "");
    mend(f);
    EXPECT_TRUE(eventually([&] { return found(code).level == finding_level::passed; })) << found(code).text;
  }

  redis_server server;
  std::shared_ptr<outbox::store> store;
};

TEST_F(RedisDoctor, ANewOutboxIsWell) {
  EXPECT_THAT(complaints_of(*store), IsEmpty());
  for (auto const& f : store->backend().findings({})) EXPECT_EQ(f.level, finding_level::passed) << f.code;
}

TEST_F(RedisDoctor, AServerThatEvictsKeysIsAProblemAndIsNotOpenedAgain) {
  server.ask({"CONFIG", "SET", "maxmemory-policy", "volatile-lru"});
  EXPECT_THROW(static_cast<void>(open({})), error);
  EXPECT_NO_THROW(static_cast<void>(open({.read_only = true}))) << "a tool must be able to say so";
  expect_mended("eviction", finding_level::problem);
  EXPECT_NO_THROW(static_cast<void>(open({})));
}

TEST_F(RedisDoctor, WithoutTheAppendOnlyFileItWarns) {
  server.ask({"CONFIG", "SET", "appendonly", "no"});
  EXPECT_THROW(static_cast<void>(found("appendfsync")), std::runtime_error) << "then that does not matter";
  expect_mended("append_only", finding_level::warning);
  EXPECT_EQ(found("appendfsync").level, finding_level::passed);
}

TEST_F(RedisDoctor, HowOftenTheServerReachesTheDiskIsTold) {
  server.ask({"CONFIG", "SET", "appendfsync", "everysec"});
  EXPECT_THAT(found("appendfsync").text, HasSubstr("the last second or two"));
  expect_mended("appendfsync", finding_level::note);
  server.ask({"CONFIG", "SET", "appendfsync", "no"});
  expect_mended("appendfsync", finding_level::warning);
}

TEST_F(RedisDoctor, MemoryThatIsNearlyFullIsFound) {
  auto const used = [&] {
    auto const info = server.ask({"INFO", "memory"});
    return std::stoull(info.substr(info.find("used_memory:") + 12));
  }();
  server.ask({"CONFIG", "SET", "maxmemory", std::to_string(used * 100 / 88)});
  EXPECT_EQ(found("memory").level, finding_level::warning) << found("memory").text;
  server.ask({"CONFIG", "SET", "maxmemory", std::to_string(used)});
  EXPECT_EQ(found("memory").level, finding_level::problem) << found("memory").text;
  EXPECT_THAT(found("memory").fix, HasSubstr("CONFIG SET maxmemory"));
  server.ask({"CONFIG", "SET", "maxmemory", std::to_string(used * 10)});
  EXPECT_EQ(found("memory").level, finding_level::passed);
}

TEST_F(RedisDoctor, ReplicasThatTheStoreWaitsForMustBeThere) {
  auto const waiting = open({.replicas = 1});
  EXPECT_EQ(finding_of(*waiting, "replicas").level, finding_level::problem);
  EXPECT_EQ(found("replicas").level, finding_level::passed) << "there is none, and none is waited for";
  redis_server const replica{{.replica_of = server.port()}};
  EXPECT_TRUE(eventually([&] { return finding_of(*waiting, "replicas").level == finding_level::passed; }));
  EXPECT_EQ(found("replicas").level, finding_level::note) << "there is one, and it is not waited for";
}

TEST_F(RedisDoctor, AReplicaIsNoServerForNodes) {
  EXPECT_EQ(found("read_only_server").level, finding_level::passed);
  redis_server const replica{{.replica_of = server.port()}};
  auto const there = redis::open(replica.url(), {.log = nullptr, .read_only = true});
  EXPECT_EQ(finding_of(*there, "read_only_server").level, finding_level::problem);
}

TEST_F(RedisDoctor, EventsWhoseOwnerIsGoneAreFound) {
  EXPECT_EQ(found("expired_leases").level, finding_level::passed);
  server.ask({"ZADD", "{outbox}:leased", "1000000", "0000000000000001a"});
  EXPECT_EQ(found("expired_leases").level, finding_level::problem) << "no node is there";
  store->backend().heartbeat(
      {.incarnation = "n:1:x", .name = "n", .mode = node_mode::multi_node, .lease = 1h, .active = true});
  EXPECT_EQ(found("expired_leases").level, finding_level::warning);
}

TEST_F(RedisDoctor, ANewerOutboxThatAllowsThisLibraryIsANote) {
  server.ask({"HSET", "{outbox}:meta", "version", "99"});
  EXPECT_EQ(found("schema_version").level, finding_level::note);
  server.ask({"HSET", "{outbox}:meta", "version", std::to_string(spi::schema_version)});
  EXPECT_EQ(found("schema_version").level, finding_level::passed);
}

// What an account may not ask is skipped, and says which right is missing; it is not taken for well.
TEST_F(RedisDoctor, WhatTheAccountMayNotAskIsSkipped) {
  server.ask({"ACL", "SETUSER", "u", "on", ">pw", "~*", "&*", "+@all", "-info", "-config"});
  auto url = server.url();
  url.insert(url.find("://") + 3, "u:pw@");
  auto const s = redis::open(url, {.log = nullptr});
  for (auto const* const code : {"eviction", "append_only", "read_only_server", "appendfsync", "replicas", "memory"}) {
    auto const f = finding_of(*s, code);
    EXPECT_EQ(f.level, finding_level::skipped) << code << ": " << f.text;
  }
  EXPECT_THAT(finding_of(*s, "eviction").text, HasSubstr("NOPERM"));
}

}  // namespace
}  // namespace outbox
