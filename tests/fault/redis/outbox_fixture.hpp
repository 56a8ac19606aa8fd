// An outbox of its own on a Redis server, for each case.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <outbox/outbox.hpp>
#include <outbox/redis.hpp>
#include <outbox/spi/store.hpp>
#include <string>
#include <vector>

#include "support/redis_server.hpp"
#include "support/waiting.hpp"

namespace outbox {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

/// What `f` throws. Fails if it throws nothing.
template <class F>
error error_by(F&& f) {
  try {
    f();
  } catch (error const& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return error{errc::unsupported, "nothing was thrown"};
}

class RedisOutbox : public ::testing::Test {
 protected:
  explicit RedisOutbox(redis_server& s = redis_server::shared()) : server{s}, db{s.url()} {}

  [[nodiscard]] redis::options options() const { return {.name = name, .log = {}}; }
  [[nodiscard]] std::shared_ptr<store> open() const { return redis::open(server.url(), options()); }
  [[nodiscard]] std::string key(std::string const& rest) const { return "{" + name + "}:" + rest; }

  // Writes without a transaction.
  static void put(store& s, std::string const& id, std::string const& type = "t") {
    auto const e = event::json(type, "1", {.id = id});
    spi::insertion const row{&e};
    s.backend().insert(join(no_transaction), std::span{&row, 1});
  }
  static std::vector<std::string> claim(store& s, std::string token = "n/1", std::size_t limit = 100) {
    std::vector<std::string> ids;
    for (auto const& r : s.backend().claim({.token = std::move(token), .limit = limit, .lease = 30s}).rows) {
      ids.push_back(r.handle.id);
    }
    return ids;
  }

  redis_server& server;
  std::string const name = "fault-" + std::to_string(::getpid()) + "-" + new_event_id();
  redis::connection db;
};

}  // namespace outbox
