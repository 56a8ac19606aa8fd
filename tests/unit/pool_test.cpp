// The connections of a store, and what is told of waits for them.
#include <gtest/gtest.h>

#include <outbox/error.hpp>
#include <vector>

#include "core/base/pool.hpp"

namespace outbox {
namespace {

using namespace std::chrono_literals;

struct fake_connection {
  [[nodiscard]] bool alive() const noexcept { return true; }
  [[nodiscard]] bool clean() const noexcept { return true; }
  [[nodiscard]] static bool spoiled_by(error const&) noexcept { return false; }
};
using fake_pool = core::pool<fake_connection>;

TEST(Pool, OnlyARequestThatWaitsForAConnectionInUseIsToldOf) {
  fake_pool pool{[] { return std::make_unique<fake_connection>(); }, 2, 1ms};
  std::vector<std::chrono::nanoseconds> waits;
  auto const told = pool.on_wait([&](auto time) { waits.push_back(time); });
  int refused = 0;
  pool.with([&](fake_connection&) {
    pool.with([&](fake_connection&) {
      EXPECT_TRUE(waits.empty()) << "a second connection was free";
      try {
        pool.with([](fake_connection&) { FAIL() << "there is no third one"; });
      } catch (error const& e) {
        refused += e.code() == errc::unavailable ? 1 : 0;
      }
    });
  });
  EXPECT_EQ(refused, 1);
  ASSERT_EQ(waits.size(), 1U) << "a wait in vain is one too";
  EXPECT_GE(waits[0], 1ms);
  pool.with([](fake_connection&) {});
  EXPECT_EQ(waits.size(), 1U);
}

TEST(Pool, EverySubscriberIsToldUntilItsSubscriptionEnds) {
  fake_pool pool{[] { return std::make_unique<fake_connection>(); }, 1, 0ms};
  auto const wait = [&] {
    pool.with([&](fake_connection&) { EXPECT_THROW(pool.with([](fake_connection&) {}), error); });
  };
  int first = 0;
  int second = 0;
  auto one = pool.on_wait([&](auto) { ++first; });
  {
    auto const two = pool.on_wait([&](auto) {
      ++second;
      throw std::runtime_error{"a bad subscriber"};
    });
    wait();
  }
  wait();
  EXPECT_EQ(first, 2);
  EXPECT_EQ(second, 1);
  one = {};
  wait();
  EXPECT_EQ(first, 2);
  EXPECT_THROW(static_cast<void>(pool.on_wait({})), error);
}

TEST(Pool, ASubscriptionMayOutliveThePool) {
  spi::subscription told;
  {
    fake_pool pool{[] { return std::make_unique<fake_connection>(); }, 1, 0ms};
    told = pool.on_wait([](auto) {});
  }
  EXPECT_TRUE(told);
}

}  // namespace
}  // namespace outbox
